"""The configuration of node classification."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph import config as configs
from quatgraph.models.node import MODELS, QGNN, NodeOptions
from quatgraph.presets import Protocol
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig:
    name: str = ""
    """A dataset of the catalog or a built-in sample; empty for your own files."""
    path: str = ""
    """A folder with ``nodes.csv`` and ``edges.csv``."""
    directed: bool = False
    """Whether the edges of ``edges.csv`` are directed."""
    split_seed: int = 0
    """Seed of the split, if the files give none."""
    missing: str | int = ""
    """Labels that count as missing, besides an empty one; several with commas: ``NA,?``."""
    scaling: Literal["auto", "none", "row", "standard"] = "auto"
    """Rows that sum to 1, or standardised columns; auto: rows if mostly zeros, none negative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4
    """Adam's L2 penalty, on all weights."""
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the first with the best validation accuracy."""
    patience: int | None = 100
    """Epochs without a better validation accuracy after which a run stops."""
    clip: float | None = None
    """Maximum gradient norm of a run."""

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
