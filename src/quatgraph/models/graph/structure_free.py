"""Baselines that ignore edges."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.pooling import GraphPooling, Pooling, pooled_width
from quatgraph.layers.real import LinearOfSums
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import GraphModel, PoolingOptions, to_dense_features


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureFreeOptions(PoolingOptions):
    name: Literal["structure-free"] = "structure-free"
    vertex: bool = True
    """Whether to transform nodes before they are pooled."""


class StructureFree(GraphModel):
    """`Baselines that ignore edges <https://arxiv.org/abs/1912.09893>`_: they show what the graph
    adds.

    Args:
        vertex: Whether to apply a layer to each node before the pooling, as for social networks.
            Otherwise the features are pooled, as in the fingerprint of a molecule.
        hidden: Width of the layers.
        num_layers: Number of layers after the pooling.
        pooled_dropout: Rate on the graphs' vectors before the last linear map; the original has
            none.
        pooling: How nodes are pooled; see :class:`GraphPooling`. The original sums.

    Shape:
        - as in :class:`LayerwiseModel`; adjacency is ignored
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = StructureFreeOptions
    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        vertex: bool = False,
        hidden: int = 128,
        num_layers: int = 1,
        pooled_dropout: float = 0.0,
        pooling: Pooling = "sum",
    ) -> None:
        super().__init__()
        width = hidden if vertex else in_channels
        sizes = layer_sizes(pooled_width(width, pooling), hidden, num_layers)
        self.vertex = RealLinear(in_channels, hidden) if vertex else None
        self.pooled = LinearOfSums(*sizes[0])
        self.linears = nn.ModuleList(RealLinear(a, b) for a, b in sizes[1:])
        self.prediction = RealLinear(hidden, num_classes)
        self.pooling = GraphPooling(width, pooling)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        if self.vertex is not None:
            x = torch.relu(self.vertex(x))
        y = torch.relu(self._pool(x, pool))
        for linear in self.linears:
            y = torch.relu(linear(y))
        return y

    def _pool(self, x: Features, pool: Matrix) -> Tensor:
        """The first layer of pooled vectors."""
        if self.pooling.kind == "sum":  # sparse rows are mapped first
            return self.pooled(x, pool)
        pooled = self.pooling(to_dense_features(x, self.pooled.weight), pool)
        return RealLinear.forward(self.pooled, pooled)
