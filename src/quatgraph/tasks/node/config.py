"""What decides a node-classification number, as typed configuration."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.models.node import MODELS, QGNN, NodeOptions
from quatgraph.presets import Protocol
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for a person's own files."""
    path: str = ""
    """A folder with ``nodes.csv`` and ``edges.csv``."""
    directed: bool = False
    """Whether an edge of ``edges.csv`` speaks in its own direction only."""
    split_seed: int = 0
    """Seed of the split, where the files give none."""
    missing: str | int = ""
    """Labels that count as missing, as an empty one always does; several with commas: ``NA,?``."""
    scaling: Literal["auto", "none", "row", "standard"] = "auto"
    """Rows to sum 1, or columns standardised; auto: rows if mostly zeros and none negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4
    """Adam's L2 factor, on all weights."""
    select: Select = "best-valid"
    """Which epoch is kept: the last, or the first with the best validation accuracy."""
    patience: int | None = 100
    """Epochs without a better validation accuracy after which a run is over."""
    clip: float | None = None
    """Largest norm of a run's gradient."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "train",
            positive=("epochs", "lr", "patience", "clip"),
            not_negative=("weight_decay",),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """Everything that decides one node-classification number, besides split and seed."""

    protocol: Protocol = "honest"
    """``paper``: what the paper and its code do; ``honest``: all choices on validation data."""
    seeds: int = 1
    """Seeds per split."""
    data: DataConfig = field(default_factory=DataConfig)
    model: NodeOptions = field(default_factory=QGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))

    def identity(self) -> configs.Values:
        """See :func:`quatgraph.config.identity`."""
        return configs.identity(self)


VARYING = ("train.lr", "train.weight_decay", "model.dropout")
"""Settings in which the members of one ensemble may differ."""
