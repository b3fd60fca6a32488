"""A few short texts of two classes, which a word tells apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import settings

from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig
from quatgraph.tasks.text.problem import Corpus

FILLERS = ["the", "old", "man", "saw", "a", "small", "house", "near", "that", "long", "river"]
FILLERS += ["and", "then", "went", "home"]
SMALL: dict[str, Any] = {
    "data.dimensions": 8,
    "model.hidden_quats": 2,
    "model.dropout": 0.0,
    "model.pooled_dropout": 0.0,
    "model.length": 6,
    "model.learned_vectors": False,
    "train.epochs": 3,
    "train.batch_size": 8,
    "train.lr": 0.02,
}


def text_of(place: int) -> str:
    """Three to seven words, of which one is that of the class."""
    words = [FILLERS[(place * 5 + k * 3) % len(FILLERS)] for k in range(2 + place % 5)]
    return " ".join([*words, ("cat", "dog")[place % 2]])


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., TextConfig]:
    """``(**settings)``: a small configuration; the texts have no validation part."""
    rows = [
        f"{text_of(place)}\t{('cats', 'dogs')[place % 2]}\t{'test' if place % 4 > 1 else 'train'}\n"
        for place in range(60)
    ]
    path = tmp_path / "pets.tsv"
    path.write_text("".join(["text\tlabel\tsplit\n", *rows]))

    def made(**values: Any) -> TextConfig:
        return settings.built(TextConfig, {"data.path": str(path)} | values, SMALL)

    return made


@pytest.fixture
def corpus(configured: Callable[..., TextConfig]) -> Corpus:
    return TEXT.load(configured())
