"""A knowledge graph as the models take it."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.data import link as source
from quatgraph.data.link import Queries, Triples
from quatgraph.errors import Mistake
from quatgraph.models.link import MODELS
from quatgraph.tasks.link.config import DataConfig, LinkConfig


@dataclass(frozen=True, slots=True)
class Questions:
    """Triples as questions: first for their tails, then, of inverse relations, for their heads."""

    head: Tensor
    relation: Tensor
    truth: Tensor
    """The right answer of each, ``(2N,)`` as the others."""
    pointers: Tensor
    """Where the known answers of each begin, ``(2N + 1,)``."""
    known: Tensor
    """All known answers, ``(K,)``."""

    @classmethod
    def of(cls, triples: Tensor, known: Queries, device: torch.device) -> "Questions":
        """
        Args:
            triples: What is asked, ``(N, 3)``.
            known: All that is known, of both sides.
        """
        asked = source.with_inverses(triples, known.num_relations // 2)
        found = known.select(asked[:, :2])
        head, relation, truth = (column.contiguous().to(device) for column in asked.unbind(1))
        return cls(head, relation, truth, found.ptr.to(device), found.tails.to(device))


@dataclass(frozen=True, slots=True)
class Problem:
    """A knowledge graph as the models take it, on a device."""

    triples: Triples
    adjacency: Adjacency
    """That of :func:`entity_adjacency`."""
    training: Queries
    """The pairs of head and relation to learn from, with their tails."""
    parts: dict[str, Questions]
    """``valid`` and ``test``."""
    entity_share: Tensor
    """How often each entity is head or tail of what is learned, over the number of that, ``(E,)``;
    sums to 2."""
    relation_share: Tensor
    """The same of relations, with vectors of their own; sums to 1."""

    @property
    def num_entities(self) -> int:
        return self.triples.num_entities

    @property
    def device(self) -> torch.device:
        return self.entity_share.device


def load_triples(config: DataConfig) -> Triples:
    """Reads the dataset a config names, or the person's own files."""
    configs.check_source(config)
    if config.name:
        return source.load(config.name)
    return source.read(
        Path(config.path), header=config.header, split_seed=config.split_seed, unseen=config.unseen
    )


def entity_adjacency(triples: Triples, normalization: Normalization) -> Adjacency:
    """The one undirected graph of the entities, with self-loops, normalised."""
    edges = source.entity_graph(triples.train, triples.num_entities)
    prepared = Adjacency.from_edge_index(edges, triples.num_entities, self_loops=True)
    return prepared.normalized(normalization)


def prepare(triples: Triples, config: LinkConfig, device: torch.device) -> Problem:
    """Builds the graph, the queries and what is known of them, and moves all to the device."""
    return _prepared(triples, config.model.matrix, config.data.reciprocal, device)


@lru_cache(maxsize=1)  # the ensembles of a search share it
def _prepared(
    triples: Triples, normalization: Normalization, reciprocal: bool, device: torch.device
) -> Problem:
    if len(triples.train) == 0:
        raise Mistake("there are no training triples to learn from")
    entities, relations = triples.num_entities, triples.num_relations
    training = source.queries(triples.train, entities, relations, reciprocal)
    known = source.known(triples)
    parts = {"valid": triples.valid, "test": triples.test}
    entity_share, relation_share = _shares(training)
    return Problem(
        triples=triples,
        adjacency=entity_adjacency(triples, normalization).to(device),
        training=Queries(
            pairs=training.pairs.to(device),
            ptr=training.ptr.to(device),
            tails=training.tails.to(device),
            num_entities=entities,
            num_relations=training.num_relations,
        ),
        parts={name: Questions.of(part, known, device) for name, part in parts.items()},
        entity_share=entity_share.to(device),
        relation_share=relation_share.to(device),
    )


def _shares(training: Queries) -> tuple[Tensor, Tensor]:
    """How often entities and relations occur in what is learned, over the number of that."""
    counts = training.ptr.diff()
    head, relation = training.pairs.unbind(1)

    def weighed(which: Tensor, size: int) -> Tensor:
        return torch.bincount(which, weights=counts.double(), minlength=size)

    entity = weighed(head, training.num_entities) + torch.bincount(
        training.tails, minlength=training.num_entities
    )
    total = max(1, len(training.tails))
    return (entity / total).float(), (weighed(relation, training.num_relations) / total).float()


def build_model(config: LinkConfig, problem: Problem) -> nn.Module:
    """A new model of a configuration."""
    triples = problem.triples
    return MODELS[config.model.name].from_options(
        config.model,
        triples.num_entities,
        triples.num_relations,
        reciprocal=config.data.reciprocal,
    )
