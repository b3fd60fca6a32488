"""Graph capsule network."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, max_row, padding_masks
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.real import NeighbourMean
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.graph.base import GraphModel, GraphNormalization, LayeredOptions
from quatgraph.ops.dense_batch import to_dense_batch

_DENSE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGCAPSOptions(LayeredOptions):
    name: Literal["gcaps"] = "gcaps"
    hidden_quats: Count = 8
    num_layers: Count = 2
    moments: Count = 2
    """Powers of the vectors that a layer maps, each to its share of the width."""

    def __post_init__(self) -> None:
        LayeredOptions.__post_init__(self)
        _check_moments(self.width, self.moments)

    @property
    def matrix(self) -> GraphNormalization:
        return "symmetric"

    def num_activations(self, nodes: int, entries: int) -> int:
        layers = LayeredOptions.num_activations(self, nodes, entries)
        return layers + 4 * nodes * self.width * self.num_layers

    def num_held(self, nodes: int) -> int:
        return LayeredOptions.num_held(self, nodes) + (self.width * self.num_layers) ** 2


class CapsuleConv(nn.Module):
    r"""Maps the moments of vectors: :math:`\tanh(\mathrm{BN}([\mathbf{F}_1, \dots, \mathbf{F}_P]))`
    with the element-wise powers

    .. math:: \mathbf{F}_p = \mathbf{X}^p \mathbf{U}_p^\top + \mathbf{A X}^p \mathbf{W}_p^\top
        + \mathbf{b}_p

    Args:
        in_channels: Width of a node's vector.
        out_channels: Width of the output, a multiple of ``moments``.
        moments: Number of powers P.

    Shape:
        - x: ``(N, in_channels)``, dense, sparse or one-hot
        - mask: 0 for padding, else 1, ``(N,)``; None without padding
        - output: ``(N, out_channels)``
    """

    def __init__(self, in_channels: int, out_channels: int, moments: int) -> None:
        super().__init__()
        share = out_channels // moments
        self.maps = nn.ModuleList(NeighbourMean(in_channels, share) for _ in range(moments))
        self.norm = BatchNorm(out_channels, "tanh")

    def forward(self, x: Features, adjacency: Matrix, mask: Tensor | None) -> Tensor:
        powers = (conv(_raise(x, p), adjacency) for p, conv in enumerate(self.maps, start=1))
        y: Tensor = self.norm(torch.cat(list(powers), dim=-1), mask)
        return y


class GraphGCAPS(GraphModel):
    r"""`Graph capsule network <https://arxiv.org/abs/1805.08090>`_, implemented from the equations
    of its paper, since no code is published.

    Each layer maps several powers of the vectors, see :class:`CapsuleConv`. Let :math:`\mathbf{Z}`
    be the concatenated outputs of all layers. The mean and the upper triangle of the covariance
    over the n nodes of a graph,

    .. math::
        \boldsymbol\mu = \frac{1}{n} \sum_v \mathbf{z}_v, \qquad
        \mathbf{C} = \frac{1}{n} \sum_v (\mathbf{z}_v - \boldsymbol\mu)
        (\mathbf{z}_v - \boldsymbol\mu)^\top

    go through a perceptron.

    Args:
        hidden: Width of the layers, a multiple of ``moments``.
        num_layers: Number of layers.
        moments: Powers of the vectors that a layer maps.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphGCAPSOptions
    supports_members = True
    needs_max_row = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 32,
        num_layers: int = 2,
        moments: int = 2,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_moments(hidden, moments)
        sizes, width = layer_sizes(in_channels, hidden, num_layers), num_layers * hidden
        self.convs = nn.ModuleList(CapsuleConv(a, b, moments) for a, b in sizes)
        self.norm = BatchNorm(width + width * (width + 1) // 2)
        self.dense = RealLinear(width + width * (width + 1) // 2, _DENSE)
        self.prediction = RealLinear(_DENSE, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        graphs, _ = padding_masks(pool, self.dropout.rate)
        moments = self._pool(self.encode(x, adjacency, pool), pool)
        return torch.relu(self.dense(self.norm(moments, graphs)))

    def encode(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The vectors of all nodes, all layers side by side, ``(N, num_layers * hidden)``."""
        _, nodes = padding_masks(pool, self.dropout.rate)
        layers: list[Tensor] = []
        for conv in self.convs:
            y: Tensor = conv(x, adjacency, nodes)
            layers.append(y)
            x = y
        return torch.cat(layers, dim=-1)

    def _pool(self, z: Tensor, pool: Matrix) -> Tensor:
        """Means and covariances, ``(G, D + D (D + 1) / 2)``, zeros for a graph without nodes."""
        ptr = boundaries(pool)
        dense = to_dense_batch(z, ptr, max_row(pool))  # (G, n, D)
        count = ptr.diff().clamp(min=1).to(z.dtype)[..., None]
        mean = dense.sum(dim=-2) / count
        covariance = dense.mT @ dense / count[..., None] - mean[..., None] * mean[..., None, :]
        row, column = torch.triu_indices(z.size(-1), z.size(-1), device=z.device)
        upper = covariance.flatten(-2).index_select(-1, row * z.size(-1) + column)
        return torch.cat((mean, upper), dim=-1)


def _raise(x: Features, power: int) -> Features:
    """The element-wise power of features."""
    if isinstance(x, Tensor):
        return x**power
    if isinstance(x, Codes):
        return x.with_weight(x.weight**power)
    return replace(x, weight=x.weight**power)


def _check_moments(width: int, moments: int) -> None:
    if width % moments:
        raise UserError(
            f"the width of GCAPS, {width} reals, cannot be shared among {moments} moments: change "
            "moments or hidden_quats, which is a quarter of the width"
        )
