"""The interface of node classifiers."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import nn

from quatgraph import config as configs
from quatgraph.adjacency import Normalization
from quatgraph.models.common import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions(Options):
    """The hyperparameters of every node classifier."""

    hidden_quats: int = 16
    """Quaternions per hidden layer; real models get the same width, four times as many reals."""
    num_layers: int = 2
    """Hidden layers before the prediction layer."""
    dropout: float = 0.5
    """Rate on the input of every layer."""

    def __post_init__(self) -> None:
        configs.check(self, "model", counts=("hidden_quats", "num_layers"), rates=("dropout",))

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def matrix(self) -> Normalization:
        """The normalization of the adjacency matrix with self-loops."""
        return "none"

    @property
    def trains_on_four_copies(self) -> bool:
        """Whether the model is trained on :func:`four_copies` of the features."""
        return False

    def num_activations(self, nodes: int, edges: int) -> int:
        """An upper estimate of the values that a training step saves per member."""
        return 12 * nodes * self.width * self.num_layers


class NodeModel(nn.Module):
    """A node classifier: ``forward(x, adjacency)`` gives logits ``(N, C)``."""

    Options: ClassVar[type[NodeOptions]]

    @classmethod
    def from_options(cls, options: NodeOptions, in_channels: int, num_classes: int) -> Self:
        """Builds the model of a configuration."""
        return cls(in_channels, num_classes, **options.arguments())
