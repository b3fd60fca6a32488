"""Hyperbolic graph convolutional network."""

from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.hops import run_layer
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.hyperbolic import HyperbolicConv
from quatgraph.layers.linear import RealLinear
from quatgraph.models.common import Count, Positive, Rate, layer_sizes
from quatgraph.models.node.base import Edges, Graph, HiddenOptions, NodeModel


@dataclass(frozen=True, slots=True, kw_only=True)
class HGCNOptions(HiddenOptions):
    name: Literal["hgcn"] = "hgcn"
    num_layers: Count = 2
    """Hyperbolic layers; the prediction layer does not aggregate."""
    dropout: Rate = 0.5
    """Dropout rate on the weights, and on the logits."""
    bias: bool = True
    """Whether layers have a bias; without one the model is a GCN."""
    curvature: Positive = 1.0
    """The curvature of each layer's ball at the start."""
    learned_curvature: bool = True
    """Whether curvatures are learned."""
    normalization: Normalization = "row"
    """Normalization of the adjacency matrix with self-loops."""

    @property
    def hops(self) -> int:
        return self.num_layers


class HGCN(NodeModel):
    """`Hyperbolic graph convolutional network <https://arxiv.org/abs/1910.12933>`_ in the Poincaré
    ball, without attention: hyperbolic layers, then a linear map in the tangent space.

    Args:
        in_channels, num_classes, hidden: As in :class:`GCN`.
        num_layers: Hyperbolic layers, as many as hops.
        dropout: Rate on the weights of these layers, and on the logits, as in the authors' code.
        bias, curvature, learned_curvature: As in :class:`HyperbolicConv`.
    """

    Options = HGCNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 1,
        dropout: float = 0.5,
        bias: bool = True,
        curvature: float = 1.0,
        learned_curvature: bool = True,
    ) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            HyperbolicConv(
                a,
                b,
                bias=bias,
                dropout=dropout,
                curvature=curvature,
                learned_curvature=learned_curvature,
            )
            for a, b in layer_sizes(in_channels, hidden, num_layers)
        )
        self.prediction = RealLinear(hidden, num_classes)
        self.dropout = QuaternionDropout(dropout)

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        logits: Tensor = self.dropout(self.prediction(self.embed(x, adjacency, edge_weight)))
        return logits

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = self.prepare(x, adjacency, edge_weight)
        y = self._convolve(0, x, graph)
        for layer in range(1, len(self.convs)):
            y = self._convolve(layer, y, graph)
        return y

    def _convolve(self, layer: int, x: Tensor | Adjacency, graph: Graph) -> Tensor:
        conv: Any = self.convs[layer]

        def receive(sent: Tensor, x: Tensor | Adjacency, matrix: Adjacency, begin: int) -> Tensor:
            y: Tensor = conv.receive(sent, matrix)
            return y

        return run_layer(graph, layer, x, conv.send, receive)
