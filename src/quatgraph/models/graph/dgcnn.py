"""Deep graph convolutional neural network."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, padding_masks
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix, RealLinear
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions
from quatgraph.ops.dense_batch import slide_window, sort_pool
from quatgraph.ops.members import add_bias

_FILTERS, _WIDTH, _DENSE = (16, 32), 5, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDGCNNOptions(LayeredOptions):
    name: Literal["dgcnn"] = "dgcnn"
    hidden_quats: Count = 8
    pooled_dropout: Rate = 0.5
    num_sorted: Count = 30
    """Nodes of a graph that sort pooling keeps, at least 10."""

    def __post_init__(self) -> None:
        LayeredOptions.__post_init__(self)
        _check_sorted(self.num_sorted)


class GraphDGCNN(GraphModel):
    r"""`Deep graph convolutional neural network
    <https://muhanzhang.github.io/papers/AAAI_2018_DGCNN.pdf>`_, on a graph with self-loops and no
    normalization.

    .. math:: \mathbf{H}' = \tanh\big(\mathbf{D}^{-1} (\mathbf{A H W}^\top + \mathbf{b})\big)

    where :math:`\mathbf{D}` holds the row sums of :math:`\mathbf{A}`. As in the released code, it
    divides the bias too. The last layer has width one, and its output sorts the nodes of a graph.
    The concatenated layers of the first nodes go through two 1-D convolutions.

    Args:
        hidden: Width of the layers.
        num_layers: Number of layers before the one that sorts.
        num_sorted: Nodes of a graph that are kept; smaller graphs are padded with zeros.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphDGCNNOptions
    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 32,
        num_layers: int = 3,
        num_sorted: int = 30,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_sorted(num_sorted)
        self.num_sorted = num_sorted
        sizes = layer_sizes(in_channels, hidden, num_layers, 1)
        self.linears = nn.ModuleList(GlorotLinear(a, b, bias=False) for a, b in sizes)
        self.biases = nn.ParameterList(torch.zeros(b) for _, b in sizes)
        # Convolutions keep torch's initialization, linear maps have Glorot's.
        self.node_conv = RealLinear(num_layers * hidden + 1, _FILTERS[0])
        self.conv = RealLinear(_WIDTH * _FILTERS[0], _FILTERS[1])
        self.dense = GlorotLinear((num_sorted // 2 - _WIDTH + 1) * _FILTERS[1], _DENSE)
        self.prediction = GlorotLinear(_DENSE, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        y = sort_pool(self.encode(x, adjacency, pool), boundaries(pool), self.num_sorted)
        graphs, pairs = y.size(-3), self.num_sorted // 2
        y = torch.relu(self.node_conv(y.flatten(-3, -2))).unflatten(-2, (graphs, -1))
        y = y[..., : 2 * pairs, :].unflatten(-2, (pairs, 2)).amax(dim=-2)
        y = torch.relu(self.conv(slide_window(y, _WIDTH).flatten(-3, -2)))
        return torch.relu(self.dense(y.unflatten(-2, (graphs, -1)).flatten(-2)))

    def encode(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The vectors of all nodes, all layers side by side, ``(N, num_layers * hidden + 1)``."""
        layers: list[Tensor] = []
        scale: Tensor | None = None
        for linear, bias in zip(self.linears, self.biases, strict=True):
            y = linear(x)
            if scale is None:
                _, nodes = padding_masks(pool, y)
                ones = torch.ones_like(y[..., 0]) if nodes is None else nodes
                scale = (adjacency @ ones[..., None]).clamp(min=1).reciprocal()
            x = torch.tanh(add_bias(adjacency @ y, bias) * scale)
            layers.append(x)
        return torch.cat(layers, dim=-1)


def _check_sorted(count: int) -> None:
    if count < 2 * _WIDTH:
        raise UserError(f"DGCNN sorts at least {2 * _WIDTH} nodes, got num_sorted={count}")
