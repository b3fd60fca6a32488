r"""Telling right triples from wrong ones, where a dataset has plausible wrong ones.

A triple is taken for right where its score is above a threshold of its relation, the one with the
best accuracy on validation triples, right and wrong. All that lie between the same two scores have
the same accuracy: of several such gaps the widest is chosen, the higher one of equally wide ones,
and of a gap its middle. Beyond all scores, where all triples are taken for right or none is, a gap
has no middle and no width. A relation without validation triples has the threshold of all of them
together.

A relation alone may tell much: its more frequent answer in validation is right for 78.0 % of
CoDEx-S's test triples and for 72.7 % of CoDEx-M's, which a model has to surpass.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from quatgraph.data import link as source
from quatgraph.tasks.link.problem import Problem

TRIPLES_AT_ONCE = 1 << 16


def classified(model: nn.Module, problem: Problem) -> dict[str, float]:
    """How well one model, in evaluation mode, tells the test triples from wrong ones: the accuracy
    ``test/classified``, and ``test/f1`` of the right ones; nothing for data without wrong ones."""
    triples = problem.triples
    if triples.valid_negatives is None or triples.test_negatives is None:
        return {}
    valid = _judged(model, problem, triples.valid, triples.valid_negatives)
    test = _judged(model, problem, triples.test, triples.test_negatives)
    own = thresholds(valid, triples.num_relations)
    whole = thresholds(valid._replace(relation=torch.zeros_like(valid.relation)), 1)
    taken = test.score > torch.where(own.isnan(), whole, own)[test.relation]
    hits, all_taken, all_right = (
        flags.sum().item() for flags in (taken & test.right, taken, test.right)
    )
    return {
        "test/classified": (taken == test.right).double().mean().item(),
        "test/f1": 2 * hits / max(1, all_taken + all_right),
    }


@torch.no_grad()
def scores_of(model: nn.Module, problem: Problem, triples: Tensor) -> Tensor:
    """The score of each triple, in float64.

    It is that of the tail as the answer to head and relation. Where inverse relations are learned
    too, the head as the answer to tail and inverse relation has a score of its own, learned from
    the same triples: then it is the mean of both. Elsewhere that is the same score, or, of a query
    that is normalised, one that was never learned.

    Shape:
        - triples: ``(N, 3)``
        - output: ``(N,)``
    """
    relations = problem.triples.num_relations
    reciprocal = problem.training.num_relations > relations
    asked = source.with_inverses(triples, relations) if reciprocal else triples

    def answered(some: Tensor) -> Tensor:
        head, relation, tail = some.to(problem.device).unbind(1)
        query, candidates = model(problem.adjacency, head, relation)
        return (query * candidates.index_select(0, tail)).sum(dim=-1)

    scores = torch.cat([answered(some) for some in asked.split(TRIPLES_AT_ONCE)])
    return scores.double().view(1 + reciprocal, len(triples)).mean(dim=0)


class Judged(NamedTuple):
    """Triples by their scores, each ``(N,)``."""

    relation: Tensor
    score: Tensor
    right: Tensor


def _judged(model: nn.Module, problem: Problem, right: Tensor, wrong: Tensor) -> Judged:
    triples = torch.cat((right, wrong))
    score = scores_of(model, problem, triples)
    place = torch.arange(len(triples), device=score.device)
    return Judged(triples[:, 1].to(score.device), score, place < len(right))


def thresholds(judged: Judged, num_relations: int) -> Tensor:
    """The threshold of each relation, ``(R,)``: NaN where it has no triples, infinite where all
    triples, or none, are best taken for right."""
    # The gaps of a relation: one above each score, and one below all of them.
    floor = torch.arange(num_relations, device=judged.score.device)
    relation = torch.cat((floor, judged.relation))
    score = torch.cat((judged.score.new_full(floor.shape, -torch.inf), judged.score))
    # What is gained by a threshold that has come to be above a triple.
    gain = torch.cat((torch.zeros_like(floor), torch.where(judged.right, -1, 1)))
    order = _order(relation, score)
    lower, gain = score[order], gain[order].cumsum(0)
    upper = lower.roll(-1)
    upper[upper == -torch.inf] = torch.inf  # the next gap is another relation's
    width = upper - lower
    gain = gain.where(width > 0, -len(order))  # less than any: equal scores have no gap
    width = width.where(width.isfinite(), 0)
    # A relation's gaps stay together, so that its best is the last of so many.
    best = _order(relation[order], gain, width)[relation.bincount().cumsum(0) - 1]
    return ((lower + upper) / 2)[best]


def _order(*keys: Tensor) -> Tensor:
    """Sorts by the first key, those equal in it by the next, and so on."""
    order = torch.arange(len(keys[0]), device=keys[0].device)
    for key in reversed(keys):
        order = order[key[order].argsort(stable=True)]
    return order
