r"""The known triples that support a prediction: first-order influence on the vectors of entities.

Let :math:`f(x)` be the score of a triple, summed over both ends. The strength of a trained triple
:math:`x` for a prediction :math:`a` is

.. math:: \frac{\nabla f(x) \cdot \nabla f(a)}{\|\nabla f(a)\|^2}:

how much :math:`f(x)` rises if the vectors of entities move so that :math:`f(a)` rises by 1. It is
symmetric up to the scale: a training step that raises :math:`f(x)` raises :math:`f(a)` by as much
(after `TracIn <https://arxiv.org/abs/2002.08484>`_). Scores are used, not log-probabilities, whose
gradients vanish for triples that are learned well. ``benchmarks/explain.py`` removes such triples
and trains again.
"""

import torch
from torch import Tensor

from quatgraph.data.link import with_inverses
from quatgraph.predictors.link_combination import CombinedModel
from quatgraph.predictors.members import TrainedMember
from quatgraph.predictors.predictions import Support
from quatgraph.tasks.link.config import LinkConfig

STEP = 0.1
"""How far the score of the prediction is moved, up and down, to measure a derivative."""


def find_neighbours(triple: Tensor, trained: Tensor) -> Tensor:
    """The trained triples ``(K, 3)`` that share an entity with a triple ``(3,)``, without it."""
    touching = torch.isin(trained[:, [0, 2]], triple[[0, 2]]).any(dim=1)
    return trained[touching & (trained != triple).any(dim=1)]


def find_support(
    model: CombinedModel, triple: Tensor, trained: Tensor, top: int
) -> tuple[Tensor, Tensor]:
    """The trained triples that support a prediction most, ``(K, 3)``, and their positive strengths,
    ``(K,)``."""
    others = find_neighbours(triple, trained)
    strengths = compute_strengths(model, triple, others)
    best = strengths.argsort(descending=True, stable=True)[:top]
    best = best[strengths[best] > 0]
    return others[best], strengths[best]


def name_support(
    model: CombinedModel, triples: Tensor, trained: Tensor, top: int
) -> list[list[Support]]:
    """The trained triples that support each prediction ``(N, 3)`` most, by their labels."""
    ends, kinds = model.triples.entity_labels, model.triples.relation_labels
    found = []
    for triple in triples:
        rows, strengths = find_support(model, triple, trained, top)
        pairs = zip(rows.tolist(), strengths.tolist(), strict=True)
        found.append([Support(ends[h], kinds[r], ends[t], value) for (h, r, t), value in pairs])
    return found


def compute_strengths(model: CombinedModel, triple: Tensor, others: Tensor) -> Tensor:
    """The strength of other triples for a prediction, the weighted mean over members.

    Shape:
        - triple: ``(3,)``
        - others: ``(K, 3)``
        - output: ``(K,)``
    """
    total, relations = torch.zeros(len(others)), model.triples.num_relations
    for share, member in zip(model.shares, model.members, strict=True):
        entities = model.encode(member).detach()
        with torch.enable_grad():
            moved = entities.clone().requires_grad_()
            own = _score(member, moved, triple[None], relations)
            (gradient,) = torch.autograd.grad(own.sum(), moved)
        squared = float(gradient.square().sum())
        if squared == 0:  # nothing raises it
            continue
        change = STEP / squared * gradient
        with torch.no_grad():
            # A difference needs no derivatives of the many other triples, one by one.
            rise = _score(member, entities + change, others, relations)
            rise -= _score(member, entities - change, others, relations)
        total += share * rise.cpu() / (2 * STEP)
    return total


def _score(
    member: TrainedMember[LinkConfig], entities: Tensor, triples: Tensor, num_relations: int
) -> Tensor:
    """The scores of triples, summed over both ends, ``(N,)``."""
    both = with_inverses(triples, num_relations).to(entities.device)
    head, relation, truth = both.unbind(1)
    query, candidates = member.model.decode(entities, head, relation)
    return (query * candidates.index_select(0, truth)).sum(dim=1).view(2, -1).sum(dim=0)
