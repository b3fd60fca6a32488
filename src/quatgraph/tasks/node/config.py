"""The configuration of node classification."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.data.encoding import Encoding
from quatgraph.data.labels import missing_labels
from quatgraph.data.node import ReadOptions
from quatgraph.models.node import MODELS, QGNN, NodeOptions
from quatgraph.tasks.config import ClassifierSettings, Config, DataSettings
from quatgraph.training.loop import Select

COLUMNS = ("id", "label", "split", "source", "target", "weight")
"""The settings that name a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(DataSettings):
    path: str = ""
    """A folder with the tables ``nodes`` and ``edges``."""
    directed: bool = False
    """Whether the edges are directed."""
    split_seed: int = 0
    """Seed of the split, if the files give none."""
    missing: str | int = configs.added("")
    """Labels that count as missing, besides an empty one; several with commas: ``NA,?``."""
    scaling: Literal["auto", "none", "row", "standard"] = "auto"
    """Rows that sum to 1, or standardised columns; auto: rows if mostly zeros, none negative."""
    id: str = configs.added("")
    """The column of the node ids; this and the columns below by their usual names if empty."""
    label: str = configs.added("")
    """The column of the labels."""
    split: str = configs.added("")
    """The column that says train, valid or test."""
    source: str = configs.added("")
    """The column of the edges' first nodes."""
    target: str = configs.added("")
    """The column of the edges' second nodes."""
    weight: str = configs.added("")
    """The column of the edges' weights."""

    def read_options(
        self, *, labels_needed: bool = True, encoding: Encoding | None = None
    ) -> ReadOptions:
        """How tables are read by these settings."""
        return ReadOptions(
            directed=self.directed,
            split_seed=self.split_seed,
            missing=missing_labels(self.missing),
            labels_needed=labels_needed,
            encoding=encoding,
            **{key: getattr(self, key) for key in COLUMNS},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig(ClassifierSettings):
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the one with the best validation metric."""
    ties: Literal["first", "loss"] = configs.added("first")
    """Which of several epochs with the best validation accuracy is selected: the first, or the one
    with the lowest validation loss, as for other metrics."""
    precision: Literal["float32", "tf32"] = configs.added("float32")
    """Precision of matrix products in training; tf32 rounds factors to 10 bits on a GPU."""
    patience: int | None = 100
    clip: float | None = None
    num_neighbors: Literal["auto"] | int | tuple[int, ...] = configs.added("auto")
    """How many neighbours a step draws for a node: a number per hop, as ``[15, 10]``, or one for
    all; -1 for all neighbours. 0 or ``[]`` trains on the whole graph, as auto does where that fits
    into memory."""
    batch_size: int = configs.added(1024)
    """Training nodes of a step on sampled neighbours."""

    def __post_init__(self) -> None:
        ClassifierSettings.__post_init__(self)
        configs.check(self, "train", counts=("batch_size",))
        given = self.num_neighbors
        numbers = given if isinstance(given, tuple) else (given,)
        allowed = numbers in (("auto",), (0,)) or all(n == -1 or n > 0 for n in numbers)  # type: ignore[operator]
        if not allowed:
            raise ValueError(
                "train.num_neighbors must be a number of neighbours for each hop, -1 for all, or 0 "
                f"to train on the whole graph, got {given if given in numbers else list(numbers)}"
            )

    @property
    def samples(self) -> bool:
        """Whether a step is on sampled neighbours."""
        return self.num_neighbors not in ("auto", 0, ())

    @property
    def without_batches(self) -> str:
        return "train.num_neighbors=0" if self.samples else ""

    @property
    def scores_epochs(self) -> bool:
        """Whether epochs are selected by :func:`quatgraph.tasks.selection.score_epoch`, in which
        the loss breaks ties."""
        return self.metric != "accuracy" or self.ties == "loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig(Config):
    """Everything that decides one node-classification number, besides split and seed."""

    data: DataConfig = field(default_factory=DataConfig)
    model: NodeOptions = field(default_factory=QGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)
