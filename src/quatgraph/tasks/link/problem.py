"""A knowledge graph as the models take it."""

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from quatgraph.data import link as source
from quatgraph.data.link import Queries, Triples
from quatgraph.errors import UserError
from quatgraph.models.link.graphs import FeaturedGraph, Graph, GraphKind, build_graph
from quatgraph.ops import Shards


@dataclass(frozen=True, slots=True)
class RankingQueries:
    """Triples as queries: first for their tails, then, by inverse relations, for their heads."""

    head: Tensor
    relation: Tensor
    truth: Tensor
    """The true entity of each query, ``(2N,)`` as the others."""
    ptr: Tensor
    """Where the known entities of each query begin in ``known``, ``(2N + 1,)``."""
    known: Tensor
    """All known entities, ``(K,)``."""

    @classmethod
    def of(cls, triples: Tensor, known: Queries, device: torch.device) -> "RankingQueries":
        """
        Args:
            triples: ``(N, 3)``.
            known: All known triples, as queries of both sides.
        """
        both = source.with_inverses(triples, known.num_relations // 2)
        selected = known.select(both[:, :2])
        head, relation, truth = (column.contiguous().to(device) for column in both.unbind(1))
        return cls(head, relation, truth, selected.ptr.to(device), selected.tails.to(device))


@dataclass(frozen=True, slots=True)
class Problem:
    """A knowledge graph as the models take it, on a device."""

    triples: Triples
    graph: Graph
    """The graph that the models take."""
    training: Queries
    """The training queries: pairs of head and relation, with their tails."""
    parts: dict[str, RankingQueries]
    """``valid`` and ``test``."""
    entity_share: Tensor
    """The share of training triples that have each entity as head or tail, ``(E,)``; sums to 2."""
    relation_share: Tensor
    """The share of training triples that have each relation, ``(R,)``; sums to 1."""
    shards: Shards | None = None
    """Which entities this rank has, if ranks share them out."""

    @property
    def num_entities(self) -> int:
        return self.triples.num_entities

    @property
    def num_own(self) -> int:
        """Entities that this process has."""
        return self.shards.largest if self.shards else self.num_entities

    @property
    def device(self) -> torch.device:
        return self.entity_share.device


@lru_cache(maxsize=1)  # the ensembles of a search share it
def build_problem(
    triples: Triples, kind: GraphKind, reciprocal: bool, device: torch.device
) -> Problem:
    """Builds the graph and the queries with their known entities, and moves all to the device."""
    if len(triples.train) == 0:
        raise UserError("there are no training triples to learn from")
    entities, relations = triples.num_entities, triples.num_relations
    training = source.queries(triples.train, entities, relations, reciprocal)
    known = source.known(triples)
    parts = {"valid": triples.valid, "test": triples.test}
    entity_share, relation_share = _shares(training)
    graph = build_graph(triples, kind)
    return Problem(
        triples=triples,
        graph=None if graph is None else graph.to(device),
        training=_to_device(training, device),
        parts={name: RankingQueries.of(part, known, device) for name, part in parts.items()},
        entity_share=entity_share.to(device),
        relation_share=relation_share.to(device),
    )


def with_all_triples(problem: Problem) -> Problem:
    """The problem with the triples of all parts to learn from. The edges of the graph stay those of
    the training triples, which a bundle predicts with."""
    triples, device = problem.triples, problem.device
    every = torch.cat((triples.train, triples.valid, triples.test))
    reciprocal = problem.training.num_relations == 2 * triples.num_relations
    training = source.queries(every, triples.num_entities, triples.num_relations, reciprocal)
    entity_share, relation_share = (share.to(device) for share in _shares(training))
    graph = problem.graph
    return replace(
        problem,
        graph=graph.trained_on(every) if isinstance(graph, FeaturedGraph) else graph,
        training=_to_device(training, device),
        entity_share=entity_share,
        relation_share=relation_share,
    )


def _to_device(queries: Queries, device: torch.device) -> Queries:
    return replace(
        queries,
        pairs=queries.pairs.to(device),
        ptr=queries.ptr.to(device),
        tails=queries.tails.to(device),
    )


def _shares(training: Queries) -> tuple[Tensor, Tensor]:
    """The shares of training triples that have each entity and each relation."""
    counts = training.ptr.diff()
    head, relation = training.pairs.unbind(1)

    def count_triples(which: Tensor, size: int) -> Tensor:
        return torch.bincount(which, weights=counts.double(), minlength=size)

    heads = count_triples(head, training.num_entities)
    tails = torch.bincount(training.tails, minlength=training.num_entities)
    relations = count_triples(relation, training.num_relations)
    total = max(1, len(training.tails))
    return ((heads + tails) / total).float(), (relations / total).float()
