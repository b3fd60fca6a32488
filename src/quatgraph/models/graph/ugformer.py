"""Graph transformer."""

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.blocks import boundaries, max_row, padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix, RealLinear
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions, to_dense_features
from quatgraph.ops.dense_batch import from_dense_batch, to_dense_batch
from quatgraph.ops.members import add_bias


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphUGformerOptions(LayeredOptions):
    name: Literal["ugformer"] = "ugformer"
    hidden_quats: Count = 64
    """A quarter of the width of feed-forward networks; the vectors of nodes are as wide as their
    features."""
    num_layers: Count = 1
    dropout: Rate = 0.5
    """Dropout rate within transformer layers."""
    pooled_dropout: Rate = 0.5

    def num_activations(self, nodes: int, entries: int) -> int:
        scores = 6 * self.num_layers * entries
        return LayeredOptions.num_activations(self, nodes, entries) + scores

    def num_held(self, nodes: int) -> int:
        return LayeredOptions.num_held(self, nodes) + 3 * nodes * nodes


class LayerNorm(nn.Module):
    """:class:`torch.nn.LayerNorm` of rows ``(N, F)``, or of several members' ``(M, N, F)``."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return add_bias(F.layer_norm(x, x.shape[-1:]) * self.weight.unsqueeze(-2), self.bias)


class TransformerLayer(nn.Module):
    """:class:`torch.nn.TransformerEncoderLayer` with one head, over the nodes of each graph.

    Shape:
        - x: ``(N, F)``, sorted by graph, padding last
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - size: a bound on the nodes of a graph
        - output: ``(N, F)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.query_key_value = GlorotLinear(width, 3 * width)
        self.out = RealLinear(width, width)
        nn.init.zeros_(self.out.bias)
        self.first, self.second = RealLinear(width, hidden), RealLinear(hidden, width)
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(2))
        self.dropout = QuaternionDropout(dropout)

    def forward(self, x: Tensor, ptr: Tensor, size: int) -> Tensor:
        x = self.norms[0](x + self.dropout(self.out(self.attend(x, ptr, size))))
        y = self.second(self.dropout(torch.relu(self.first(x))))
        normed: Tensor = self.norms[1](x + self.dropout(y))
        return normed

    def attend(self, x: Tensor, ptr: Tensor, size: int) -> Tensor:
        """The mean over the nodes of a graph, weighted by attention, ``(N, F)``."""
        dense = to_dense_batch(self.query_key_value(x), ptr, size)  # (G, n, 3 F)
        query, key, value = dense.chunk(3, dim=-1)
        scores = query @ key.mT / math.sqrt(x.size(-1))
        position = torch.arange(size, device=x.device)
        absent = (position >= ptr.diff()[..., None])[..., None, :]
        # Not minus infinity: a graph without nodes would have no softmax.
        scores = scores.masked_fill(absent, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1).flatten(-3, -2)
        # A row's mask depends on its node, whatever the padding.
        rows = (ptr[..., :-1, None] + position).flatten(-2)
        weights = self.dropout(weights, rows).view_as(scores)
        return from_dense_batch(weights @ value, ptr, x.size(-2))


class TransformerModel(GraphModel):
    """A stack of layers that keep the width of the features. The vectors of each layer are summed
    over a graph and mapped to logits. The sum of these logits is the output.

    A subclass implements :meth:`pool_layers`.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    supports_members = True
    predictions: nn.ModuleList
    """The linear map of each layer."""
    dropout: QuaternionDropout
    """On the summed vectors."""

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        pooled = self.pool_layers(x, adjacency, pool)
        pairs = zip(self.predictions, pooled, strict=True)
        return torch.stack([linear(self.dropout(vectors)) for linear, vectors in pairs]).sum(dim=0)

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The summed vectors of each layer, ``(G, num_layers * in_channels)``."""
        return torch.cat(self.pool_layers(x, adjacency, pool), dim=-1)

    def pool_layers(self, x: Features, adjacency: Matrix, pool: Matrix) -> list[Tensor]:
        """The summed vectors of each layer, ``(G, in_channels)`` each."""
        raise NotImplementedError


class GraphUGformer(TransformerModel):
    r"""`UGformer <https://arxiv.org/abs/1909.11855>`_, its second variant, on a graph with
    self-loops and no normalization.

    .. math:: \mathbf{H}' = \mathrm{ReLU}\big(\mathrm{BN}(
        \mathbf{A} \, \mathrm{Transformer}(\mathbf{H}) \, \mathbf{W}^\top)\big)

    where a transformer layer attends to all nodes of a graph.

    Args:
        hidden: Width of the feed-forward networks; the vectors of nodes are as wide as their
            features.
        num_layers: Number of layers.
        dropout: Rate within transformer layers.
        pooled_dropout: Rate on the summed vectors.

    Shape:
        - as in :class:`TransformerModel`
    """

    Options = GraphUGformerOptions
    needs_max_row = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 256,
        num_layers: int = 1,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, in_channels, num_layers)
        self.transformers = nn.ModuleList(TransformerLayer(a, hidden, dropout) for a, _ in sizes)
        self.linears = nn.ModuleList(RealLinear(a, b, bias=False) for a, b in sizes)
        self.norms = nn.ModuleList(BatchNorm(b, "relu") for _, b in sizes)
        self.predictions = nn.ModuleList(RealLinear(b, num_classes) for _, b in sizes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def pool_layers(self, x: Features, adjacency: Matrix, pool: Matrix) -> list[Tensor]:
        like = cast(RealLinear, self.predictions[0]).weight
        y = to_dense_features(x, like)
        _, nodes = padding_masks(pool, like)
        ptr, size, pooled = boundaries(pool), max_row(pool), []
        for transformer, linear, norm in zip(
            self.transformers, self.linears, self.norms, strict=True
        ):
            y = norm(adjacency @ linear(transformer(y, ptr, size)), nodes)
            pooled.append(pool @ y)
        return pooled
