"""What training and predicting know of a graph classifier."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from torch import nn

from quatgraph import config as configs
from quatgraph.models.common import Options

Matrix = Literal["none", "row", "symmetric", "neighbours"]
"""A + I, as it is or normalized; or the mean over the neighbours alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(Options):
    """What every graph classifier reads."""

    hidden_quats: int = 16
    """Quaternions per layer; real models get the same width, four times as many reals."""
    num_layers: int = 3
    pooled_dropout: float = 0.0
    """Rate on the summed vectors of a graph."""

    def __post_init__(self) -> None:
        configs.check(
            self,
            "model",
            counts=("hidden_quats", "num_layers"),
            rates=("pooled_dropout",),
        )

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def matrix(self) -> Matrix:
        """The matrix that the model multiplies with."""
        return "none"

    @property
    def trains_on_four_copies(self) -> bool:
        """Whether training gives the model its features as :func:`four_copies`."""
        return False

    def num_activations(self, nodes: int, entries: int) -> int:
        """Numbers that a training step holds for one member, by a generous count."""
        return 12 * nodes * self.width * self.num_layers


class GraphModel(nn.Module):
    """A graph classifier: ``forward(x, adjacency, pool)`` gives logits ``(G, C)``."""

    Options: ClassVar[type[GraphOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading dimension of members."""
    needs_entries: ClassVar[bool] = False
    """Whether a batch's adjacency has to be a matrix of its own, see :meth:`Blocks.expanded`."""
    propagations: ClassVar[int] = 0
    """How often features are propagated over the graph beforehand, each as features of its own,
    with the degree; 0 for features as they are."""

    @classmethod
    def from_options(cls, options: GraphOptions, in_channels: int, num_classes: int) -> Self:
        """Builds the model of a configuration."""
        return cls(in_channels, num_classes, **options.arguments())
