"""What a model of triples is worth: filtered ranks of both sides, ties at their expected rank."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quatgraph.ops import Ranks, filtered_rank
from quatgraph.tasks.link.problem import Problem, Questions
from quatgraph.training.ranking import ranking_metrics, ranking_values

SIDES = ("tails", "heads")
"""What is asked for, in the order of :class:`Questions`."""


def ranked(
    query: Tensor, candidates: Tensor, questions: Questions, max_numbers: int | None = None
) -> Ranks:
    """How many entities are ahead of the right one, and how many are level with it.

    Shape:
        - query: ``(2N, D)``; of several members ``(M, 2N, D)``
        - candidates: ``(E, D)``; of several members ``(M, E, D)``
        - output: counts ``(2N,)``; of several members ``(M, 2N)``
    """
    return filtered_rank(
        query,
        candidates,
        questions.truth,
        questions.pointers,
        questions.known,
        max_numbers=max_numbers,
    )


@torch.no_grad()
def ranks_of(
    model: nn.Module, problem: Problem, part: str, max_numbers: int | None = None
) -> Ranks:
    """The ranks that one model, in evaluation mode, gives the right answers of a part."""
    questions = problem.parts[part]
    query, candidates = model(problem.adjacency, questions.head, questions.relation)
    return ranked(query, candidates, questions, max_numbers)


def told(ranks: Ranks, part: str) -> dict[str, float]:
    """The means of one model's ranks over a part, of both sides together and of each.

    ``test/mrr``, ``test/hits@10`` and so on; of one side ``test-tails/mrr``.
    """
    side = torch.arange(2, device=ranks.greater.device).repeat_interleave(
        ranks.greater.size(-1) // 2
    )
    both = {f"{part}/{name}": value.item() for name, value in ranking_metrics(ranks).items()}
    each = {
        f"{part}-{name}/{metric}": value.item()
        for place, name in enumerate(SIDES)
        for metric, value in ranking_metrics(ranks, side == place).items()
    }
    return both | each


def by_relation(
    ranks: Ranks, questions: Questions, relations: Sequence[str]
) -> dict[str, dict[str, float]]:
    """The means of one model's ranks for each relation that is asked for, both sides together.

    Returns:
        By relation the metrics of :func:`ranking_metrics` and the number of ``triples``.
    """
    relation = (questions.relation % len(relations)).cpu()
    counts = torch.bincount(relation, minlength=len(relations))
    means = {
        name: torch.bincount(relation, value.cpu(), len(relations)) / counts
        for name, value in ranking_values(ranks).items()
    }
    return {
        relations[place]: {
            "triples": int(counts[place]) // 2,
            **{name: float(value[place]) for name, value in means.items()},
        }
        for place in counts.nonzero().flatten().tolist()
    }
