"""What decides a node-classification number, as typed configuration."""

from dataclasses import dataclass, field
from typing import Any, Literal

from quatgraph import config as configs
from quatgraph.adjacency import Normalization
from quatgraph.baselines.node import check_heads
from quatgraph.layers.dropout import Masks
from quatgraph.ops.activation import Activation
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
class ModelConfig:
    name: Literal["qgnn", "gcn", "gat", "mlp"] = "qgnn"
    hidden_quats: int = 16
    """Quaternions per hidden layer; real models get the same width, four times as many reals."""
    num_layers: int = 2
    """Hidden layers before the prediction layer."""
    dropout: float = 0.5
    """Rate on the input of every layer."""
    masks: Masks = "quaternion"
    """Dropout of QGNN: a mask per real number (four for an input feature), or per quaternion."""
    activation: Activation = "relu"
    """The activation g of QGNN."""
    skip: bool = True
    """Whether a layer also adds a product of the node's own vector; MLP has nothing else."""
    bias: bool = False
    """Whether the layers of QGNN or GCN add a learned vector."""
    heads: int = 8
    """Attention heads of GAT."""
    normalization: Normalization = "symmetric"
    """Of the adjacency matrix with self-loops; GAT always takes none."""

    def __post_init__(self) -> None:
        configs.check(
            self, "model", counts=("hidden_quats", "num_layers", "heads"), rates=("dropout",)
        )
        if self.name == "gat":
            check_heads(4 * self.hidden_quats, self.heads)


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
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        configs.check(self, "", counts=("seeds",))

    def identity(self) -> dict[str, Any]:
        """See :func:`quatgraph.config.identity`."""
        return configs.identity(self)


VARYING = ("train.lr", "train.weight_decay", "model.dropout")
"""Settings in which the members of one ensemble may differ."""
