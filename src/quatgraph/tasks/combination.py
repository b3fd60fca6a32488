"""Combines trained runs: validation data selects the members of a bundle and their weights.

Greedy forward selection with replacement (`Caruana et al., 2004
<https://doi.org/10.1145/1015330.1015432>`_): starting from the best run, the run that helps most on
validation data is added again and again. A run that never helps has weight zero, and a single run
is kept where no combination is better. Of classifiers with few validation items, selections among
halves of the runs are averaged. Test data plays no part.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import Any, Protocol

import torch
from torch import Tensor

from quatgraph.metrics.classification import CLASSIFICATION_METRICS, quadratic_score

MAX_PICKS = 12
"""How often runs are added: the sum of the weights."""
HALVINGS, HALF_PICKS = 10, 6
"""How often the runs are halved at random, and how often a run is added within each half."""
LEAST = 0.2
"""The share of the largest weight that a run needs to be kept: others take time, and add little."""
MOST_BAGGED = 1 << 12
"""Validation items up to which selections are bagged: among more, luck decides little."""
TEMPERATURES = 0.2, 20.0
"""The range of temperatures: with few validation items the best one may be zero or infinite."""

Score = tuple[float, ...]
Weights = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """A run that may become a member of a bundle."""

    config: Any
    """A configuration of the task."""
    state: Mapping[str, Tensor]
    """The state dict of its model."""
    outputs: Mapping[str, Tensor]
    """See :attr:`quatgraph.training.loop.Fit.outputs`."""
    split: int = 0


class Pool(Protocol):
    """Runs of one split and seed whose weighted combinations can be measured."""

    num_valid: int
    """Number of validation items."""

    def score(self, weights: Sequence[int]) -> Score:
        """How good a combination is on validation data; larger is better."""

    def metrics(self, weights: Sequence[int], temperature: float) -> dict[str, float]:
        """The metrics of a combination on validation and test data, as ``test/accuracy``."""

    def item_scores(self, weights: Sequence[int]) -> Tensor:
        """The score of each test item, ``(N,)``: 1 for a right class, or the reciprocal rank."""

    def log_probabilities(self, weights: Sequence[int]) -> tuple[Tensor, Tensor] | None:
        """The log-probabilities ``(N, C)`` of the validation data and the labels ``(N,)``, which a
        temperature is fitted to; None if there are no classes."""


class ClassifierPool:
    """Classifiers, combined by the weighted mean of their probabilities.

    Args:
        runs: Runs with ``outputs`` for the same items.
        metric: The metric to select by; ties go to the lower loss. In place of the accuracy, which
            changes in steps of an item, the quadratic score selects.
    """

    def __init__(self, runs: Sequence[TrainedRun], metric: str = "accuracy") -> None:
        self.metric = metric
        parts = ("valid", "test")
        self.scores = {
            part: [run.outputs[f"{part}/logits"].double().log_softmax(dim=-1) for run in runs]
            for part in parts
        }
        self.num_valid = len(runs[0].outputs["valid/labels"])
        self.labels = {part: runs[0].outputs[f"{part}/labels"].long() for part in parts}

    def score(self, weights: Sequence[int]) -> Score:
        scores, labels = self._combine(weights, "valid"), self.labels["valid"]
        by_accuracy = self.metric == "accuracy"
        measure = quadratic_score if by_accuracy else CLASSIFICATION_METRICS[self.metric]
        value = measure(scores, labels)
        return 0.0 if math.isnan(value) else value, -_loss(scores, labels)

    def metrics(self, weights: Sequence[int], temperature: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for part, labels in self.labels.items():
            if len(labels):
                scores = self.predict(weights, temperature, part)
                for name in dict.fromkeys((self.metric, "accuracy", "macro-f1")):
                    found[f"{part}/{name}"] = CLASSIFICATION_METRICS[name](scores, labels)
                found[f"{part}/loss"] = _loss(scores, labels)
        return found

    def item_scores(self, weights: Sequence[int]) -> Tensor:
        return (self._combine(weights, "test").argmax(dim=1) == self.labels["test"]).float()

    def log_probabilities(self, weights: Sequence[int]) -> tuple[Tensor, Tensor] | None:
        return self._combine(weights, "valid"), self.labels["valid"]

    def predict(self, weights: Sequence[int], temperature: float, part: str) -> Tensor:
        """The log-probabilities of a part as the bundle predicts them, ``(N, C)``."""
        return apply_temperature(self._combine(weights, part), temperature)

    def _combine(self, weights: Sequence[int], part: str) -> Tensor:
        """The logarithms of the combined probabilities, ``(N, C)``."""
        return combine_scores(weights, self.scores[part])


def combine_scores(weights: Sequence[int], scores: Sequence[Tensor]) -> Tensor:
    """The logarithms of the weighted mean of probabilities, from their logarithms ``(N, C)``."""
    total = sum(weights)
    used = [
        math.log(weight / total) + own
        for weight, own in zip(weights, scores, strict=True)
        if weight
    ]
    return torch.stack(used).logsumexp(dim=0)


def _loss(scores: Tensor, labels: Tensor) -> float:
    """The cross-entropy of log-probabilities ``(N, C)``."""
    return -float(scores.gather(1, labels[:, None]).mean())


def select_weights(score: Callable[[Weights], Score], count: int) -> Weights:
    """Selects the weights of ``count`` runs: the best found by adding one run at a time.

    Example:
        >>> select_weights(lambda weights: (-abs(weights[0] - 2 * weights[1]),), 2)
        (2, 1)
    """
    weights: Weights = (0,) * count
    best: tuple[Score, Weights] | None = None
    for _ in range(MAX_PICKS):
        top, weights = _add_best(score, weights, range(count))
        if best is None or top > best[0]:
            best = top, weights
        if count == 1:
            break
    assert best is not None
    return _reduce(best[1])


def select_bagged(score: Callable[[Weights], Score], count: int, num_valid: int) -> Weights:
    """Selects the weights of ``count`` runs: the sum of greedy selections, each among a random half
    of them, without small weights.

    On few validation items the best run owes much to luck, and greedy selection builds on it. Each
    run is left out of every other selection, so the sum has several good ones. Greedy selection
    among all runs is kept on more than :data:`MOST_BAGGED` items, and where its score, a mean of
    numbers from 0 to 1 over ``num_valid`` items, is higher by more than two standard errors: there
    luck does not explain the difference.
    """
    greedy = select_weights(score, count)
    if count == 1 or num_valid > MOST_BAGGED:
        return greedy
    random, total = Random(0), [0] * count
    for _ in range(HALVINGS):
        order = random.sample(range(count), count)
        for half in (order[: count // 2], order[count // 2 :]):
            weights: Weights = (0,) * count
            for _ in range(HALF_PICKS):
                _, weights = _add_best(score, weights, half)
            total = [a + b for a, b in zip(total, weights, strict=True)]
    least = LEAST * max(total)
    bagged = _reduce([weight if weight >= least else 0 for weight in total])
    best = score(greedy)[0]
    share = (best * num_valid + 1) / (num_valid + 2)  # not 1, which would have no error
    error = math.sqrt(share * (1 - share) / num_valid)  # at most, with such a mean
    return greedy if best - score(bagged)[0] > 2 * error else bagged


def _add_best(
    score: Callable[[Weights], Score], weights: Weights, runs: Sequence[int]
) -> tuple[Score, Weights]:
    """Adds the one of the runs that helps most, and returns the new score and weights."""
    trials = [tuple(w + (index == run) for index, w in enumerate(weights)) for run in runs]
    return max(((score(trial), trial) for trial in trials), key=lambda pair: pair[0])


def _reduce(weights: Sequence[int]) -> Weights:
    divisor = math.gcd(*weights)
    return tuple(weight // divisor for weight in weights)


def select_single(score: Callable[[Weights], Score], count: int) -> Weights:
    """The weights of the best single run."""
    singles = [tuple(int(i == index) for i in range(count)) for index in range(count)]
    return max(singles, key=score)


def mean_score(pools: Sequence[Pool], weights: Sequence[int]) -> Score:
    """The mean score over splits and seeds."""
    return tuple(map(fmean, zip(*(pool.score(weights) for pool in pools), strict=True)))


def fit_temperature(scores: Tensor, labels: Tensor) -> float:
    r"""Fits a temperature T to validation data: :math:`p^{1/T}`, normalised, has the least
    cross-entropy (`Guo et al., 2017 <https://arxiv.org/abs/1706.04599>`_).

    A weak prior, worth about one item, keeps T near 1 where there are few items.

    Shape:
        - scores: log-probabilities ``(N, C)``
        - labels: ``(N,)``
    """

    def cost(log_temperature: float) -> float:
        fitted = apply_temperature(scores, math.exp(log_temperature))
        return -float(fitted.gather(1, labels[:, None]).sum()) + 0.5 * log_temperature**2

    low, high = map(math.log, TEMPERATURES)
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-4:  # golden-section search: the cost is convex in 1 / T
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if cost(left) < cost(right):
            high = right
        else:
            low = left
    return round(math.exp((low + high) / 2), 4)


def apply_temperature(scores: Tensor, temperature: float) -> Tensor:
    """Log-probabilities at another temperature, ``(..., C)``."""
    return scores if temperature == 1.0 else (scores / temperature).log_softmax(dim=-1)
