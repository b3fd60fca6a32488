"""Triple classification, against a loop over relations and thresholds."""

import dataclasses
import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from cities import CPU, cities, config_of, outcome_of, problem_of, with_negatives
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from quatgraph.data.link import Triples, load
from quatgraph.tasks.link import LINK, classification
from quatgraph.tasks.link.classification import (
    ScoredTriples,
    classification_metrics,
    fit_thresholds,
    score_triples,
)
from quatgraph.tasks.link.problem import Problem

R = 3


def best_threshold(rows: list[tuple[float, bool]]) -> float:
    """Tries every gap between two different scores, and beyond them all."""
    if not rows:
        return math.nan
    edges = [-math.inf, *sorted({score for score, _ in rows}), math.inf]
    tried = []
    for lower, upper in pairwise(edges):
        inside = math.isfinite(lower) and math.isfinite(upper)
        threshold = (lower + upper) / 2
        correct = sum((score > threshold) == right for score, right in rows)
        tried.append((correct, upper - lower if inside else 0.0, threshold))
    return max(tried)[2]


def by_relation(judged: list[tuple[int, float, bool]]) -> list[float]:
    return [best_threshold([row[1:] for row in judged if row[0] == r]) for r in range(R)]


def as_tensors(judged: list[tuple[int, float, bool]]) -> ScoredTriples:
    relation, score, right = zip(*judged, strict=True) if judged else ((), (), ())
    return ScoredTriples(
        torch.tensor(relation, dtype=torch.long),
        torch.tensor(score, dtype=torch.float64),
        torch.tensor(right, dtype=torch.bool),
    )


def assert_same(found: Tensor, wanted: list[float]) -> None:
    torch.testing.assert_close(
        found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=0, equal_nan=True
    )


# Few different scores: many triples are level.
rows = st.tuples(
    st.integers(0, R - 1), st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 4.0]), st.booleans()
)


@given(st.lists(rows, max_size=20))
def test_a_threshold_is_the_best_of_all_that_there_are(
    judged: list[tuple[int, float, bool]],
) -> None:
    assert_same(fit_thresholds(as_tensors(judged), R), by_relation(judged))


@pytest.mark.parametrize(
    ("judged", "wanted"),
    [
        ([(1.0, True)], -math.inf),
        ([(1.0, False)], math.inf),
        ([(1.0, True), (3.0, True)], -math.inf),
        ([(1.0, False), (3.0, True)], 2.0),
        ([(1.0, False), (1.0, True)], math.inf),  # level: all or none, and the higher of both
        ([(0.0, False), (1.0, True), (2.0, False), (5.0, True)], 3.5),  # the wider of two gaps
        ([(0.0, False), (3.0, True), (4.0, False), (7.0, True)], 5.5),  # the higher of two gaps
        ([(0.0, True), (1.0, False), (2.0, True)], 1.5),  # as good as to take all
    ],
)
def test_thresholds_that_one_can_see(judged: list[tuple[float, bool]], wanted: float) -> None:
    found = fit_thresholds(as_tensors([(1, *row) for row in judged]), R)
    assert_same(found, [math.nan, wanted, math.nan])


def test_a_score_that_is_no_number_is_never_taken_for_right() -> None:
    problem = problem_of(with_negatives(cities()), **TIED)
    model = tied_model(problem)
    with torch.no_grad():
        model.entities.fill_(math.nan)
    assert classification_metrics(model, problem) == {"test/classified": 0.5, "test/f1": 0.0}


TIED = {"model.name": "embeddings", "model.norm": False, "model.dim_quats": 1}


def tied_model(problem: Problem, **values: Any) -> nn.Module:
    """A model with small whole numbers for weights: many scores are equal, and all exact."""
    model = LINK.build(config_of(**TIED | values), problem).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randint(-2, 3, weight.shape))
    return model


def drawn(count: int, relations: list[int]) -> Tensor:
    relation = torch.tensor(relations)[torch.randint(len(relations), (count,))]
    return torch.stack((torch.randint(30, (count,)), relation, torch.randint(30, (count,))), dim=1)


@pytest.fixture
def triples() -> Triples:
    """Of the three relations the first has no validation triples, and the second one."""
    return dataclasses.replace(
        cities(),
        valid=drawn(20, [2]),
        valid_negatives=torch.cat((drawn(20, [2]), torch.tensor([[3, 1, 4]]))),
        test=drawn(40, [0, 1, 2]),
        test_negatives=drawn(30, [0, 1, 2]),
    )


def score(model: nn.Module, head: int, relation: int, tail: int) -> float:
    numbers = model.entities[head] * model.decoder.relations[relation] * model.entities[tail]
    return numbers.sum().item()


