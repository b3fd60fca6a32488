"""SACN for knowledge-graph completion."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from quatgraph.layers import BatchNorm
from quatgraph.layers.conv_decoder import ConvTransE
from quatgraph.layers.decoder import DECODERS, Decoder, DistMult
from quatgraph.layers.linear import GlorotLinear
from quatgraph.layers.tables import build_dropout
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.link.graphs import Graph, GraphKind
from quatgraph.models.link.relational import (
    RelationalModel,
    RelationalOptions,
    count_map_numbers,
)
from quatgraph.ops import lookup
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.relational import RelationalGraph

Head = Decoder | Literal["convtranse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SACNOptions(RelationalOptions):
    name: Literal["sacn"] = "sacn"
    decoder: Head = "convtranse"
    num_filters: Count = 200
    """Filters of the decoder Conv-TransE."""
    kernel_size: Count = 5
    """Positions that a filter of Conv-TransE spans, an odd number."""
    map_dropout: Rate = 0.25
    """Dropout rate on the feature maps of Conv-TransE."""
    num_layers: Count = 2
    layer_dropout: Rate = 0.25
    """Dropout rate on the output of each layer."""

    @property
    def graph(self) -> GraphKind:
        return GraphKind("relations", "none")

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        maps = 0
        if self.decoder == "convtranse":
            maps = count_map_numbers(self.width, self.num_filters, 2 * self.kernel_size)
        own = RelationalOptions.num_activations(self, entities, queries, messages)
        return own + queries * maps


class SACN(RelationalModel):
    r"""`SACN <https://arxiv.org/abs/1811.04441>`_: weighted GCN layers, then a decoder.

    .. math::
        \mathbf{h}'_v = \tanh\Big(\mathrm{BN}\Big(\mathbf{W} \Big(\alpha_0 \mathbf{h}_v +
        \sum_{(u, r, v)} \alpha_r \mathbf{h}_u + \sum_{(v, r, u)} \alpha_r \mathbf{h}_u\Big) +
        \mathbf{b}\Big)\Big)

    A relation has one number per layer, for both directions. The released code has one per
    direction and adds the transposed matrix, which is the same with the sum of both.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        decoder: How triples are scored: ``"convtranse"`` as in the paper, or another decoder.
        num_filters, kernel_size, map_dropout: Of Conv-TransE.
        width: Real width of a vector.
        num_layers: Number of layers.
        reciprocal: Whether inverse relations have their own vectors in the decoder.
        dropout: Rate on the query vectors.
        layer_dropout: Rate on the output of each layer.
        norm: Whether to normalize each layer's output over the entities.
        query_norm: Whether to normalize the query vectors over the batch.
        edge_dropout, hide_answers, num_features: As in :class:`RelationalModel`.

    Shape:
        - graph: the :class:`RelationalGraph` of E entities
        - head, relation, output: as in :mod:`quatgraph.layers.decoder`
    """

    Options = SACNOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Head = "convtranse",
        num_filters: int = 200,
        kernel_size: int = 5,
        map_dropout: float = 0.0,
        width: int = 128,
        num_layers: int = 2,
        reciprocal: bool = True,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
        norm: bool = True,
        query_norm: bool = False,
        edge_dropout: float = 0.0,
        hide_answers: bool = False,
        num_features: int = 0,
    ) -> None:
        head: DistMult
        if decoder == "convtranse":
            head = ConvTransE(
                num_relations,
                width,
                num_filters=num_filters,
                kernel_size=kernel_size,
                reciprocal=reciprocal,
                map_dropout=map_dropout,
                dropout=dropout,
            )
        else:
            head = DECODERS[decoder](
                num_relations, width, reciprocal=reciprocal, dropout=dropout, norm=query_norm
            )
        super().__init__(
            num_entities,
            width,
            head,
            edge_dropout=edge_dropout,
            hide_answers=hide_answers,
            num_features=num_features,
        )
        sizes = layer_sizes(width, width, num_layers)
        self.layers = nn.ModuleList(GlorotLinear(*size) for size in sizes)
        self.alphas = nn.Parameter(torch.randn(len(sizes), num_relations, 1))
        self.loops = nn.Parameter(torch.randn(len(sizes)))
        self.norms = nn.ModuleList(BatchNorm(width, "tanh") for _ in sizes if norm)
        self.dropout = build_dropout(layer_dropout)

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, width)``."""
        edges, x = self.read_graph(graph)
        for index, linear in enumerate(self.layers):
            sums = self._sum(x, index, cast(RelationalGraph, edges))
            y = linear(self.loops[index] * x + sums)
            y = self.norms[index](y) if len(self.norms) else ACTIVATIONS["tanh"](y)
            x = self.dropout(y)
        return x

    def _sum(self, x: Tensor, layer: int, graph: RelationalGraph) -> Tensor:
        """The weighted sum over the edges of both directions."""
        alpha = lookup(self.alphas[layer], graph.relation % graph.num_relations).unsqueeze(-2)
        to_tails, to_heads = graph.sum_messages(x, lambda u, _: u * alpha)
        return to_tails + to_heads
