"""Shared code of graph classifiers with a vector for each pair of nodes.

Channels come before graphs, ``(C, G, n, n)``, so that a linear map of channels is one matrix
product, and so is the product of each channel. With several members, every tensor has a leading
``M``. Values at padding are zero.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.blocks import boundaries, max_row
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import Count
from quatgraph.models.graph.base import (
    GraphModel,
    GraphNormalization,
    LayeredOptions,
    to_dense_features,
)
from quatgraph.ops.dense_batch import to_dense_adjacency, to_dense_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions(LayeredOptions):
    """The hyperparameters of graph classifiers with a vector for each pair of nodes."""

    hidden_quats: Count = 64

    @property
    def matrix(self) -> GraphNormalization:
        return "adjacency"

    @property
    def num_tensors(self) -> int:
        """Tensors of the full width that a forward pass stores, at most."""
        raise NotImplementedError

    def num_activations(self, nodes: int, entries: int) -> int:
        return (self.num_tensors + 6) * entries * self.width

    def num_held(self, nodes: int) -> int:
        return 6 * nodes * nodes * self.width


@dataclass(frozen=True, slots=True)
class PairInput:
    r"""The channels :math:`\mathbf{A} + \mathrm{diag}(\mathbf{z}_c)`, which need not be stored.

    Attributes:
        adjacency: ``(G, n, n)``.
        diagonal: ``(C, G, n)``.
    """

    adjacency: Tensor
    diagonal: Tensor


@dataclass(frozen=True, slots=True)
class Padding:
    """Marks what is not padding.

    Attributes:
        pairs: 1 for the pairs of a graph's nodes, else 0, ``(1, G, n, n)``.
        num_nodes: Nodes of each graph, at least 1, ``(1, G, 1)``.
    """

    pairs: Tensor
    num_nodes: Tensor


class ChannelLinear(GlorotLinear):
    """:class:`torch.nn.Linear` of channels, which are the first dimension.

    Shape:
        - x: ``(in_features, *)``, or a :class:`PairInput`
        - output: ``(out_features, *)``
    """

    def forward(self, x: Tensor | PairInput) -> Tensor:  # type: ignore[override]
        if isinstance(x, PairInput):
            weight = self.weight.sum(dim=-1)[..., None, None, None]
            y = weight * x.adjacency.unsqueeze(-4) + torch.diag_embed(self._product(x.diagonal))
        else:
            y = self._product(x)
        if self.bias is not None:
            y = y + self.bias.view(*self.bias.shape, *[1] * (y.dim() - self.bias.dim()))
        return y

    def _product(self, x: Tensor) -> Tensor:
        first = self.weight.dim() - 1  # after channels, and members
        return (self.weight @ x.flatten(first)).unflatten(-1, x.shape[first:])


class PairModel(GraphModel):
    r"""A stack of layers on a vector for each pair of nodes, each followed by ReLU. The vector of
    a graph holds the maxima over the diagonal and over the other pairs.

    With F features of a node, the input has the channels :math:`\mathbf{A}` and
    :math:`\mathbf{A} + \mathrm{diag}(\mathbf{x}_f)`, where :math:`\mathbf{A}` is
    :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}` without self-loops, as in the released
    code.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    supports_members = True
    needs_max_row = True
    has_pairs = True
    layers: nn.ModuleList
    """Each called as ``layer(x, padding)``."""
    prediction: GlorotLinear
    """From the vectors of graphs to logits."""
    dropout: QuaternionDropout

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def encode(
        self, x: Features, adjacency: Matrix, pool: Matrix, weight: Tensor
    ) -> Iterator[Tensor]:
        """The vectors of pairs after each layer, ``(C, G, n, n)``, at least 0; ``weight`` is any
        matrix of the model."""
        y, padding = _prepare(x, adjacency, pool, weight)
        for layer in self.layers:
            y = torch.relu(layer(y, padding) * padding.pairs)
            yield y


def _prepare(
    x: Features, adjacency: Matrix, pool: Matrix, weight: Tensor
) -> tuple[PairInput | Tensor, Padding]:
    ptr, size = boundaries(pool), max_row(pool)
    dense = to_dense_adjacency(adjacency, ptr, size, weight)
    degree = dense.sum(dim=-1)
    scale = torch.where(degree > 0, degree, 1).rsqrt()
    dense = dense * scale[..., None] * scale[..., None, :]
    features = to_dense_batch(to_dense_features(x, weight), ptr, size).movedim(-1, -3)
    diagonal = F.pad(features, (0, 0, 0, 0, 1, 0))  # the first channel has none
    count = ptr.diff().unsqueeze(-2)[..., None]
    present = (torch.arange(size, device=ptr.device) < count).to(weight.dtype)
    pairs = present[..., None] * present[..., None, :]
    return PairInput(dense, diagonal), Padding(pairs, count.clamp(min=1).to(weight.dtype))


def max_pool(y: Tensor) -> Tensor:
    """The maxima over the diagonal and over the other pairs, 0 without any, ``(C, G, n, n) ->
    (G, 2 C)``; values are at least 0, so that zeros at padding do not matter."""
    eye = torch.eye(y.size(-1), dtype=torch.bool, device=y.device)
    on_diagonal = y.diagonal(dim1=-2, dim2=-1).amax(dim=-1)
    return torch.cat((on_diagonal, y.masked_fill(eye, 0).amax(dim=(-2, -1))), dim=-2).mT