@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("at_once", [1 << 16, 7])
def test_accuracy_and_f1_equal_those_of_a_loop(
    triples: Triples, reciprocal: bool, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classification, "TRIPLES_PER_CHUNK", at_once)
    values = {"data.reciprocal": reciprocal}
    problem = problem_of(triples, **TIED | values)
    model = tied_model(problem, **values)

    def judged(right: Tensor, wrong: Tensor) -> list[tuple[int, float, bool]]:
        found = []
        for place, (h, r, t) in enumerate(torch.cat((right, wrong)).tolist()):
            one = score(model, h, r, t)
            if reciprocal:
                one = (one + score(model, t, r + R, h)) / 2
            found.append((r, one, place < len(right)))
        return found

    valid = judged(triples.valid, triples.valid_negatives)
    test = judged(triples.test, triples.test_negatives)
    both = torch.cat((triples.test, triples.test_negatives))
    assert score_triples(model, problem, both).tolist() == [one for _, one, _ in test]

    overall = best_threshold([row[1:] for row in valid])
    own = [overall if math.isnan(each) else each for each in by_relation(valid)]
    assert own[0] == overall
    assert own[1] == math.inf
    answers = [(one > own[r], right) for r, one, right in test]
    hits, missed, wrong = (answers.count(kind) for kind in [(1, 1), (0, 1), (1, 0)])
    assert classification_metrics(model, problem) == pytest.approx(
        {
            "test/classified": sum(taken == right for taken, right in answers) / len(answers),
            "test/f1": 2 * hits / (2 * hits + missed + wrong),
        }
    )


@pytest.mark.parametrize("decoder", ["distmult", "complex", "quate", "transe"])
def test_both_sides_of_a_triple_score_alike_where_inverse_relations_are_not_learned(
    triples: Triples, decoder: str
) -> None:
    values = TIED | {"data.reciprocal": False, "model.decoder": decoder}
    problem = problem_of(triples, **values)
    model = LINK.build(config_of(**values), problem).eval()
    turned = triples.test.flip(1) + torch.tensor([0, R, 0])
    forth, back = (score_triples(model, problem, part) for part in (triples.test, turned))
    torch.testing.assert_close(forth, back, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", ["valid_negatives", "test_negatives"])
def test_without_wrong_triples_there_is_nothing_to_tell(missing: str) -> None:
    triples = dataclasses.replace(with_negatives(cities()), **{missing: None})
    problem = problem_of(triples, **TIED)
    assert classification_metrics(tied_model(problem), problem) == {}


def test_a_model_that_has_learned_tells_right_from_wrong() -> None:
    triples = with_negatives(cities())
    values = {"train.epochs": 20, "train.loss": "softmax", "model.name": "embeddings"}
    config = config_of(**values, **{"seeds": 3, "model.dim_quats": 4, "train.select": "last"})
    outcome = outcome_of(LINK.members(config, triples), triples)
    model = LINK.build(config, outcome.problem).eval()
    for member in range(3):
        weights = {name: outcome.fit.weights[name][member] for name in model.state_dict()}
        model.load_state_dict(weights)
        found = classification_metrics(model, outcome.problem)
        assert found["test/classified"] > 0.8
        assert found["test/f1"] > 0.8


@pytest.mark.realdata
@pytest.mark.parametrize(("name", "share"), [("codex-s", 0.780), ("codex-m", 0.727)])
def test_a_model_that_has_not_learned_knows_the_more_frequent_answer_of_each_relation(
    name: str, share: float
) -> None:
    triples = load(name)
    right, wrong, test_right, test_wrong = (
        part[:, 1].bincount(minlength=triples.num_relations)
        for part in (
            triples.valid,
            triples.valid_negatives,
            triples.test,
            triples.test_negatives,
        )
    )
    known = torch.where(right > wrong, test_right, test_wrong).sum()
    frequent = float(known / (test_right + test_wrong).sum())
    assert frequent == pytest.approx(share, abs=5e-4)
    config = config_of(**{"data.name": name, "data.path": ""})
    problem = LINK.prepare(triples, config, CPU)
    found = classification_metrics(LINK.build(config, problem).eval(), problem)
    assert found["test/classified"] == pytest.approx(frequent, abs=0.02)


@pytest.mark.gpu
def test_the_gpu_classifies_as_the_cpu(triples: Triples) -> None:
    problem = problem_of(triples, **TIED)
    model = tied_model(problem)
    wanted = classification_metrics(model, problem)
    there = LINK.prepare(triples, config_of(**TIED), torch.device("cuda"))
    assert classification_metrics(model.cuda(), there) == wanted
