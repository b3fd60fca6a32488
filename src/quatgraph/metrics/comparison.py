r"""Paired tests of two models: of their answers to the same items, or of their results in the same
runs. Each gives the difference, a 95 % confidence interval and a two-sided p-value.

A positive difference means that the first is better. Distributions are computed here: scipy is not
a dependency.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.metrics.classification import mean_std

LEVEL = 0.95
_NORMAL = 1.959963984540054  # the 97.5 % quantile
_EXACT = 1000
_RESAMPLES = 10_000
_DRAWS_AT_ONCE = 1 << 22


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The result of a paired test."""

    test: str
    """Its name."""
    difference: float
    low: float
    high: float
    """The confidence interval of the difference."""
    p: float
    pairs: int
    """Number of pairs: items or runs."""


def mcnemar(first: Tensor, second: Tensor) -> PairedTest:
    r"""McNemar's test of two classifiers on the same items.

    Only items that one of them gets right and the other wrong count: :math:`b` and :math:`c` of
    them. The test is exact, :math:`b \sim \mathrm{Binomial}(b + c, 1/2)`, up to a thousand such
    items; beyond it is normal, with a continuity correction. The interval of the difference in
    accuracy is that of `Agresti and Min <https://doi.org/10.1002/sim.1781>`_, Wald's after half an
    item is added to each of the four cells.

    Shape:
        - first, second: ``(N,)``, bool: whether the answer is right

    Example:
        >>> right = torch.tensor([1, 1, 1, 1, 1, 1, 0], dtype=torch.bool)
        >>> result = mcnemar(right, ~right)
        >>> round(result.difference, 3), result.p
        (0.714, 0.125)
    """
    n = len(first)
    b, c = int((first & ~second).sum()), int((second & ~first).sum())
    total = n + 2
    shift = (b - c) / total
    spread = _NORMAL * math.sqrt((b + c + 1) / total - shift**2) / math.sqrt(total)
    low, high = max(-1.0, shift - spread), min(1.0, shift + spread)
    return PairedTest("McNemar", (b - c) / n, low, high, sign_test(b, c), n)


def sign_test(ups: int, downs: int) -> float:
    """The two-sided p-value of so many ups and downs if both are equally likely.

    Example:
        >>> sign_test(1, 4)
        0.375
    """
    count = ups + downs
    if count > _EXACT:
        return math.erfc(max(abs(ups - downs) - 1, 0) / math.sqrt(2 * count))
    term = tail = 1  # binomial coefficients, as exact integers
    for k in range(min(ups, downs)):
        term = term * (count - k) // (k + 1)
        tail += term
    return min(1.0, 2 * tail / 2**count)


def paired_t(differences: Sequence[float], test_to_train: float = 0.0) -> PairedTest:
    r"""The paired t test of :math:`k` differences, corrected if their training data overlaps.

    Splits of one dataset share training data, so their differences are not independent.
    `Nadeau and Bengio <https://doi.org/10.1023/A:1024068626366>`_ widen the variance of the mean to
    :math:`(1/k + n_\mathrm{test}/n_\mathrm{train})\,s^2`.

    Args:
        differences: Two or more.
        test_to_train: The ratio of test to training items; 0 for independent runs.
    """
    count = len(differences)
    mean, std = mean_std(differences)
    error = std * math.sqrt(1 / count + test_to_train)
    statistic = mean / error if error else math.copysign(math.inf, mean) if mean else 0.0
    reach = error * t_quantile(LEVEL, count - 1)
    name = "corrected resampled t test" if test_to_train else "paired t test"
    p = 1 - t_within(statistic, count - 1)
    return PairedTest(name, mean, mean - reach, mean + reach, min(1.0, max(0.0, p)), count)


def t_within(bound: float, df: int) -> float:
    r""":math:`P(|T| \le |bound|)` of Student's t with whole degrees of freedom.

    The finite sums of Abramowitz and Stegun, 26.7.3 and 26.7.4, with
    :math:`\theta = \arctan(t / \sqrt{df})`.

    Example:
        >>> round(t_within(2.776, 4), 4)
        0.95
    """
    if math.isinf(bound):
        return 1.0
    theta = math.atan(abs(bound) / math.sqrt(df))
    cos2 = math.cos(theta) ** 2
    term = math.cos(theta) if df % 2 else 1.0
    total = term if df > 1 else 0.0
    for k in range(3 if df % 2 else 2, df - 1, 2):
        term *= cos2 * (k - 1) / k
        total += term
    total *= math.sin(theta)
    return 2 / math.pi * (theta + total) if df % 2 else total


def t_quantile(within: float, df: int) -> float:
    """The bound with that probability :func:`t_within` it, by bisection."""
    low, high = 0.0, 1.0
    while t_within(high, df) < within:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if t_within(middle, df) < within else (low, middle)
    return (low + high) / 2


def paired_bootstrap(first: Tensor, second: Tensor, *, seed: int = 0) -> PairedTest:
    """The percentile bootstrap of a mean difference: items are sampled with replacement.

    Args:
        seed: Seed of the samples.

    Shape:
        - first, second: ``(N,)``, the value of each item
    """
    differences = first.double() - second.double()
    count = len(differences)
    draw = torch.Generator().manual_seed(seed)
    at_once = max(1, _DRAWS_AT_ONCE // count)
    sizes = [at_once] * (_RESAMPLES // at_once)
    sizes += [_RESAMPLES - sum(sizes)]
    means = torch.cat(
        [differences[torch.randint(count, (size, count), generator=draw)].mean(1) for size in sizes]
    )
    tails = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    low, high = means.quantile(tails).tolist()
    # One more on each side: the sample itself is one that could have been drawn.
    beyond = 1 + min(int((means <= 0).sum()), int((means >= 0).sum()))
    p = min(1.0, 2 * beyond / (_RESAMPLES + 1))
    return PairedTest("bootstrap", float(differences.mean()), low, high, p, count)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of several p-values, in their order.

    Example:
        >>> holm([0.25, 0.0625, 0.125])
        [0.25, 0.1875, 0.25]
    """
    corrected = [0.0] * len(p_values)
    largest = 0.0
    ordered = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(ordered):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        corrected[place] = largest
    return corrected
