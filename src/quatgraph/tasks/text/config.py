"""What decides a number of text classification, as typed configuration."""

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from quatgraph import config as configs
from quatgraph.models.text import MODELS, TextOptions, TextQGNN
from quatgraph.presets import Protocol
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for a person's own files."""
    path: str = ""
    """A ``.csv``, ``.tsv`` or ``.jsonl`` file, or a folder with a sub-folder per label."""
    text: str = ""
    """Name of the column that holds the texts; found out where it is left out."""
    label: str = ""
    """Name of the column that holds the labels; found out where it is left out."""
    missing: str | int = ""
    """Labels that count as missing, as an empty one always does; several with commas: ``NA,?``."""
    stop_words: bool = False
    """Whether English stop words are left out of a person's own texts."""
    min_count: int = 1
    """How often a word must come in a person's own texts to be kept."""
    vectors: str = "none"
    """Where the words' vectors are from: a name of the catalog, a file, or none: all are drawn."""
    dimensions: int = 64
    """Numbers of a vector, where all are drawn."""
    window: int = 3
    """Two words of a document are joined where they stand fewer words apart than this."""
    validation: float = 0.1
    """Share of the training documents that each run puts aside by a draw of its own, where the data
    has no validation part."""
    draw_seed: int = 0
    """Seed of a split that the files do not give, and of vectors for words that have none."""

    def __post_init__(self) -> None:
        configs.check(self, "data", counts=("min_count", "dimensions", "window"))
        if not 0 < self.validation < 1:
            raise ValueError(f"data.validation must be between 0 and 1, got {self.validation}")
        if not 0 <= self.draw_seed < 2**32:
            raise ValueError(f"data.draw_seed must be from 0 to {2**32 - 1}, got {self.draw_seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    epochs: int = 60
    """Passes over the training documents."""
    lr: float = 0.005
    batch_size: int = 64
    """Documents of a step."""
    weight_decay: float = 0.0
    """Adam's L2 factor, on all weights."""
    clip: float | None = 0.5
    """Largest norm of a run's gradient."""
    precision: Literal["float32", "tf32"] = "float32"
    """To what a GPU may round the factors of products in training: not at all, or to 10 bits."""
    select: Select = "best-valid"
    """Which epoch is kept: the last, or the one with the best validation accuracy, and among these
    with the lowest validation loss."""
    patience: int | None = 15
    """Epochs without a better one after which a run is over."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "train",
            positive=("epochs", "lr", "batch_size", "clip", "patience"),
            not_negative=("weight_decay",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig:
    """Everything that decides one number of text classification, besides the seed."""

    protocol: Protocol = "honest"
    """Both choose on validation data: ``paper`` with the paper's settings, ``honest`` with ours."""
    seeds: int = 1
    """Runs; each draws weights, batches and, where the data has none, a validation part."""
    data: DataConfig = field(default_factory=DataConfig)
    model: TextOptions = field(default_factory=TextQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`; likewise of vectors, and of columns."""
        values = configs.identity(self)
        values["data"] |= {"text": "", "label": ""}
        values["data"]["vectors"] = PurePath(self.data.vectors).name
        return values


VARYING = ("model.dropout", "model.pooled_dropout", "train.lr", "train.weight_decay")
"""Settings in which the members of one ensemble may differ."""
