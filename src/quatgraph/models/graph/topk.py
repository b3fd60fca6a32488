"""Top-k pooling."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import Positive
from quatgraph.models.graph.pooling import PoolingModel, PoolingOptions, subgraph_degrees


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphTopKOptions(PoolingOptions):
    name: Literal["topk"] = "topk"
    ratio: Positive = 0.8
    """Share of a graph's nodes that each layer keeps, at most 1."""


class TopKBlock(nn.Module):
    """A layer of :class:`GraphTopK`; p is initialized as in PyG's ``TopKPooling``."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.neighbours = GlorotLinear(in_channels, out_channels, bias=False)
        self.own = GlorotLinear(in_channels, out_channels, bias=False)
        bound = 1 / math.sqrt(out_channels)
        self.projection = nn.Parameter(torch.empty(out_channels).uniform_(-bound, bound))

    def forward(self, x: Features, adjacency: Matrix, kept: Tensor) -> tuple[Tensor, Tensor]:
        # The vectors of nodes that are not kept are zero.
        mean = adjacency @ self.neighbours(x) / subgraph_degrees(adjacency, kept)
        y = torch.relu(mean + self.own(x))
        return y, y @ F.normalize(self.projection, dim=-1)[..., None]


class GraphTopK(PoolingModel):
    r"""`Sparse hierarchical graph classifier <https://arxiv.org/abs/1811.01287>`_ with the top-k
    pooling of Graph U-Nets, PyG's ``TopKPooling``, on a graph with self-loops and no normalization.

    .. math::
        \mathbf{H} = \mathrm{ReLU}(\mathbf{D}^{-1} \mathbf{A X W}^\top + \mathbf{X U}^\top), \qquad
        \mathbf{y} = \mathbf{H p} / \lVert \mathbf{p} \rVert

    For arguments and shapes see :class:`PoolingModel`.
    """

    Options = GraphTopKOptions

    def block(self, in_channels: int, out_channels: int) -> nn.Module:
        return TopKBlock(in_channels, out_channels)
