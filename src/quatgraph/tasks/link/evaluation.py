"""Filtered ranking of both sides, ties at their expected rank."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from quatgraph.data.link import with_inverses
from quatgraph.metrics.ranking import ranking_metrics, ranking_values
from quatgraph.ops import Ranks, Shards, filtered_rank
from quatgraph.tasks.link.problem import Problem, RankingQueries

SIDES = ("tails", "heads")
"""What is predicted, in the order of :class:`RankingQueries`."""
SEEN = ("seen", "unseen")
"""Whether training triples have all names of a triple."""


def rank_candidates(
    query: Tensor,
    candidates: Tensor,
    queries: RankingQueries,
    max_numbers: int | None = None,
    shards: Shards | None = None,
) -> Ranks:
    """Counts the entities ranked above the true one, and those level with it.

    Args:
        max_numbers, shards: As in :func:`quatgraph.ops.filtered_rank`.

    Shape:
        - query: ``(2N, D)``; of several members ``(M, 2N, D)``
        - candidates: ``(E, D)``; of several members ``(M, E, D)``
        - output: counts ``(2N,)``; of several members ``(M, 2N)``
    """
    truth = queries.truth, queries.ptr, queries.known
    return filtered_rank(query, candidates, *truth, max_numbers=max_numbers, shards=shards)


@torch.no_grad()
def rank_part(
    model: nn.Module, problem: Problem, part: str, max_numbers: int | None = None
) -> Ranks:
    """Ranks the true entities of a part by one model in evaluation mode."""
    queries = problem.parts[part]
    query, candidates = model(problem.graph, queries.head, queries.relation)
    return rank_candidates(query, candidates, queries, max_numbers, problem.shards)


def rank_by_popularity(problem: Problem, part: str) -> Ranks:
    """The popularity baseline: ranks the true entities of a part by how often each answers the
    query's relation in training."""
    entities, relations = problem.num_entities, 2 * problem.triples.num_relations
    _, relation, answer = with_inverses(problem.triples.train, relations // 2).unbind(1)
    counts = torch.bincount(relation * entities + answer, minlength=relations * entities)
    candidates = counts.view(relations, entities).mT.float().to(problem.device)
    queries = problem.parts[part]
    query = one_hot(queries.relation, relations).to(candidates.dtype)
    return rank_candidates(query, candidates, queries)


def find_seen(problem: Problem, part: str) -> Tensor:
    """Whether training triples have the relation and both entities of each query of a part,
    ``(2N,)``."""
    queries = problem.parts[part]
    entity, relation = problem.entity_share > 0, problem.relation_share > 0
    return (
        entity[queries.head]
        & entity[queries.truth]
        & relation[queries.relation % problem.triples.num_relations]
    )


def summarize_ranks(ranks: Ranks, part: str, seen: Tensor | None = None) -> dict[str, float]:
    """The ranking metrics of one model on a part, over both sides and over each.

    ``test/mrr``, ``test/hits@10`` and so on; of one side ``test-tails/mrr``. If some queries have
    names that training never saw, see :func:`find_seen`, also ``test-seen/mrr`` and
    ``test-unseen/mrr``.
    """
    side = torch.arange(2, device=ranks.greater.device).repeat_interleave(
        ranks.greater.size(-1) // 2
    )
    masks = {name: side == place for place, name in enumerate(SIDES)}
    if seen is not None and not bool(seen.all()):
        masks |= {name: mask for name, mask in zip(SEEN, (seen, ~seen), strict=True) if mask.any()}
    both = {f"{part}/{name}": value.item() for name, value in ranking_metrics(ranks).items()}
    return both | {
        f"{part}-{name}/{metric}": value.item()
        for name, mask in masks.items()
        for metric, value in ranking_metrics(ranks, mask).items()
    }


def by_relation(
    ranks: Ranks, queries: RankingQueries, relations: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The ranking metrics of one model for each relation, over both sides.

    Returns:
        By relation the metrics of :func:`ranking_metrics` and the number of ``triples``.
    """
    relation = (queries.relation % len(relations)).cpu()
    counts = torch.bincount(relation, minlength=len(relations))
    means = {
        name: torch.bincount(relation, value.cpu(), len(relations)) / counts
        for name, value in ranking_values(ranks).items()
    }
    return {
        relations[index]: {
            "triples": int(counts[index]) // 2,
            **{name: float(value[index]) for name, value in means.items()},
        }
        for index in counts.nonzero().flatten().tolist()
    }
