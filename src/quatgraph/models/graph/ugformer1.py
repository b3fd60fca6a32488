"""Graph transformer over sampled neighbours."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import boundaries
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.graph.base import (
    GraphNormalization,
    LayeredOptions,
    to_dense_features,
)
from quatgraph.models.graph.ugformer import TransformerLayer, TransformerModel
from quatgraph.ops.lookup import lookup
from quatgraph.ops.random import BITS, random_bits
from quatgraph.ops.segments import segment_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphUGformer1Options(LayeredOptions):
    name: Literal["ugformer1"] = "ugformer1"
    hidden_quats: Count = 256
    """A quarter of the width of feed-forward networks; the vectors of nodes are as wide as their
    features."""
    num_layers: Count = 1
    attention_layers: Count = 1
    """Transformer layers of each layer."""
    num_neighbors: Count = 4
    """Neighbours that are drawn for a node, with replacement."""
    dropout: Rate = 0.5
    """Dropout rate within transformer layers."""
    pooled_dropout: Rate = 0.5

    @property
    def matrix(self) -> GraphNormalization:
        return "adjacency"

    def num_activations(self, nodes: int, entries: int) -> int:
        layers = self.attention_layers * (self.num_neighbors + 1)
        return layers * LayeredOptions.num_activations(self, nodes, entries)

    def num_held(self, nodes: int) -> int:
        return (self.num_neighbors + 1) * LayeredOptions.num_held(self, nodes)


class NeighbourDraws(nn.Module):
    """Samples neighbours of each node with replacement; an isolated node is its own neighbour.

    In training, samples are random like the masks of :class:`QuaternionDropout`. In evaluation they
    depend only on the node's position in its graph, so equal graphs get equal predictions.

    Args:
        count: Neighbours K of a node.

    Shape:
        - adjacency: of N nodes, without self-loops
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - output: the node itself, then its neighbours, ``(N, K + 1)``
        - with several members, all of these have a leading ``M``
    """

    draws: Tensor
    calls: Iterator[int] | None = None

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.register_buffer("draws", torch.zeros(2, dtype=torch.int64), persistent=False)

    def forward(self, adjacency: Matrix, ptr: Tensor) -> Tensor:
        whole = adjacency if isinstance(adjacency, Adjacency) else adjacency.whole
        node = torch.arange(adjacency.shape[0], device=ptr.device)
        begin, end = whole.rowptr[:-1], whole.rowptr[1:]
        shift = torch.zeros_like(begin)
        if not isinstance(adjacency, Adjacency):
            known, shift = adjacency.row.clamp(min=0), adjacency.shift
            begin, end = begin[known], torch.where(adjacency.row >= 0, end[known], 0)
        degree = (end - begin).clamp(min=0)[..., None].long()
        node = node.expand(degree.shape[:-1])
        place = begin[..., None] + (self._bits(node, ptr) * degree >> BITS)
        last = max(whole.num_edges - 1, 0)
        col = nn.functional.pad(whole.col, (0, int(not whole.num_edges)))
        drawn = col[place.clamp(max=last)] + shift[..., None]
        return torch.cat((node[..., None], torch.where(degree > 0, drawn, node[..., None])), dim=-1)

    def _bits(self, node: Tensor, ptr: Tensor) -> Tensor:
        if self.training and self.calls is None:
            return torch.randint(1 << BITS, (*node.shape, self.count), device=node.device)
        if self.training:
            assert self.calls is not None
            return random_bits(self.draws, next(self.calls), node, self.count)
        graph = segment_ids(ptr.long(), node.size(-1))
        first = nn.functional.pad(ptr.long(), (0, 1)).expand(*graph.shape[:-1], -1)
        rank = (node - first.gather(-1, graph)).clamp(min=0)
        return random_bits(rank.new_zeros(*rank.shape[:-1], 2), 0, rank, self.count)


class GraphUGformer1(TransformerModel):
    r"""`UGformer <https://arxiv.org/abs/1909.11855>`_, its first variant, on a graph without
    self-loops.

    .. math:: \mathbf{h}'_v = \mathrm{Transformer}\big(
        \mathbf{h}_v, \mathbf{h}_{u_1}, \dots, \mathbf{h}_{u_K}\big)_1

    where the neighbours :math:`u_k` of a node are sampled anew in each step, the same for all
    layers. The released code resamples neighbours in evaluation too, so its accuracies vary between
    evaluations; here, each evaluation uses the same samples.

    Args:
        hidden: Width of the feed-forward networks; the vectors of nodes are as wide as their
            features.
        num_layers: Number of layers.
        attention_layers: Transformer layers of each layer.
        num_neighbors: Neighbours K of a node.
        dropout: Rate within transformer layers.
        pooled_dropout: Rate on the summed vectors.

    Shape:
        - as in :class:`TransformerModel`
    """

    Options = GraphUGformer1Options

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 1024,
        num_layers: int = 1,
        attention_layers: int = 1,
        num_neighbors: int = 4,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, in_channels, num_layers)
        if min(attention_layers, num_neighbors) < 1:
            raise UserError(
                "attention_layers and num_neighbors must be at least 1, got "
                f"{attention_layers} and {num_neighbors}"
            )
        self.layers = nn.ModuleList(
            nn.ModuleList(TransformerLayer(a, hidden, dropout) for _ in range(attention_layers))
            for a, _ in sizes
        )
        self.predictions = nn.ModuleList(RealLinear(a, num_classes) for a, _ in sizes)
        self.draws = NeighbourDraws(num_neighbors)
        self.dropout = QuaternionDropout(pooled_dropout)

    def pool_layers(self, x: Features, adjacency: Matrix, pool: Matrix) -> list[Tensor]:
        prediction = self.predictions[0]
        assert isinstance(prediction, RealLinear)
        y = to_dense_features(x, prediction.weight)
        read = self.draws(adjacency, boundaries(pool))  # (N, K + 1)
        nodes, length = read.shape[-2:]
        read = read.expand(*y.shape[:-2], -1, -1).flatten(-2)
        ptr = torch.arange(nodes + 1, device=read.device) * length
        pooled: list[Tensor] = []
        for transformers in self.layers:
            assert isinstance(transformers, nn.ModuleList)
            z = lookup(y, read)
            for transformer in transformers:
                z = transformer(z, ptr, length)
            y = z.unflatten(-2, (nodes, length))[..., 0, :]
            pooled.append(pool @ y)
        return pooled
