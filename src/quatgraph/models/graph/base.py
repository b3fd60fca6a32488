"""The interface of graph classifiers."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from quatgraph.models.common import Count, Model, Options, Rate

Matrix = Literal["none", "row", "symmetric", "neighbours"]
"""A + I, plain or normalized; or the mean over the neighbours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphOptions(Options):
    """The hyperparameters of every graph classifier."""

    hidden_quats: Count = 16
    """Quaternions per layer; real models get the same width, four times as many reals."""
    num_layers: Count = 3
    """Number of layers."""
    pooled_dropout: Rate = 0.0
    """Rate on the summed vectors of a graph."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def matrix(self) -> Matrix:
        """The matrix that the model multiplies by."""
        return getattr(self, "normalization", "none")

    def num_activations(self, nodes: int, entries: int) -> int:
        """An upper estimate of the values that a training step saves per member."""
        return 12 * nodes * self.width * self.num_layers


class GraphModel(Model):
    """A graph classifier: ``forward(x, adjacency, pool)`` gives logits ``(G, C)``."""

    Options: ClassVar[type[GraphOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading member dimension."""
    needs_entries: ClassVar[bool] = False
    """Whether the adjacency of a batch must be :meth:`Blocks.expanded`."""
    propagations: ClassVar[int] = 0
    """How often features are propagated over the graph beforehand and appended, with the degree."""
