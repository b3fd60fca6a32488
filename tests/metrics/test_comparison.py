"""Paired tests, compared with scipy and with formulas written out."""

import math
import random

import numpy as np
import pytest
import torch
from scipy import stats

from quatgraph.metrics.comparison import (
    holm,
    mcnemar,
    paired_bootstrap,
    paired_t,
    sign_test,
    t_quantile,
    t_within,
)


@pytest.mark.parametrize("df", [1, 2, 3, 4, 5, 9, 10, 99, 100, 1001])
def test_the_t_distribution_is_that_of_scipy(df: int) -> None:
    for bound in (0.0, 0.1, 1.0, -2.5, 7.0, 40.0):
        expected = 1 - 2 * stats.t.sf(abs(bound), df)
        assert t_within(bound, df) == pytest.approx(expected, abs=1e-12)
    assert t_within(math.inf, df) == 1.0
    for within in (0.5, 0.95, 0.999):
        assert t_quantile(within, df) == pytest.approx(stats.t.ppf((1 + within) / 2, df), rel=1e-9)


@pytest.mark.parametrize(("ups", "downs"), [(0, 0), (0, 1), (3, 0), (7, 12), (50, 50), (480, 520)])
def test_few_discordant_items_are_tested_exactly(ups: int, downs: int) -> None:
    expected = stats.binomtest(ups, ups + downs, 0.5).pvalue if ups + downs else 1.0
    assert sign_test(ups, downs) == pytest.approx(expected, rel=1e-9)
    assert sign_test(downs, ups) == sign_test(ups, downs)


@pytest.mark.parametrize(("ups", "downs"), [(501, 500), (1000, 1100), (5200, 4800), (2000, 100)])
def test_many_discordant_items_are_tested_by_the_normal_distribution(ups: int, downs: int) -> None:
    expected = stats.binomtest(ups, ups + downs, 0.5).pvalue
    assert sign_test(ups, downs) == pytest.approx(expected, rel=0.02, abs=1e-30)


def answers(both: int, first: int, second: int, neither: int) -> tuple[torch.Tensor, torch.Tensor]:
    a = [1] * both + [1] * first + [0] * second + [0] * neither
    b = [1] * both + [0] * first + [1] * second + [0] * neither
    return torch.tensor(a).bool(), torch.tensor(b).bool()


def test_mcnemar_counts_only_items_on_which_two_classifiers_disagree() -> None:
    result = mcnemar(*answers(60, 15, 5, 20))
    assert (result.test, result.pairs, result.difference) == ("McNemar", 100, 0.1)
    assert result.p == pytest.approx(stats.binomtest(5, 20).pvalue)
    b, c, n = 15.5, 5.5, 102
    spread = stats.norm.ppf(0.975) * math.sqrt(b + c - (b - c) ** 2 / n) / n
    assert (result.low, result.high) == pytest.approx(((b - c) / n - spread, (b - c) / n + spread))
    # Items that both get right or both wrong change the difference but not the test.
    assert mcnemar(*answers(6, 15, 5, 2)).p == result.p


def test_the_interval_of_mcnemar_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(0)
    cells, count, covered = [0.7, 0.12, 0.08, 0.1], 60, 0
    for counts in draw.multinomial(count, cells, size=1000):
        result = mcnemar(*answers(*counts))
        covered += result.low <= 0.04 <= result.high
    assert 930 <= covered <= 980


def test_classifiers_that_always_agree_are_level() -> None:
    result = mcnemar(*answers(3, 0, 0, 2))
    assert (result.difference, result.p) == (0.0, 1.0)
    assert result.low < 0 < result.high


def test_independent_runs_are_tested_as_by_scipy() -> None:
    draw = random.Random(0)
    first = [draw.gauss(0.8, 0.02) for _ in range(7)]
    second = [draw.gauss(0.78, 0.02) for _ in range(7)]
    result = paired_t([a - b for a, b in zip(first, second, strict=True)])
    expected = stats.ttest_rel(first, second)
    assert result.test == "paired t test"
    assert result.p == pytest.approx(expected.pvalue, abs=1e-12)
    interval = expected.confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))


def test_overlapping_training_data_widens_the_variance() -> None:
    values = [0.02, -0.01, 0.03, 0.015, 0.0, 0.01, 0.04, -0.005, 0.02, 0.01]
    result = paired_t(values, 1 / 9)
    assert result.test == "corrected resampled t test"
    error = math.sqrt((1 / 10 + 1 / 9) * np.var(values, ddof=1))
    assert result.p == pytest.approx(2 * stats.t.sf(np.mean(values) / error, 9), abs=1e-12)
    reach = stats.t.ppf(0.975, 9) * error
    assert (result.low, result.high) == pytest.approx(
        (np.mean(values) - reach, np.mean(values) + reach)
    )
    assert result.p > paired_t(values).p


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.5, 0.0), (-0.5, 0.0)])
def test_differences_that_are_all_equal_have_no_spread(value: float, p: float) -> None:
    result = paired_t([value] * 4)
    assert (result.difference, result.low, result.high, result.p) == (value, value, value, p)


def test_the_bootstrap_agrees_with_that_of_scipy_and_repeats() -> None:
    draw = torch.Generator().manual_seed(1)
    first = torch.rand(300, generator=draw)
    second = 0.9 * first + 0.1 * torch.rand(300, generator=draw) - 0.01
    result = paired_bootstrap(first, second)
    assert result == paired_bootstrap(first, second)
    differences = (first.double() - second.double()).numpy()
    expected = stats.bootstrap(
        (differences,), np.mean, n_resamples=20_000, method="percentile", rng=0
    ).confidence_interval
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high), abs=5e-4)
    assert result.difference == pytest.approx(differences.mean())
    normal = 2 * stats.norm.sf(abs(differences.mean() / stats.sem(differences)))
    assert result.p == pytest.approx(normal, abs=0.03)


def test_the_bootstrap_of_equal_values_is_level_and_of_better_ones_is_not() -> None:
    values = torch.rand(50)
    level, ahead = paired_bootstrap(values, values), paired_bootstrap(values + 1, values)
    assert (level.difference, level.p) == (0.0, 1.0)
    assert ahead.p < 0.001
    assert paired_bootstrap(values, values + 1).p == ahead.p


def test_holm_is_the_step_down_correction() -> None:
    draw = random.Random(2)
    for count in (1, 2, 5):
        values = [draw.random() ** 3 for _ in range(count)]
        ordered = sorted(values)
        expected = {
            p: min(1.0, max((count - j) * ordered[j] for j in range(place + 1)))
            for place, p in enumerate(ordered)
        }
        assert holm(values) == [expected[p] for p in values]
