"""Combinations of runs: greedy selection, temperatures, pools of classifiers."""

import math
from itertools import product
from statistics import fmean

import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from quatgraph.metrics.classification import CLASSIFICATION_METRICS, quadratic_score
from quatgraph.tasks import combination
from quatgraph.tasks.combination import (
    HALF_PICKS,
    HALVINGS,
    LEAST,
    MAX_PICKS,
    MOST_BAGGED,
    TEMPERATURES,
    ClassifierPool,
    TrainedRun,
    apply_temperature,
    fit_temperature,
    mean_score,
    select_bagged,
    select_single,
    select_weights,
)


def run_of(valid: Tensor, test: Tensor, labels: Tensor) -> TrainedRun:
    outputs = {"valid/logits": valid, "test/logits": test}
    return TrainedRun(None, {}, outputs | {"valid/labels": labels, "test/labels": labels})


def random_runs(count: int, seed: int = 0, items: int = 40, classes: int = 3) -> list[TrainedRun]:
    """Classifiers that are right more often than not, each in its own way."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (items,), generator=draw)
    truth = torch.nn.functional.one_hot(labels, classes)

    def logits() -> Tensor:
        return truth + 1.5 * torch.randn(items, classes, generator=draw)

    return [run_of(logits(), logits(), labels) for _ in range(count)]


def test_a_combination_is_at_least_as_good_as_the_best_run() -> None:
    for seed in range(5):
        pool = ClassifierPool(random_runs(6, seed))
        single, several = select_single(pool.score, 6), select_weights(pool.score, 6)
        assert sum(single) == 1
        assert pool.score(several) >= pool.score(single)
        assert pool.score(single) == max(
            pool.score([int(i == run) for i in range(6)]) for run in range(6)
        )
        assert sum(several) <= MAX_PICKS


def test_two_runs_get_the_weights_that_a_full_search_finds() -> None:
    pool = ClassifierPool(random_runs(2))
    every = [w for w in product(range(MAX_PICKS + 1), repeat=2) if 0 < sum(w) <= MAX_PICKS]
    best = max(map(pool.score, every))
    assert pool.score(select_weights(pool.score, 2)) == pytest.approx(best)


def test_a_single_run_is_kept_where_others_hurt() -> None:
    labels = torch.arange(30) % 3
    good = 4.0 * torch.nn.functional.one_hot(labels, 3)
    runs = [run_of(good, good, labels), run_of(-good, -good, labels)]
    pool = ClassifierPool(runs)
    assert select_weights(pool.score, 2) == (1, 0)


def test_bagged_selection_averages_runs_that_are_equally_good() -> None:
    """On new items it beats greedy selection, which follows the luck of the validation items."""
    greedy, bagged = [], []
    for seed in range(20):
        pool = ClassifierPool(random_runs(8, seed))
        found = select_bagged(pool.score, 8, pool.num_valid)
        assert sum(weight > 0 for weight in found) > 4
        assert sum(found) <= 2 * HALVINGS * HALF_PICKS
        greedy.append(float(pool.item_scores(select_weights(pool.score, 8)).mean()))
        bagged.append(float(pool.item_scores(found).mean()))
    assert sum(bagged) > sum(greedy)


def test_bagged_selection_repeats_and_its_halves_weigh_the_same() -> None:
    pool = ClassifierPool(random_runs(2))
    assert select_bagged(pool.score, 2, pool.num_valid) == (1, 1)
    pool = ClassifierPool(random_runs(7))
    first, second = (select_bagged(pool.score, 7, pool.num_valid) for _ in range(2))
    assert first == second
    alone = ClassifierPool(random_runs(1))
    assert select_bagged(alone.score, 1, alone.num_valid) == (1,)


def test_bagged_selection_keeps_a_run_that_luck_does_not_explain() -> None:
    labels = torch.arange(30) % 3
    truth = torch.nn.functional.one_hot(labels, 3)
    good, bad = 2.0 * truth, 4.0 * truth.roll(1, dims=1)
    pool = ClassifierPool([run_of(bad, bad, labels), run_of(good, good, labels)])
    assert select_bagged(pool.score, 2, pool.num_valid) == (0, 1)


def test_bagged_selection_drops_runs_with_little_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = [ClassifierPool(random_runs(8, seed)) for seed in range(10)]
    found = [select_bagged(pool.score, 8, pool.num_valid) for pool in pools]
    for weights in found:
        assert min(weight for weight in weights if weight) >= LEAST * max(weights)
    monkeypatch.setattr(combination, "LEAST", 0.0)
    assert [select_bagged(pool.score, 8, pool.num_valid) for pool in pools] != found


def test_selection_among_many_items_is_not_bagged() -> None:
    pool = ClassifierPool(random_runs(8))
    found = select_bagged(pool.score, 8, MOST_BAGGED + 1)
    assert found == select_weights(pool.score, 8) != select_bagged(pool.score, 8, MOST_BAGGED)


@pytest.mark.parametrize("metric", ["accuracy", "macro-f1", "roc-auc", "average-precision"])
def test_a_pool_selects_by_its_metric_and_by_the_quadratic_score_for_the_accuracy(
    metric: str,
) -> None:
    pool = ClassifierPool(random_runs(3), metric)
    scores, labels = pool.log_probabilities((1, 0, 1)) or (torch.empty(0), torch.empty(0))
    measure = quadratic_score if metric == "accuracy" else CLASSIFICATION_METRICS[metric]
    assert pool.score((1, 0, 1))[0] == measure(scores, labels)


def test_probabilities_are_averaged() -> None:
    runs = random_runs(3)
    pool = ClassifierPool(runs)
    each = [run.outputs["valid/logits"].double().softmax(dim=1) for run in runs]
    scores, labels = pool.log_probabilities((2, 0, 1)) or (torch.empty(0), torch.empty(0))
    torch.testing.assert_close(scores.exp(), (2 * each[0] + each[2]) / 3)
    loss = torch.nn.functional.nll_loss(scores, labels)
    errors = [
        sum((float(p) - (place == label)) ** 2 for place, p in enumerate(row))
        for row, label in zip(scores.exp(), labels.tolist(), strict=True)
    ]
    assert pool.score((2, 0, 1)) == pytest.approx((1 - fmean(errors) / 2, -float(loss)))
    metrics = pool.metrics((2, 0, 1), temperature=1.0)
    assert metrics["valid/loss"] == pytest.approx(float(loss))
    assert set(metrics) == {
        f"{part}/{name}" for part in ("valid", "test") for name in ("accuracy", "loss", "macro-f1")
    }


def test_a_part_without_items_has_no_metrics() -> None:
    (run,) = random_runs(1)
    empty = {"test/logits": torch.empty(0, 3), "test/labels": torch.empty(0, dtype=torch.long)}
    pool = ClassifierPool([TrainedRun(None, {}, {**run.outputs, **empty})])
    assert all(name.startswith("valid/") for name in pool.metrics((1,), 1.0))


def test_the_mean_score_is_over_splits() -> None:
    pools = [ClassifierPool(random_runs(2, seed)) for seed in range(3)]
    one, two, three = (pool.score((1, 1)) for pool in pools)
    mean = tuple((a + b + c) / 3 for a, b, c in zip(one, two, three, strict=True))
    assert mean_score(pools, (1, 1)) == pytest.approx(mean)


@pytest.mark.parametrize("factor", [0.3, 1.0, 5.0])
def test_the_temperature_has_the_least_cross_entropy(factor: float) -> None:
    draw = torch.Generator().manual_seed(1)
    logits = torch.randn(500, 4, generator=draw, dtype=torch.float64)
    labels = torch.distributions.Categorical(logits=logits).sample()
    scores = (factor * logits).log_softmax(dim=1)

    def cost(log_temperature: float) -> float:
        fitted = (scores / torch.tensor(log_temperature).exp()).log_softmax(dim=1)
        return float(torch.nn.functional.nll_loss(fitted, labels, reduction="sum")) + (
            0.5 * log_temperature**2
        )

    expected = math.exp(minimize_scalar(cost, bounds=(-1.6, 3.0), method="bounded").x)
    assert fit_temperature(scores, labels) == pytest.approx(expected, rel=1e-2)
    assert fit_temperature(scores, labels) == pytest.approx(factor, rel=0.25)


def test_the_temperature_stays_in_its_range() -> None:
    sure = torch.tensor([[0.0, -50.0]], dtype=torch.float64).log_softmax(dim=1).repeat(200, 1)
    low, high = TEMPERATURES
    assert fit_temperature(sure, torch.ones(200, dtype=torch.long)) == pytest.approx(high, rel=1e-2)
    assert fit_temperature(sure, torch.zeros(200, dtype=torch.long)) >= low
    flat = torch.full((1, 2), 0.5, dtype=torch.float64).log()
    assert fit_temperature(flat, torch.zeros(1, dtype=torch.long)) == pytest.approx(1.0, rel=1e-3)


def test_a_temperature_keeps_the_order_and_sums_to_one() -> None:
    scores = torch.randn(5, 3, dtype=torch.float64).log_softmax(dim=1)
    cooled = apply_temperature(scores, 2.0)
    assert torch.equal(cooled.argsort(dim=1), scores.argsort(dim=1))
    torch.testing.assert_close(cooled.exp().sum(dim=1), torch.ones(5, dtype=torch.float64))
    assert apply_temperature(scores, 1.0) is scores
