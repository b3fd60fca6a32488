"""The base class of graph classifiers that remove nodes layer by layer."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, padding_masks
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.models.common import Count, Positive, Rate, layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions
from quatgraph.ops.segments import keep_top, segment_max


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolingOptions(LayeredOptions):
    """The hyperparameters of graph classifiers that remove nodes layer by layer."""

    hidden_quats: Count = 32
    pooled_dropout: Rate = 0.5
    ratio: Positive = 0.5
    """Share of a graph's nodes that each layer keeps, at most 1."""

    def __post_init__(self) -> None:
        LayeredOptions.__post_init__(self)
        _check_ratio(self.ratio)


def subgraph_degrees(adjacency: Matrix, kept: Tensor) -> Tensor:
    """The degree of each node among the kept ones, with its loop, at least 1, ``(N, 1)``."""
    return (adjacency @ kept).clamp(min=1)


class PoolingModel(GraphModel):
    """A stack of layers. Each layer convolves the node vectors, scores the nodes, keeps the best
    and multiplies these by the tanh of their score. The maximum and the mean over the nodes that a
    layer keeps are summed over layers and go through a perceptron.

    Nodes are masked instead of removed, so the shapes of a batch stay the same. A subclass
    implements :meth:`block`.

    Args:
        in_channels: Number of features of a node.
        num_classes: Number of classes C.
        hidden: Width of the layers.
        num_layers: Number of layers.
        ratio: Share of a graph's nodes that each layer keeps, rounded up.
        pooled_dropout: Rate on the first hidden layer of the perceptron.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 3,
        ratio: float = 0.5,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_ratio(ratio)
        self.ratio = ratio
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.blocks = nn.ModuleList(self.block(a, b) for a, b in sizes)
        self.first = RealLinear(2 * hidden, hidden)
        self.second = RealLinear(hidden, max(1, hidden // 2))
        self.prediction = RealLinear(max(1, hidden // 2), num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def block(self, in_channels: int, out_channels: int) -> nn.Module:
        """Builds a layer, called as ``block(x, adjacency, kept)`` with 1 for the nodes that are
        left, else 0, ``(N, 1)``. It returns the vectors ``(N, out_channels)`` and the scores
        ``(N, 1)`` of all nodes; for nodes that are not left they have no effect."""
        raise NotImplementedError

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.embed(x, adjacency, pool))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        ptr, pooled = boundaries(pool), None
        for y, kept in self.encode(x, adjacency, pool):
            mean = pool @ y / (pool @ kept).clamp(min=1)
            peak = segment_max(y, kept[..., 0], ptr)
            readout = torch.cat((peak, mean), dim=-1)
            pooled = readout if pooled is None else pooled + readout
        return torch.relu(self.second(self.dropout(torch.relu(self.first(pooled)))))

    def encode(
        self, x: Features, adjacency: Matrix, pool: Matrix
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The vectors of all nodes after each layer ``(N, hidden)``, 0 for those not kept, and
        which are kept, as 0 or 1, ``(N, 1)``."""
        like = self.first.weight[..., 0]
        _, nodes = padding_masks(pool, like)
        kept = like.new_ones(pool.shape[1]) if nodes is None else nodes.to(like.dtype)
        ptr = boundaries(pool)
        for block in self.blocks:
            y, score = block(x, adjacency, kept[..., None])
            kept = keep_top(score[..., 0], kept, ptr, self.ratio)
            y = y * (torch.tanh(score) * kept[..., None])
            yield y, kept[..., None]
            x = y


def _check_ratio(ratio: float) -> None:
    if not 0 < ratio <= 1:
        raise UserError(f"a layer keeps a share of the nodes in (0, 1], got ratio={ratio}")
