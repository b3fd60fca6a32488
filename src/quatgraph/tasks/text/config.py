"""The configuration of text classification."""

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from quatgraph import config as configs
from quatgraph.models.text import MODELS, TextOptions, TextQGNN
from quatgraph.tasks.config import ClassifierSettings, Config, DataSettings

Loss = Literal["cross-entropy", "squared-hinge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(DataSettings):
    path: str = ""
    """A table, a file of JSON objects, a fastText file, or a folder with a sub-folder per label."""
    text: str = ""
    """Name of the column that holds the texts; detected by default."""
    label: str = ""
    """Name of the column that holds the labels; detected by default."""
    split: str = configs.added("")
    """Name of the column that says train, valid or test; ``split`` by default, if there is one."""
    group: str = configs.added("")
    """Name of a column, as ``author``: a sampled split keeps all texts of a group in one part."""
    missing: str | int = configs.added("")
    """Labels that count as missing, besides an empty one; several with commas: ``NA,?``."""
    stop_words: bool = False
    """Whether to remove English stop words from your own texts."""
    min_count: int = 1
    """How often a word must occur in your own texts to be kept."""
    vectors: str = "none"
    """Source of the word vectors: a name of the catalog, a file, or none for random ones."""
    dimensions: int = 64
    """Dimensions of random vectors."""
    window: int = 3
    """Words of a document are connected if they are fewer than so many words apart."""
    validation: float = 0.1
    """Share of the training documents that each run holds out for validation, if the data has no
    validation part."""
    draw_seed: int = 0
    """Seed of the split, if the files give none, and of random word vectors."""

    def __post_init__(self) -> None:
        configs.check(self, "data", counts=("min_count", "dimensions", "window"))
        if not 0 < self.validation < 1:
            raise ValueError(f"data.validation must be between 0 and 1, got {self.validation}")
        if not 0 <= self.draw_seed < 2**32:
            raise ValueError(f"data.draw_seed must be from 0 to {2**32 - 1}, got {self.draw_seed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(ClassifierSettings):
    epochs: int = 60
    """Passes over the training documents."""
    lr: float = 0.005
    batch_size: int | None = 64
    """Documents of a step; none for all of them, as a transductive model takes them."""
    loss: Loss = configs.added("cross-entropy")
    """Cross-entropy, or the squared hinge loss of one classifier per class, a linear SVM's."""
    precision: Literal["float32", "tf32"] = "float32"
    """Precision of matrix products in training; tf32 rounds factors to 10 bits on a GPU."""
    evaluate_every: int = configs.added(1)
    """Epochs between two validations."""
    patience: int | None = 15

    def __post_init__(self) -> None:
        ClassifierSettings.__post_init__(self)
        configs.check(self, "train", positive=("batch_size",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextConfig(Config):
    """Everything that decides one number of text classification, besides the seed.

    Both protocols choose on validation data: ``paper`` with the paper's settings, ``honest`` with
    ours. Each run samples its weights, its batches and, if need be, a validation part.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: TextOptions = field(default_factory=TextQGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`; names of columns and folders are left out too."""
        values = configs.identity(self)
        values["data"] |= {"text": "", "label": ""}
        for key in ("split", "group"):
            values["data"].pop(key, None)
        values["data"]["vectors"] = PurePath(self.data.vectors).name
        return values
