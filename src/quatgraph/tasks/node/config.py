"""The configuration of node classification."""

from dataclasses import dataclass, field
from typing import Literal

from quatgraph.models.node import MODELS, QGNN, NodeOptions
from quatgraph.tasks.config import ClassifierSettings, Config, DataSettings
from quatgraph.training.loop import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class DataConfig(DataSettings):
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
class TrainConfig(ClassifierSettings):
    epochs: int = 300
    lr: float = 0.01
    weight_decay: float = 5e-4
    select: Select = "best-valid"
    """Which epoch is selected: the last, or the first with the best validation accuracy;
    for other metrics, ties go to the lowest validation loss."""
    patience: int | None = 100
    clip: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig(Config):
    """Everything that decides one node-classification number, besides split and seed."""

    data: DataConfig = field(default_factory=DataConfig)
    model: NodeOptions = field(default_factory=QGNN.Options, metadata={"models": MODELS})
    train: TrainConfig = field(default_factory=TrainConfig)
