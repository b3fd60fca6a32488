"""Combinations of models of triples, measured by the ranks of the true entities."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quatgraph.metrics.ranking import ranking_metrics
from quatgraph.models.link.graphs import Graph
from quatgraph.ops import Ranks
from quatgraph.tasks.link.classification import classification_metrics
from quatgraph.tasks.link.evaluation import find_seen, rank_candidates, summarize_ranks
from quatgraph.tasks.link.joined import (
    Vectors,
    append_constants,
    compute_constants,
    join_vectors,
)
from quatgraph.tasks.link.problem import Problem, RankingQueries

Prepared = tuple[nn.Module, Problem]
"""A model in evaluation mode and its problem."""
NUMBERS = 1 << 28
"""Scores of validation queries that are held to select a combination, over all models."""


class RankingPool:
    """Models of triples, combined by the weighted mean of their log-softmax scores.

    Combinations are selected by as many validation queries, evenly spaced, as fit into
    :data:`NUMBERS`; metrics are computed for all queries.

    Args:
        models: Models in evaluation mode, each with its problem.
        monitor: The metric to select by, such as ``mrr``.
    """

    @torch.no_grad()
    def __init__(self, models: Sequence[Prepared], monitor: str) -> None:
        self.models, self.monitor = models, monitor
        queries = models[0][1].parts["valid"]
        self.num_valid = len(queries.head) // 2
        if not self.num_valid:
            return
        count, entities = len(queries.head), models[0][1].num_entities
        held = max(1, min(count, NUMBERS // (len(models) * entities)))
        rows = torch.arange(held, device=queries.head.device) * count // held
        self.truth = queries.truth[rows][:, None]
        hidden = _other_answers(queries, rows, entities)
        self.scores = []
        for model, problem in models:
            query, candidates = model(problem.graph, queries.head[rows], queries.relation[rows])
            scores = (query @ candidates.mT).log_softmax(dim=1)
            self.scores.append(scores.masked_fill_(hidden, -torch.inf))

    def score(self, weights: Sequence[int]) -> tuple[float, float]:
        total = sum(weights)
        used = [(weight / total, own) for weight, own in zip(weights, self.scores, strict=True)]
        combined = torch.stack([share * own for share, own in used if share]).sum(dim=0)
        true = combined.gather(1, self.truth)
        greater = (combined > true).sum(dim=1)
        equal = (combined == true).sum(dim=1) - 1
        metrics = ranking_metrics(Ranks(greater=greater, equal=equal))
        return float(metrics[self.monitor]), float(true.mean())

    @torch.no_grad()
    def metrics(self, weights: Sequence[int], temperature: float) -> dict[str, float]:
        """The ranking metrics and, for data with negatives, how well test triples are
        classified."""
        shares, models = self._select(weights)

        def score(graph: Graph, head: Tensor, relation: Tensor) -> Vectors:
            each = _decode(models, head, relation)
            return append_constants(join_vectors(shares, each), compute_constants(shares, each))

        # Heads have scores of their own if all models learned inverse relations.
        problem = min((p for _, p in models), key=lambda p: p.training.num_relations)
        found = classification_metrics(score, problem)
        for part, queries in problem.parts.items():
            if len(queries.head):
                ranks = self._rank(weights, part)
                found |= summarize_ranks(ranks, part, find_seen(problem, part))
        return found

    def item_scores(self, weights: Sequence[int]) -> Tensor:
        return self._rank(weights, "test").realistic.reciprocal()

    @torch.no_grad()
    def _rank(self, weights: Sequence[int], part: str) -> Ranks:
        """The ranks of the true entities of a part by a combination."""
        shares, models = self._select(weights)
        queries = self.models[0][1].parts[part]
        vectors = join_vectors(shares, _decode(models, queries.head, queries.relation))
        return rank_candidates(*vectors, queries)

    def _select(self, weights: Sequence[int]) -> tuple[list[float], list[Prepared]]:
        """The shares and models of a combination."""
        used = [(w / sum(weights), m) for w, m in zip(weights, self.models, strict=True) if w]
        return [share for share, _ in used], [model for _, model in used]

    def log_probabilities(self, weights: Sequence[int]) -> None:
        return None


def _decode(models: Sequence[Prepared], head: Tensor, relation: Tensor) -> list[Vectors]:
    return [model(problem.graph, head, relation) for model, problem in models]


def _other_answers(queries: RankingQueries, rows: Tensor, entities: int) -> Tensor:
    """Which entities are known to complete some of the queries, besides the true one, ``(Q, E)``;
    filtered ranks leave them out."""
    counts = queries.ptr.diff()[rows]
    row = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    first = queries.ptr[rows] - counts.cumsum(0) + counts
    place = torch.arange(len(row), device=rows.device) + first.repeat_interleave(counts)
    hidden = torch.zeros(len(rows), entities, dtype=torch.bool, device=rows.device)
    hidden[row, queries.known[place]] = True
    hidden[torch.arange(len(rows), device=rows.device), queries.truth[rows]] = False
    return hidden
