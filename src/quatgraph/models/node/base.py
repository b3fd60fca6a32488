"""What training and predicting know of a node classifier."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import nn

from quatgraph import config as configs
from quatgraph.adjacency import Normalization
from quatgraph.models.common import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions(Options):
    """What every node classifier reads."""

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
        """How the adjacency matrix with self-loops is normalized for the model."""
        return "none"

    @property
    def trains_on_four_copies(self) -> bool:
        """Whether training gives the model its features as :func:`four_copies`."""
        return False

    def num_activations(self, nodes: int, edges: int) -> int:
        """Numbers that a training step holds for one member, by a generous count."""
        return 12 * nodes * self.width * self.num_layers


class NodeModel(nn.Module):
    """A node classifier: ``forward(x, adjacency)`` gives logits ``(N, C)``."""

    Options: ClassVar[type[NodeOptions]]

    @classmethod
    def from_options(cls, options: NodeOptions, in_channels: int, num_classes: int) -> Self:
        """Builds the model of a configuration."""
        return cls(in_channels, num_classes, **options.arguments())
