"""The graphs of training triples that models take."""

from typing import Literal, NamedTuple, Self, cast

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.data import link as source
from quatgraph.data.link import Features, Triples
from quatgraph.relational import EdgeWeights, RelationalGraph

Edges = Adjacency | RelationalGraph
"""The training triples, with or without their relations."""


class FeaturedGraph(NamedTuple):
    """A graph whose entities have features."""

    edges: Edges
    features: Features
    """``(E, F)``, dense or sparse."""
    trained: Tensor | None = None
    """1 for an entity whose own vector is learned, 0 for one that only its features describe,
    ``(E, 1)``; None if all are learned."""

    @property
    def num_messages(self) -> int:
        """Rows of messages of a :class:`RelationalGraph`; 0 without relations."""
        return getattr(self.edges, "num_messages", 0)

    def trained_on(self, triples: Tensor) -> Self:
        """The graph for a model that is trained on these triples ``(N, 3)``: an entity that they
        lack is described by its features only, if it has any."""
        learned = ~source.find_featured(self.features)
        learned[triples[:, [0, 2]].flatten().to(learned.device)] = True
        return self._replace(trained=learned[:, None].float())

    def to(self, device: torch.device | str) -> Self:
        trained = None if self.trained is None else self.trained.to(device)
        return self._replace(
            edges=self.edges.to(device), features=self.features.to(device), trained=trained
        )

    def with_product_dtype(self, dtype: torch.dtype | None) -> Self:
        """The graph whose sums over edges round to this type; None for no rounding."""
        return self._replace(edges=self.edges.with_product_dtype(dtype))


Graph = Edges | FeaturedGraph | None


class GraphKind(NamedTuple):
    """Which graph of the training triples a model takes; models of one kind share it."""

    edges: Literal["none", "entities", "relations"]
    """``entities``: the undirected graph of all entities, with self-loops, without relations;
    ``relations``: the triples in both directions, with their relations."""
    normalization: Normalization | EdgeWeights


NO_GRAPH = GraphKind("none", "none")


def build_graph(triples: Triples, kind: GraphKind, *, all_triples: bool = False) -> Graph:
    """Builds the graph of a model; None for a model without one.

    Args:
        all_triples: Whether the model is trained on the triples of all parts. Its edges are those
            of the training triples in any case.
    """
    if kind.edges == "none":
        return None
    edges = _build_edges(triples, kind)
    if triples.features is None:
        return edges
    parts = (triples.train, triples.valid, triples.test)[: 3 if all_triples else 1]
    return FeaturedGraph(edges, triples.features).trained_on(torch.cat(parts))


def _build_edges(triples: Triples, kind: GraphKind) -> Edges:
    entities = triples.num_entities
    if kind.edges == "relations":
        sizes = entities, triples.num_relations
        return RelationalGraph.from_triples(triples.train, *sizes, kind.normalization)
    edges = source.entity_graph(triples.train, entities)
    prepared = Adjacency.from_edge_index(edges, entities, self_loops=True)
    return prepared.normalized(cast(Normalization, kind.normalization))
