r"""ROC-AUC and average precision, for all members of an ensemble at once.

Two classes have one pair of curves: the second class is the positive one. Of more classes each is
positive in turn, and the result is the unweighted mean (one-vs-rest, macro). With :math:`P`
positives :math:`i` and :math:`N` negatives :math:`j`, with scores :math:`s`,

.. math::
    \mathrm{AUC} = \frac{1}{P N} \sum_{i, j} [s_j < s_i] + \tfrac12 [s_j = s_i], \qquad
    \mathrm{AP} = \frac{1}{P} \sum_i
        \frac{|\{i' : s_{i'} \ge s_i\}|}{|\{k : s_k \ge s_i\}|}

so ties count exactly as in scikit-learn. A class whose area is undefined is left out of the mean:
one without positives or, for the AUC, without negatives. The mean of none is NaN.

Masks multiply and shapes are fixed: nothing waits for the device.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad


def roc_auc(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The probability that a positive has a higher score than a negative.

    Args:
        scores: Probabilities, or their logarithms: only the order within a class counts.

    Shape:
        - scores: ``(..., N, C)``
        - labels: ``(N,)`` or ``(..., N)``
        - mask: ``(..., N)``, bool or 0 and 1
        - output: ``(...)``, float64

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
        >>> roc_auc(scores, torch.tensor([0, 0, 1, 1]), torch.ones(4))
        tensor(0.7500, dtype=torch.float64)
    """
    ranked = _Ranked(scores, labels, mask)
    below, up_to = (ranked.negatives_before.gather(-1, end) for end in ranked.ties)
    won = (ranked.positive * (below + up_to) / 2).sum(dim=-1)
    positives, negatives = ranked.positive.sum(dim=-1), ranked.negative.sum(dim=-1)
    return _mean_of_defined(won / (positives * negatives))


def average_precision(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The mean, over positives, of the precision among all with at least its score.

    Shapes and scores are those of :func:`roc_auc`.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4], [0.1, 0.9]])
        >>> average_precision(scores, torch.tensor([0, 0, 1, 1]), torch.ones(4))
        tensor(0.8333, dtype=torch.float64)
    """
    ranked = _Ranked(scores, labels, mask)
    first, _ = ranked.ties
    hits, misses = (
        before[..., -1:] - before.gather(-1, first)
        for before in (ranked.positives_before, ranked.negatives_before)
    )
    precision = hits / (hits + misses).clamp(min=1)
    positives = ranked.positive.sum(dim=-1)
    return _mean_of_defined((ranked.positive * precision).sum(dim=-1) / positives)


class _Ranked:
    """Items in ascending order of their scores, for each positive class.

    Attributes:
        positive, negative: 1 or 0, ``(..., C, N)``; 0 outside the mask.
        positives_before, negatives_before: How many come before each place, ``(..., C, N + 1)``.
        ties: Of each item the first place with its score, and the place after the last.
    """

    def __init__(self, scores: Tensor, labels: Tensor, mask: Tensor) -> None:
        first_class = 1 if scores.size(-1) == 2 else 0
        classes = torch.arange(first_class, scores.size(-1), device=scores.device)
        taken = mask.unsqueeze(-2).double()
        # A NaN outside the mask would spoil the search below.
        columns = torch.where(taken > 0, scores[..., first_class:].transpose(-1, -2), 0)
        values, order = columns.contiguous().sort(dim=-1)
        true = labels.unsqueeze(-2) == classes[:, None]
        self.positive, self.negative = (
            one.expand_as(columns).gather(-1, order) for one in (true * taken, ~true * taken)
        )
        self.positives_before, self.negatives_before = (
            pad(one.cumsum(dim=-1), (1, 0)) for one in (self.positive, self.negative)
        )
        self.ties = (
            torch.searchsorted(values, values),
            torch.searchsorted(values, values, right=True),
        )


def _mean_of_defined(areas: Tensor) -> Tensor:
    """The mean over classes ``(..., C)``, without those that are not a number."""
    defined = ~areas.isnan()
    return torch.where(defined, areas, 0).sum(dim=-1) / defined.sum(dim=-1)
