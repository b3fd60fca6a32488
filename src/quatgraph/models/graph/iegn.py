"""Invariant and equivariant graph network."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.pairs import (
    ChannelLinear,
    Padding,
    PairInput,
    PairModel,
    PairOptions,
    max_pool,
)

_DENSE = 512, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphIEGNOptions(PairOptions):
    name: Literal["iegn"] = "iegn"

    @property
    def num_tensors(self) -> int:
        return 4 + self.num_layers


class EquivariantLinear(nn.Module):
    r"""The most general linear map of matrices that commutes with relabelling the nodes: 15
    coefficients for each pair of an input and an output channel.

    .. math::
        \mathbf{Y} = \mathbf{W}_1 \mathbf{X} + \mathbf{W}_2 \mathbf{X}^\top
        + \mathbf{r} \mathbf{1}^\top + \mathbf{1} \mathbf{c}^\top + \mathrm{diag}(\mathbf{d})
        + s \mathbf{1} \mathbf{1}^\top + t \mathbf{I}

    :math:`\mathbf{r}`, :math:`\mathbf{c}` and :math:`\mathbf{d}` are linear maps of the diagonal
    and of the row and column means; s and t are linear maps of the means of the diagonal and of all
    entries. No operation needs a tensor of its own.

    Shape:
        - x: ``(in_channels, G, n, n)``, or a :class:`PairInput`
        - output: ``(out_channels, G, n, n)``, with any values at padding
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = ChannelLinear(in_channels, out_channels, bias=False)
        self.transposed = ChannelLinear(in_channels, out_channels, bias=False)
        self.nodes = ChannelLinear(3 * in_channels, 3 * out_channels, bias=False)
        self.graphs = ChannelLinear(2 * in_channels, 2 * out_channels)
        for part in (self.own, self.transposed, self.nodes, self.graphs):
            nn.init.normal_(part.weight, std=math.sqrt(2 / (in_channels + out_channels)))

    def forward(self, x: Tensor | PairInput, padding: Padding) -> Tensor:
        diagonal, rows, columns = _marginals(x)
        rows, columns = rows / padding.num_nodes, columns / padding.num_nodes
        nodes: Tensor = self.nodes(torch.cat((diagonal, rows, columns), dim=-3))
        means = (torch.cat((diagonal, rows), dim=-3) / padding.num_nodes).sum(dim=-1)
        everywhere, on_diagonal = self.graphs(means)[..., None].chunk(2, dim=-3)
        row, column, own = nodes.chunk(3, dim=-3)
        y: Tensor = self.own(x) + self.transposed(x).mT
        y = y + (row + everywhere)[..., None] + column[..., None, :]
        return y + torch.diag_embed(own + on_diagonal)


class GraphIEGN(PairModel):
    r"""`Invariant and equivariant graph network <https://arxiv.org/abs/1812.09902>`_: a stack of
    :class:`EquivariantLinear` layers, and a perceptron on the maxima after the last one.

    The layers before the last are narrow: a sixteenth of the width, an eighth and so on. In the
    released code the widths are 16, 32 and 256.

    Args:
        hidden: Width of the last layer.
        num_layers: Number of layers.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as in :class:`PairModel`
    """

    Options = GraphIEGNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 256,
        num_layers: int = 3,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        layer_sizes(in_channels, hidden, num_layers)
        narrow = [min(hidden, max(1, (hidden << i) // 16)) for i in range(num_layers - 1)]
        widths = [1 + in_channels, *narrow, hidden]
        self.layers = nn.ModuleList(EquivariantLinear(a, b) for a, b in pairwise(widths))
        self.first = GlorotLinear(2 * hidden, _DENSE[0])
        self.second = GlorotLinear(*_DENSE)
        self.prediction = GlorotLinear(_DENSE[1], num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        *_, y = self.encode(x, adjacency, pool, self.first.weight)
        return torch.relu(self.second(torch.relu(self.first(max_pool(y)))))


def _marginals(x: Tensor | PairInput) -> tuple[Tensor, Tensor, Tensor]:
    """The diagonal and the sums of rows and of columns, ``(C, G, n)``."""
    if isinstance(x, PairInput):
        same = _marginals(x.adjacency.unsqueeze(-4))
        diagonal, rows, columns = (each + x.diagonal for each in same)
        return diagonal, rows, columns
    return x.diagonal(dim1=-2, dim2=-1), x.sum(dim=-1), x.sum(dim=-2)
