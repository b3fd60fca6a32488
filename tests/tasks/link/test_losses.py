"""The loss of a batch against the whole matrix of labels, and N3 against a loop over triples."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cities import cities, config_of, problem_of
from torch import Tensor

from quatgraph.layers.decoder import DECODERS
from quatgraph.tasks.link.batches import QueryBatches, expand_triples, look_up
from quatgraph.tasks.link.losses import Losses
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.task import Member

MEMBERS, QUATS = 2, 2
E, WIDTH = 30, 4 * QUATS


def losses_of(problem: Problem, *, divisor: int = 1, n3: list[float], **values: Any) -> Losses:
    members = [Member(config_of(**values, **{"train.n3": factor}), 0, 0) for factor in n3]
    return Losses(members, problem, divisor)


def labels(problem: Problem, head: Tensor, relation: Tensor) -> Tensor:
    """1 for each pair of a query and an entity that is a training triple, ``(M, B, E)``."""
    facts = set()
    for h, r, t in problem.triples.train.tolist():
        facts |= {(h, r, t), (t, r + 3, h)}
    pairs = torch.stack((head, relation), dim=-1).flatten(0, 1).tolist()
    rows = [[float((h, r, e) in facts) for e in range(E)] for h, r in pairs]
    return torch.tensor(rows).view(*head.shape, E)


@pytest.mark.parametrize("divisor", [1, 16])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("floor", ["none", "uniform"])
@pytest.mark.parametrize("loss", ["bce", "softmax", "kvsall"])
def test_a_loss_is_that_of_the_whole_matrix_of_labels(
    loss: str, floor: str, smoothing: float, divisor: int
) -> None:
    problem = problem_of(cities())
    batches = QueryBatches(problem.training, 16, range(MEMBERS))
    batches.draw(0)
    ((rows, _),) = batches.load(1)
    head, relation, positives = look_up(problem.training, rows)
    query = torch.randn(MEMBERS, 16, WIDTH, requires_grad=True)
    candidates = torch.randn(MEMBERS, E, WIDTH, requires_grad=True)
    settings = {"train.loss": loss, "train.smoothing": smoothing, "train.floor": floor}
    losses = losses_of(problem, divisor=divisor, n3=[0.0] * MEMBERS, **settings)
    found = losses.score_loss(query, candidates, positives)

    scores, right = query @ candidates.mT, labels(problem, head, relation)
    wanted = []
    for member in range(MEMBERS):
        if loss == "softmax":
            likely = torch.log_softmax(scores[member], dim=-1)
            wanted.append(-(likely * right[member]).sum() / right[member].sum())
            continue
        target = (1 - smoothing) * right[member] + (1 / E if floor == "uniform" else 0)
        if loss == "kvsall":  # each query weighs alike
            likely = torch.log_softmax(scores[member], dim=-1)
            share = target / target.sum(dim=-1, keepdim=True)
            wanted.append(-(share * likely).sum(dim=-1).mean())
            continue
        probability = torch.sigmoid(scores[member])
        each = target * probability.log() + (1 - target) * (1 - probability).log()
        wanted.append(-each.mean())
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-4, atol=1e-5)
    weights = torch.tensor([1.0, -2.0])
    slopes = torch.autograd.grad((found * weights).sum(), (query, candidates))
    by_hand = torch.autograd.grad((torch.stack(wanted) * weights).sum(), (query, candidates))
    for ours, theirs in zip(slopes, by_hand, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def absolute_values(vector: Tensor, components: int) -> list[float]:
    """Of the real, complex or quaternion numbers of a vector."""
    numbers = zip(*vector.view(components, -1).tolist(), strict=True)
    return [math.hypot(*parts) for parts in numbers]


def test_the_loss_of_relations_is_a_weighted_cross_entropy() -> None:
    problem = problem_of(cities())
    config = {"train.n3": 0.0}
    members = [
        Member(config_of(**config, **{"train.relation_weight": weight}), 0, 0)
        for weight in (0.5, 0.0)
    ]
    losses = Losses(members, problem)
    triples = torch.tensor([[3, 0, 5], [1, 1, 2]])
    query, candidates = torch.randn(MEMBERS, 3, WIDTH), torch.randn(MEMBERS, 6, WIDTH)
    found = losses.relation_loss((query, candidates), triples)
    relation = expand_triples(problem.training)[triples][..., 1]
    expected = F.cross_entropy((query @ candidates.mT)[0], relation[0])
    torch.testing.assert_close(found, torch.stack((0.5 * expected, torch.tensor(0.0))))
    ends = losses.ends(triples)
    assert ends is not None
    assert torch.equal(ends, expand_triples(problem.training)[triples][..., [0, 2]])


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("reciprocal", [True, False])
def test_n3_is_the_mean_over_all_that_is_learned_of_its_cubes(
    decoder: str, reciprocal: bool
) -> None:
    values = {"model.decoder": decoder, "data.reciprocal": reciprocal}
    problem = problem_of(cities(), **values)
    rows = 6 if reciprocal else 3
    entities, relations = torch.randn(MEMBERS, E, WIDTH), torch.randn(MEMBERS, rows, WIDTH)
    factors = [0.5, 0.0]
    losses = losses_of(problem, n3=factors, **values)
    # Candidates as the decoder makes them: TransE's go on behind the entities' own vectors.
    build = DECODERS[decoder]
    candidates = torch.stack(
        [build(3, WIDTH).as_inner_product(vectors[:1], vectors)[1] for vectors in entities]
    )
    found = losses.penalty(candidates, relations)

    facts = problem.triples.train.tolist()
    if reciprocal:
        facts += [(t, r + 3, h) for h, r, t in facts]
    for member, factor in enumerate(factors):
        total = sum(
            value**3
            for h, r, t in facts
            for vector in (entities[member, h], relations[member, r], entities[member, t])
            for value in absolute_values(vector, build.components)
        )
        assert found[member].item() == pytest.approx(factor * total / len(facts), rel=1e-5)


def test_n3_has_a_slope_of_zero_at_zero() -> None:
    problem = problem_of(cities())
    entities = torch.zeros(1, E, WIDTH, requires_grad=True)
    relations = torch.zeros(1, 6, WIDTH, requires_grad=True)
    losses_of(problem, n3=[1.0]).penalty(entities, relations).sum().backward()
    assert not entities.grad.any()
    assert not relations.grad.any()


def test_without_a_factor_there_is_no_penalty() -> None:
    problem = problem_of(cities())
    assert losses_of(problem, n3=[0.0, 0.0]).n3 is None
    assert losses_of(problem, n3=[0.0, 0.1]).n3.tolist() == pytest.approx([0.0, 0.1])
