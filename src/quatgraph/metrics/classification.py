"""Metrics and losses over masked nodes, for all members of an ensemble at once.

Masks multiply instead of selecting, so that shapes are fixed and nothing waits for the device:
these functions can be captured in a CUDA graph. A member whose mask is empty gets NaN.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from quatgraph.metrics.areas import average_precision, roc_auc
from quatgraph.ops.cross_entropy import smoothed_cross_entropy

Metric = Literal["accuracy", "macro-f1", "roc-auc", "average-precision"]
"""A metric of classes that can select epochs and configurations; higher is better."""


def accuracy(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The fraction of masked nodes whose largest logit is their label's.

    Shape:
        - logits: ``(..., N, C)``
        - labels: ``(N,)``
        - mask: ``(..., N)``, bool or 0 and 1
        - output: ``(...)``

    Example:
        >>> logits = torch.tensor([[2.0, 1.0], [0.0, 1.0], [0.0, 3.0]])
        >>> accuracy(logits, torch.tensor([0, 0, 1]), torch.tensor([1, 1, 0]))
        tensor(0.5000)
    """
    return masked_mean((logits.argmax(dim=-1) == labels).to(_precision(logits)), mask)


def cross_entropy(logits: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The mean of ``-log softmax(logits)[label]`` over the masked nodes, per member.

    A label may be -1, unknown, where the mask is 0. Gradients reach ``logits``.

    Shape:
        - logits: ``(..., N, C)``
        - labels: ``(N,)``
        - mask: ``(..., N)``, bool or 0 and 1
        - output: ``(...)``
    """
    known = labels.clamp(min=0).expand(logits.shape[:-1])
    return masked_mean(smoothed_cross_entropy(logits, known, 0.0), mask)


def by_class(predicted: Tensor, labels: Tensor, num_classes: int) -> tuple[Tensor, Tensor]:
    """For each class: 1 if prediction and label both are it, and how many of the two are. Sums of
    both are the arguments of :func:`macro_f1`.

    Shape:
        - predicted, labels: ``(...)``
        - output: ``(..., C)`` each
    """
    classes = torch.arange(num_classes, device=labels.device)
    chosen, true = (one.unsqueeze(-1) == classes for one in (predicted, labels))
    return (chosen & true).float(), chosen.float() + true.float()


def macro_f1(agreed: Tensor, named: Tensor) -> Tensor:
    r"""The unweighted mean over classes of :math:`F_1 = 2 \,TP / (2 \,TP + FP + FN)`. A class that
    is neither predicted nor a label is left out; without any class the result is NaN.

    Args:
        agreed: How often prediction and label both are a class.
        named: How often a prediction is the class, plus how often a label is.

    Shape:
        - agreed, named: ``(..., C)``
        - output: ``(...)``

    Example:
        >>> macro_f1(torch.tensor([3.0, 1.0, 0.0]), torch.tensor([6.0, 4.0, 0.0]))
        tensor(0.7500)
    """
    each = 2 * agreed / named.clamp(min=1)
    return each.sum(dim=-1) / (named > 0).sum(dim=-1)


def masked_macro_f1(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    """The :func:`macro_f1` of the masked items; for shapes see
    :func:`quatgraph.metrics.areas.roc_auc`."""
    counts = by_class(scores.argmax(dim=-1), labels, scores.size(-1))
    taken = mask.unsqueeze(-1) > 0
    return macro_f1(*(torch.where(taken, count, 0).double().sum(dim=-2) for count in counts))


MASKED_METRICS: dict[Metric, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "accuracy": accuracy,
    "macro-f1": masked_macro_f1,
    "roc-auc": roc_auc,
    "average-precision": average_precision,
}
"""By name a function of probabilities, or their logarithms, ``(..., N, C)``, labels and a mask."""


def _of_whole(name: Metric) -> Callable[[Tensor, Tensor], float]:
    def measure(scores: Tensor, labels: Tensor) -> float:
        everything = torch.ones(len(labels), dtype=torch.float64)
        return float(MASKED_METRICS[name](scores.detach().cpu().double(), labels.cpu(), everything))

    return measure


CLASSIFICATION_METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {
    name: _of_whole(name) for name in MASKED_METRICS
}
"""By name a function of probabilities, or their logarithms, ``(N, C)``, and labels ``(N,)``, which
computes in float64 on the CPU. Higher is better; NaN where nothing is defined."""


def quadratic_score(scores: Tensor, labels: Tensor) -> float:
    r"""The quadratic score of probabilities (`Brier, 1950
    <https://doi.org/10.1175/1520-0493(1950)078%3C0001:VOFEIT%3E2.0.CO;2>`_), as a number from 0
    to 1, higher is better: the mean of
    :math:`1 - \tfrac{1}{2} \lVert \mathbf{p} - \mathbf{y} \rVert^2`, with the one-hot label
    :math:`\mathbf{y}`. NaN without items.

    Shape:
        - scores: logarithms of probabilities ``(N, C)``
        - labels: ``(N,)``

    Example:
        >>> scores = torch.tensor([[0.75, 0.25], [0.5, 0.5]]).log()
        >>> round(quadratic_score(scores, torch.tensor([0, 1])), 5)
        0.84375
    """
    p = scores.double().exp()
    p_label = p.gather(1, labels[:, None]).squeeze(1)
    return float((0.5 + p_label - 0.5 * p.square().sum(dim=1)).mean())


def mean_std(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (over ``n - 1``); 0.0 for a single run.

    Example:
        >>> mean_std([1.0, 2.0, 3.0])
        (2.0, 1.0)
    """
    if not values:
        raise ValueError("no values to average")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, 0.0
    return mean, math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    mask = mask.to(values.dtype)
    return (values * mask).sum(dim=-1) / mask.sum(dim=-1)


def _precision(logits: Tensor) -> torch.dtype:
    """At least float32: bfloat16 cannot count beyond 256."""
    return torch.promote_types(logits.dtype, torch.float32)
