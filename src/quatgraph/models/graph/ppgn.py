"""Provably powerful graph network."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.graph.pairs import (
    ChannelLinear,
    Padding,
    PairInput,
    PairModel,
    PairOptions,
    max_pool,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPPGNOptions(PairOptions):
    name: Literal["ppgn"] = "ppgn"
    mlp_layers: Count = 3
    """Layers of the two perceptrons of a block."""

    @property
    def num_tensors(self) -> int:
        return self.num_layers * (2 * self.mlp_layers + 5)


class ProductBlock(nn.Module):
    r"""The matrix product of two perceptrons of the channels, combined with the input.

    .. math::
        \mathbf{Y} = \mathbf{W} \mathbf{X} + \mathbf{U} \big(\mathrm{MLP}_1(\mathbf{X})
        \mathrm{MLP}_2(\mathbf{X})\big) + \mathbf{b}

    The product multiplies the n x n matrices of each channel. All layers of the perceptrons end
    with ReLU.

    Shape:
        - x: ``(in_channels, G, n, n)``, or a :class:`PairInput`
        - output: ``(out_channels, G, n, n)``, with any values at padding
    """

    def __init__(self, in_channels: int, out_channels: int, mlp_layers: int) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, out_channels, mlp_layers)
        self.left = nn.ModuleList(ChannelLinear(a, b) for a, b in sizes)
        self.right = nn.ModuleList(ChannelLinear(a, b) for a, b in sizes)
        self.own = ChannelLinear(in_channels, out_channels)
        self.product = ChannelLinear(out_channels, out_channels, bias=False)
        bound = math.sqrt(6 / (in_channels + 2 * out_channels))  # of the two maps as one
        for part in (self.own, self.product):
            nn.init.uniform_(part.weight, -bound, bound)

    def forward(self, x: Tensor | PairInput, padding: Padding) -> Tensor:
        left = _apply(self.left, x) * padding.pairs  # or padding would be summed over
        y: Tensor = self.own(x) + self.product(left @ _apply(self.right, x))
        return y


class GraphPPGN(PairModel):
    r"""`Provably powerful graph network <https://arxiv.org/abs/1905.11136>`_, the third version of
    its paper: a stack of :class:`ProductBlock`. The maxima after each block are mapped to logits,
    whose sum is the output.

    Args:
        hidden: Width of the blocks.
        num_layers: Number of blocks.
        mlp_layers: Layers of the perceptrons of a block.
        pooled_dropout: Rate on the maxima.

    Shape:
        - as in :class:`PairModel`
    """

    Options = GraphPPGNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 256,
        num_layers: int = 3,
        mlp_layers: int = 3,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(1 + in_channels, hidden, num_layers)
        self.layers = nn.ModuleList(ProductBlock(a, b, mlp_layers) for a, b in sizes)
        self.prediction = GlorotLinear(2 * hidden * num_layers, num_classes)
        bound = math.sqrt(6 / (2 * hidden + num_classes))  # of one map per block
        nn.init.uniform_(self.prediction.weight, -bound, bound)
        self.dropout = QuaternionDropout(pooled_dropout)

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The maxima after each block, ``(G, 2 * hidden * num_layers)``."""
        blocks = self.encode(x, adjacency, pool, self.prediction.weight)
        return torch.cat([max_pool(y) for y in blocks], dim=-1)


def _apply(perceptron: nn.ModuleList, x: Tensor | PairInput) -> Tensor:
    for linear in perceptron:
        x = torch.relu(linear(x))
    assert isinstance(x, Tensor)
    return x
