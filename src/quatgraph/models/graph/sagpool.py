"""Self-attention graph pooling."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.graph.pooling import PoolingModel, PoolingOptions, subgraph_degrees
from quatgraph.ops.members import add_bias


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSAGPoolOptions(PoolingOptions):
    name: Literal["sagpool"] = "sagpool"


class SubgraphConv(nn.Module):
    r"""PyG's ``GCNConv`` on a subgraph:
    :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2} \mathbf{X W}^\top + \mathbf{b}`.

    Shape:
        - scale: the diagonal of :math:`\mathbf{D}^{-1/2}`, 0 for nodes outside, ``(N, 1)``
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = GlorotLinear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Features, adjacency: Matrix, scale: Tensor) -> Tensor:
        return add_bias(scale * (adjacency @ (scale * self.linear(x))), self.bias)


class SAGPoolBlock(nn.Module):
    """A layer of :class:`GraphSAGPool`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.conv = SubgraphConv(in_channels, out_channels)
        self.score = SubgraphConv(out_channels, 1)

    def forward(self, x: Features, adjacency: Matrix, kept: Tensor) -> tuple[Tensor, Tensor]:
        scale = kept * subgraph_degrees(adjacency, kept).rsqrt()
        y = torch.relu(self.conv(x, adjacency, scale))
        return y, self.score(y, adjacency, scale)


class GraphSAGPool(PoolingModel):
    """`Self-attention graph pooling <https://arxiv.org/abs/1904.08082>`_, its hierarchical form, on
    a graph with self-loops and no normalization. Layers and scores are GCN layers on the remaining
    nodes, as in PyG's ``SAGPooling`` with ``GNN=GCNConv``. For arguments and shapes see
    :class:`PoolingModel`.
    """

    Options = GraphSAGPoolOptions

    def block(self, in_channels: int, out_channels: int) -> nn.Module:
        return SAGPoolBlock(in_channels, out_channels)
