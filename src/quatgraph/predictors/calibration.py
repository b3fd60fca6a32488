"""Turns the features of triples into probabilities: a logistic regression, then isotonic bins.

A triple to be ranked is no positive itself, or it would be known. If each of two equal parts has a
share :math:`q` of some triples, the second has :math:`q / (1 - q)` of those that the first lacks.
The probability is therefore the ratio of positives to negatives, and not their rate.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

FOLDS = 5
"""Parts of a sample, each with log-odds from a regression on the others: a regression fits its own
sample too well for bins."""
BINS = 20
"""Bins of the isotonic regression, at most."""
MIN_POSITIVES, MIN_NEGATIVES = 25, 10
"""Positive and negative triples of a bin, at least."""
RIDGE = 1.0
"""The weight of the squared intercepts of relations, which shrinks them to the common one."""
MAX_STEPS = 50


@dataclass(frozen=True, slots=True)
class LabelledTriples:
    """Triples of a sample: features ``(N, F)``, relations, labels and weights, each ``(N,)``."""

    features: Tensor
    relation: Tensor
    positive: Tensor
    weight: Tensor

    def select(self, mask: Tensor) -> "LabelledTriples":
        """Some of the triples."""
        columns = self.features, self.relation, self.positive, self.weight
        return LabelledTriples(*(column[mask] for column in columns))


@dataclass(frozen=True, slots=True)
class Calibration:
    """A logistic regression with an intercept per relation, and the ratio of positives to negatives
    by its log-odds.

    Triples are ranked by their log-odds, on which the probability depends monotonically: ranks stay
    distinct where probabilities are level.
    """

    coefficients: Tensor
    """Of the features, ``(F,)``."""
    intercepts: Tensor
    """Of the relations, ``(R,)``."""
    knots: Tensor
    """Log-odds of the regression, ascending, ``(B,)``..."""
    levels: Tensor
    """... and the logits of the probability there, ``(B,)``."""

    def log_odds(self, features: Tensor, relation: Tensor) -> Tensor:
        """The log-odds of triples, ``(N,)``."""
        return features.double() @ self.coefficients + self.intercepts[relation]

    def probability(self, log_odds: Tensor) -> Tensor:
        """The probability at some log-odds: interpolated between the knots, level above the
        highest, which no sample exceeds, and falling with the log-odds below the lowest."""
        last = len(self.knots) - 1
        place = torch.searchsorted(self.knots, log_odds).clamp(min(1, last), last)
        left = (place - 1).clamp(min=0)
        width = (self.knots[place] - self.knots[left]).clamp(min=1e-9)
        share = ((log_odds - self.knots[left]) / width).clamp(0, 1)
        level = self.levels[left] + share * (self.levels[place] - self.levels[left])
        return (level + (log_odds - self.knots[0]).clamp(max=0)).sigmoid()


def fit_calibration(sample: LabelledTriples, num_relations: int) -> Calibration:
    """Fits a calibration to a weighted sample with at least one positive and one negative."""
    bins = _fit_bins(_cross_fit(sample, num_relations), sample)
    return Calibration(*_fit_logistic(sample, num_relations), *bins)


def _cross_fit(sample: LabelledTriples, num_relations: int) -> Tensor:
    """The log-odds of all triples, each from a regression on other folds, ``(N,)``."""
    count = int(sample.positive.sum())
    if min(count, len(sample.positive) - count) < FOLDS:  # a fold would have none of a kind
        return _log_odds(sample, *_fit_logistic(sample, num_relations))
    generator = torch.Generator().manual_seed(0)
    fold = torch.empty(len(sample.positive), dtype=torch.int64)
    for part in (sample.positive, ~sample.positive):
        order = torch.randperm(int(part.sum()), generator=generator)
        fold[part] = order % FOLDS
    found = torch.empty(len(fold), dtype=torch.float64)
    for number in range(FOLDS):
        own = fold == number
        fitted = _fit_logistic(sample.select(~own), num_relations)
        found[own] = _log_odds(sample.select(own), *fitted)
    return found


def _log_odds(sample: LabelledTriples, coefficients: Tensor, intercepts: Tensor) -> Tensor:
    return sample.features.double() @ coefficients + intercepts[sample.relation]


def _fit_logistic(sample: LabelledTriples, num_relations: int) -> tuple[Tensor, Tensor]:
    """Coefficients and intercepts of least penalized cross-entropy, by Newton's method.

    The Hessian of the intercepts is diagonal, so only a system of as many equations as there are
    features is solved.
    """
    weight, y = sample.weight.double(), sample.positive.double()
    x = sample.features.double()
    mean = (weight[:, None] * x).sum(dim=0) / weight.sum()
    scale = (x - mean).std(dim=0).clamp(min=1e-6)
    x = torch.cat(((x - mean) / scale, torch.ones_like(x[:, :1])), dim=1)

    def sum_by_relation(values: Tensor) -> Tensor:
        return torch.bincount(sample.relation, weights=values, minlength=num_relations)

    def cost(beta: Tensor, offsets: Tensor) -> float:
        logits = x @ beta + offsets[sample.relation]
        losses = torch.nn.functional.softplus(torch.where(y > 0, -logits, logits))
        penalty = offsets.square().sum() + 1e-3 * beta[:-1].square().sum()
        return float((weight * losses).sum() + 0.5 * RIDGE * penalty)

    beta, offsets = x.new_zeros(x.size(1)), x.new_zeros(num_relations)
    rate = (weight * y).sum() / weight.sum()
    beta[-1] = rate.logit()
    ridge = torch.full_like(beta, 1e-3 * RIDGE)
    ridge[-1] = 0
    value = cost(beta, offsets)
    for _ in range(MAX_STEPS):
        p = (x @ beta + offsets[sample.relation]).sigmoid()
        error, curvature = weight * (p - y), weight * p * (1 - p)
        gradient = x.T @ error + ridge * beta
        own_gradient = sum_by_relation(error) + RIDGE * offsets
        own = sum_by_relation(curvature) + RIDGE
        cross = torch.stack([sum_by_relation(curvature * column) for column in x.unbind(1)])
        hessian = x.T @ (curvature[:, None] * x) + ridge.diag()
        schur = hessian - (cross / own) @ cross.T + 1e-9 * torch.eye(len(beta)).double()
        step = torch.linalg.solve(schur, gradient - (cross / own) @ own_gradient)
        own_step = (own_gradient - cross.T @ step) / own
        size = 1.0
        while (new := cost(beta - size * step, offsets - size * own_step)) > value:
            size /= 2
            if size < 1e-6:
                break
        else:
            beta, offsets = beta - size * step, offsets - size * own_step
            if value - new > 1e-8 * abs(value):
                value = new
                continue
        break
    coefficients = beta[:-1] / scale
    return coefficients, offsets + beta[-1] - coefficients @ mean


def _fit_bins(log_odds: Tensor, sample: LabelledTriples) -> tuple[Tensor, Tensor]:
    """The log-odds of bins, ascending, and the logits of their probabilities; bins are pooled until
    these ascend too (isotonic regression).

    The log-odds of a bin are those of the mean probability of the regression: log-odds fall by much
    within a wide bin, whose positives are at its upper end.
    """
    order = log_odds.argsort(descending=True, stable=True)
    z, y, weight = log_odds[order], sample.positive[order].long(), sample.weight.double()[order]
    places = (y == 1).nonzero().flatten().tolist()
    least = max(MIN_POSITIVES, -(-len(places) // BINS))
    ends, true, false = [0], 0, 0  # counts up to the end of the last bin, which a positive ends
    for number, place in enumerate(places):
        if number + 1 - true >= least and place - number - false >= MIN_NEGATIVES:
            ends, true, false = [*ends, place + 1], number + 1, place - number
    ends = [*ends[: max(1, len(ends) - 1)], places[-1] + 1]  # the last bin takes what is left
    blocks: list[
        tuple[float, float, float]
    ] = []  # weights of positives, of all, and their probabilities by the regression
    for first, end in pairwise(ends):
        own = weight[first:end]
        block = (
            float((own * y[first:end]).sum()),
            float(own.sum()),
            float((own * z[first:end].sigmoid()).sum()),
        )
        while blocks and blocks[-1][0] / blocks[-1][1] <= block[0] / block[1]:
            block = tuple(map(sum, zip(blocks.pop(), block, strict=True)))  # type: ignore[assignment]
        blocks.append(block)
    positive, total, moment = torch.tensor(blocks[::-1], dtype=torch.float64).unbind(1)
    negative = torch.maximum(total - positive, positive)  # a ratio above one is no probability
    # One false triple more than were seen: no sample shows a probability of one.
    return (moment / total).logit(), (positive / (negative + 1)).logit()
