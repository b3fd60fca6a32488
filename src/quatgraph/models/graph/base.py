"""The interface of graph classifiers."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from torch import nn

from quatgraph import config as configs
from quatgraph.models.common import Options

Matrix = Literal["none", "row", "symmetric", "neighbours"]
"""A + I, plain or normalized; or the mean over the neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(Options):
    """The hyperparameters of every graph classifier."""

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
        """The matrix that the model multiplies by."""
        return "none"

    @property
    def trains_on_four_copies(self) -> bool:
        """Whether the model is trained on :func:`four_copies` of the features."""
        return False

    def num_activations(self, nodes: int, entries: int) -> int:
        """An upper estimate of the values that a training step saves per member."""
        return 12 * nodes * self.width * self.num_layers


class GraphModel(nn.Module):
    """A graph classifier: ``forward(x, adjacency, pool)`` gives logits ``(G, C)``."""

    Options: ClassVar[type[GraphOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading member dimension."""
    needs_entries: ClassVar[bool] = False
    """Whether the adjacency of a batch must be :meth:`Blocks.expanded`."""
    propagations: ClassVar[int] = 0
    """How often features are propagated over the graph beforehand and appended, with the degree."""

    @classmethod
    def from_options(cls, options: GraphOptions, in_channels: int, num_classes: int) -> Self:
        """Builds the model of a configuration."""
        return cls(in_channels, num_classes, **options.arguments())
