"""Shared by the models whose messages depend on relations."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.decoder import DECODERS, Decoder, DistMult
from quatgraph.models.common import Count, Rate
from quatgraph.models.link.base import GraphModel, LinkOptions
from quatgraph.models.link.graphs import FeaturedGraph, Graph
from quatgraph.ops import lookup
from quatgraph.relational import RelationalGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationalOptions(LinkOptions):
    """The hyperparameters of models whose messages depend on relations."""

    decoder: str = "distmult"
    """How triples are scored."""
    num_layers: Count = 1
    """Number of layers on the triples."""
    norm: bool = True
    """Whether to normalize each layer over the entities."""
    query_norm: bool = False
    """Whether to normalize queries over their batch."""
    edge_dropout: Rate = 0.0
    """Share of triples that send no messages in a training step."""
    hide_answers: bool = False
    """Whether the triples that answer the queries of a batch send no messages in its training step,
    so that no message reveals an answer."""

    @property
    def components(self) -> int:
        decoder = DECODERS.get(cast(Decoder, self.decoder))
        return 1 if decoder is None else decoder.components

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        layers = self.num_layers * self.width * (12 * entities + 8 * messages)
        return LinkOptions.num_activations(self, entities, queries) + layers


class RelationalModel(GraphModel):
    """A vector per entity, layers on a :class:`RelationalGraph`, and a decoder.

    Args:
        num_entities: Number of entities E.
        width: Real width of a vector.
        decoder: The decoder, whose relation vectors the messages may use too.
        edge_dropout: Share of triples that send no messages in a training step.
        hide_answers: Whether the triples that answer a batch send no messages in its step.
        num_features: Features of an entity; with them the graph is a :class:`FeaturedGraph`.
    """

    decoder: DistMult
    layers: nn.ModuleList

    def __init__(
        self,
        num_entities: int,
        width: int,
        decoder: DistMult,
        *,
        edge_dropout: float = 0.0,
        hide_answers: bool = False,
        num_features: int = 0,
    ) -> None:
        super().__init__(num_entities, width, num_features)
        self.decoder = decoder
        self.edge_dropout = QuaternionDropout(edge_dropout) if edge_dropout else None
        self.hide_answers = hide_answers

    def forward(
        self, graph: Graph, head: Tensor, relation: Tensor, ends: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        if self.training and (self.hide_answers or self.edge_dropout is not None):
            if isinstance(graph, FeaturedGraph):
                edges = self._drop_triples(cast(RelationalGraph, graph.edges), head, relation)
                graph = graph._replace(edges=edges)
            else:
                graph = self._drop_triples(cast(RelationalGraph, graph), head, relation)
        return super().forward(graph, head, relation, ends)

    def _drop_triples(
        self, graph: RelationalGraph, head: Tensor, relation: Tensor
    ) -> RelationalGraph:
        factor = graph.gather.weight.new_ones(graph.num_triples)
        if self.edge_dropout is not None:
            factor = self.edge_dropout(factor)
        if self.hide_answers:
            factor = factor * graph.hide(head, relation)
        return graph.scaled(factor)


def relation_rows(graph: RelationalGraph, table: Tensor) -> Tensor:
    """The row of each block's relation, to broadcast over the block, ``(B, 1, F)``."""
    return lookup(table, graph.relation).unsqueeze(-2)


def count_map_numbers(positions: int, filters: int, patch: int) -> int:
    """Numbers that a convolutional decoder stores per query, about."""
    return positions * (4 * filters + 2 * patch)
