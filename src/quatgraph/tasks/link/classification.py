r"""Triple classification, for datasets with plausible negative triples.

A triple is classified as positive if its score is above the threshold of its relation: the one with
the best accuracy on positive and negative validation triples. All thresholds between the same two
scores have the same accuracy, so the middle of the widest such gap is chosen; of equally wide gaps,
the higher one. Beyond all scores, where all triples or none are positive, a gap has no middle and
no width. A relation without validation triples gets the threshold of all relations together.

The majority class of each relation in validation is a strong baseline: its accuracy is 78.0 % on
CoDEx-S's test triples and 72.7 % on CoDEx-M's.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from quatgraph.data import link as source
from quatgraph.models.link.graphs import Graph
from quatgraph.tasks.link.problem import Problem

TRIPLES_PER_CHUNK = 1 << 16
Model = Callable[[Graph, Tensor, Tensor], tuple[Tensor, Tensor]]
"""Vectors of queries and of candidates, from the graph, heads and relations; a
:class:`torch.nn.Module` in evaluation mode, or several as one."""


def classification_metrics(model: Model, problem: Problem) -> dict[str, float]:
    """How well a model classifies test triples: the accuracy ``test/classified``, and ``test/f1``
    of the positives; empty for data without negatives."""
    triples = problem.triples
    if triples.valid_negatives is None or triples.test_negatives is None:
        return {}
    valid = _score_parts(model, problem, triples.valid, triples.valid_negatives)
    test = _score_parts(model, problem, triples.test, triples.test_negatives)
    own = fit_thresholds(valid, triples.num_relations)
    whole = fit_thresholds(valid._replace(relation=torch.zeros_like(valid.relation)), 1)
    predicted = test.score > torch.where(own.isnan(), whole, own)[test.relation]
    true_positives, num_predicted, num_positive = (
        flags.sum().item() for flags in (predicted & test.positive, predicted, test.positive)
    )
    return {
        "test/classified": (predicted == test.positive).double().mean().item(),
        "test/f1": 2 * true_positives / max(1, num_predicted + num_positive),
    }


@torch.no_grad()
def score_triples(model: Model, problem: Problem, triples: Tensor) -> Tensor:
    """Scores each triple, in float64.

    The score is that of the tail for head and relation. If inverse relations are learned too, the
    head has a score of its own for tail and inverse relation, and the result is the mean of both.

    Shape:
        - triples: ``(N, 3)``
        - output: ``(N,)``
    """
    relations = problem.triples.num_relations
    reciprocal = problem.training.num_relations > relations
    queries = source.with_inverses(triples, relations) if reciprocal else triples

    def score_tails(chunk: Tensor) -> Tensor:
        head, relation, tail = chunk.to(problem.device).unbind(1)
        query, candidates = model(problem.graph, head, relation)
        if problem.shards:
            _, tails = problem.shards.rows(candidates, tail)
        else:
            tails = candidates.index_select(0, tail)
        return (query * tails).sum(dim=-1)

    scores = torch.cat([score_tails(chunk) for chunk in queries.split(TRIPLES_PER_CHUNK)])
    return scores.double().view(1 + reciprocal, len(triples)).mean(dim=0)


class ScoredTriples(NamedTuple):
    """Triples with their scores, each ``(N,)``."""

    relation: Tensor
    score: Tensor
    positive: Tensor


def _score_parts(
    model: Model, problem: Problem, positives: Tensor, negatives: Tensor
) -> ScoredTriples:
    triples = torch.cat((positives, negatives))
    score = score_triples(model, problem, triples)
    index = torch.arange(len(triples), device=score.device)
    return ScoredTriples(triples[:, 1].to(score.device), score, index < len(positives))


def fit_thresholds(scored: ScoredTriples, num_relations: int) -> Tensor:
    """The threshold of each relation, ``(R,)``: NaN for a relation without triples, infinite where
    it is best to classify all triples, or none, as positive."""
    # The gaps of a relation: one above each score, and one below all of them.
    floor = torch.arange(num_relations, device=scored.score.device)
    relation = torch.cat((floor, scored.relation))
    score = torch.cat((scored.score.new_full(floor.shape, -torch.inf), scored.score))
    # What accuracy gains when the threshold rises above a triple.
    gain = torch.cat((torch.zeros_like(floor), torch.where(scored.positive, -1, 1)))
    order = _lexsort(relation, score)
    lower, gain = score[order], gain[order].cumsum(0)
    upper = lower.roll(-1)
    upper[upper == -torch.inf] = torch.inf  # the next gap is another relation's
    width = upper - lower
    gain = gain.where(width > 0, -len(order))  # less than any: equal scores have no gap
    width = width.where(width.isfinite(), 0)
    # A relation's gaps stay together, so that its best is the last of so many.
    best = _lexsort(relation[order], gain, width)[relation.bincount().cumsum(0) - 1]
    return ((lower + upper) / 2)[best]


def _lexsort(*keys: Tensor) -> Tensor:
    """Sorts by the first key, those equal in it by the next, and so on."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in reversed(keys):
        order = order[key[order].argsort(stable=True)]
    return order
