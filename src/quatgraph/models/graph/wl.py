"""The Weisfeiler-Lehman subtree kernel with a linear model."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.layers.linear import Features, Matrix
from quatgraph.models.graph.base import GraphModel, GraphOptions
from quatgraph.ops.members import add_bias


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWLOptions(GraphOptions):
    name: Literal["wl"] = "wl"
    rounds: Annotated[int, "not_negative"] = 5
    """Rounds of refinement; with 0 a graph is the bag of its nodes' tags or degrees."""
    edge_data: bool = configs.added(True)
    """Whether to use labels of edges, if there are some."""

    @property
    def width(self) -> int:
        """An entry of a histogram takes a number per class, and a few more."""
        return 4

    @property
    def colour_rounds(self) -> int | None:
        return self.rounds

    def num_activations(self, nodes: int, entries: int) -> int:
        return 8 * nodes * self.width

    def num_held(self, nodes: int) -> int:
        return nodes * (self.rounds + 1) * 16


class GraphWL(GraphModel):
    """The `Weisfeiler-Lehman subtree kernel <https://jmlr.org/papers/v12/shervashidze11a.html>`_:
    a linear model of the histogram of colours of a graph.

    Args:
        in_channels: Number of colours.
        num_classes: Number of classes C.

    Shape:
        - x: the entries of all histograms, one-hot
        - adjacency: ignored
        - pool: ``(G, N)``, the entries of each graph
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphWLOptions
    supports_members = True

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        # Zeros, so that a colour that no training graph has counts for nothing.
        self.weight = nn.Parameter(torch.zeros(in_channels, num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return add_bias(pool @ (x @ self.weight), self.bias)
