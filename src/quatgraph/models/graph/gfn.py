"""Graph feature network."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from quatgraph.blocks import padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.real import LinearOfSums
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGFNOptions(LayeredOptions):
    name: Literal["gfn"] = "gfn"


class GraphGFN(GraphModel):
    """`Graph feature network <https://arxiv.org/abs/1905.04579>`_: treats a graph as a set of nodes
    whose features include degrees and propagated features.

    Args:
        hidden: Width of the layers.
        num_layers: Number of layers applied to each node.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as in :class:`LayerwiseModel`; adjacency is ignored
    """

    Options = GraphGFNOptions
    propagations = 3

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.linears = nn.ModuleList(RealLinear(a, b) for a, b in sizes)
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.linears)
        self.graph_linear = LinearOfSums(hidden, hidden)
        self.graph_norm = BatchNorm(hidden, "relu")
        self.prediction = nn.Linear(hidden, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        graphs, nodes = padding_masks(pool, self.dropout.rate)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = norm(linear(x), nodes)
        return self.graph_norm(self.graph_linear(x, pool), graphs)
