"""Praise against blame: short texts of one's own, and vectors for their words."""

import csv
from pathlib import Path
from typing import Any

import pytest
import settings
import torch

from quatgraph.tasks.text.config import TextConfig

GOOD, BAD = ["charming", "lovely", "funny"], ["dull", "awful", "flat"]
FILLERS = ["the", "film", "is", "a", "story", "of", "two", "old", "friends", "in", "town", "and"]
FILLERS += ["it", "was", "long"]
KNOWN = [*FILLERS, *GOOD, "splendid", "gloomy"]
"""Some words of the texts, and two others."""
SMALL: dict[str, Any] = {
    "data.dimensions": 8,
    "model.hidden_quats": 2,
    "model.dropout": 0.0,
    "model.pooled_dropout": 0.0,
    "model.length": 6,
    "train.epochs": 3,
    "train.batch_size": 16,
    "train.lr": 0.03,
}


def config_of(**values: Any) -> TextConfig:
    return settings.built(TextConfig, values, SMALL)


def options(**values: Any) -> list[str]:
    """The small settings on the command line."""
    small = settings.readable(TextConfig, SMALL, values)
    kept = [f"{key}={value}" for key, value in (small | values).items()]
    return [word for setting in kept for word in ("--set", setting)]


def review(place: int) -> tuple[str, str]:
    """Three to eight words and a mark, of which one tells the class; every second is praise."""
    words = [FILLERS[(5 * place + 3 * k) % len(FILLERS)] for k in range(2 + place % 6)]
    words.insert(place % 3, (GOOD, BAD)[place % 2][place // 2 % 3])
    return f"{' '.join(words).capitalize()}!", ("praise", "blame")[place % 2]


REVIEWS = [review(place) for place in range(60)]
TEXTS, LABELS = [text for text, _ in REVIEWS], [label for _, label in REVIEWS]


def written(
    path: Path, rows: list[Any] = REVIEWS, columns: tuple[str, ...] = ("text", "label")
) -> Path:
    """A table of one's own."""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
    return path


def vector_file(path: Path, words: list[str] = KNOWN, dimensions: int = 8) -> Path:
    """Vectors in GloVe's format: numbers that follow the word's letters."""
    rows = [
        [word, *(str(ord(word[k % len(word)]) * (k + 3) % 17 / 8 - 1) for k in range(dimensions))]
        for word in words
    ]
    path.write_text("".join(f"{' '.join(row)}\n" for row in rows))
    return path


def same(left: Any, right: Any) -> None:
    """Whether answers are the same, ids and notes aside."""
    torch.testing.assert_close(left.probabilities, right.probabilities)
    for one, other in zip(left.attention or [], right.attention or [], strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def rounded(metrics: dict[str, float]) -> dict[str, float]:
    """As records keep them."""
    return {name: float(f"{value:.6g}") for name, value in metrics.items()}
