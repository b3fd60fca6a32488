"""How good a model is on labelled data: every metric of its predictions, printed as a table."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import printable
from quatgraph.metrics.classification import CLASSIFICATION_METRICS

Z95 = 1.959963984540054
"""The normal distribution has 95 % of its mass within so many standard deviations."""
PRINTED_CLASSES = 12
"""A confusion matrix of more classes is too wide to print; ``to_dict`` holds it."""


@dataclass(frozen=True, slots=True)
class ClassScores:
    """How well one class is found; NaN where nothing was predicted as it, or has it as label."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int
    """Items that have this label."""


@dataclass(frozen=True, slots=True)
class Report:
    """A classifier on labelled data.

    For ROC-AUC and average precision see :mod:`quatgraph.metrics.areas`. ``str`` gives a table.
    """

    num_items: int
    accuracy: float
    interval: tuple[float, float]
    """The 95 % Wilson interval of the accuracy."""
    baseline: float
    """The accuracy of always predicting the most frequent label of these items."""
    macro_f1: float
    roc_auc: float
    average_precision: float
    classes: list[ClassScores]
    confusion: list[list[int]]
    """Items by label (rows) and prediction (columns), in the order of ``classes``."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about these numbers, a sentence each."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for NaN."""
        values: dict[str, Any] = _without_nan(asdict(self))
        return values

    def __str__(self) -> str:
        low, high = (100 * bound for bound in self.interval)
        largest = max(self.classes, key=lambda one: one.support)
        summary = {
            "items": (f"{self.num_items:,}", ""),
            "accuracy": (
                _percent(self.accuracy),
                f"95 % interval {low:.1f} to {high:.1f} %",
            ),
            "majority baseline": (_percent(self.baseline), f"always {largest.label!r}"),
            "macro-F1": (_percent(self.macro_f1), ""),
            "ROC-AUC": (_decimal(self.roc_auc), ""),
            "average precision": (_decimal(self.average_precision), ""),
        }
        lines = [f"{name:18}{value:>8}  {note}" for name, (value, note) in summary.items()]
        names = [printable(one.label) for one in self.classes]
        shown = len(names) <= PRINTED_CLASSES
        rows = [["label", "precision", "recall", "F1", "support", *(names if shown else [])]]
        for place, one in enumerate(self.classes):
            scores = [_decimal(value) for value in (one.precision, one.recall, one.f1)]
            counts = [f"{count:,}" for count in self.confusion[place]] if shown else []
            rows.append([names[place], *scores, f"{one.support:,}", *counts])
        padded = _pad(rows)
        indent = " " * len("  ".join(padded[0][:5]))
        heading = [f"{indent}  predicted as"] if shown else []
        table = ["  ".join(row) for row in padded]
        return "\n".join(line.rstrip() for line in (*lines, "", *heading, *table))


@dataclass(frozen=True, slots=True)
class RankingReport:
    """A link predictor on triples: filtered ranks of their tails and heads."""

    num_triples: int
    metrics: dict[str, float]
    """``mrr``, ``mr`` and ``hits@k``, over both sides."""
    relations: dict[str, dict[str, float]]
    """The same by relation, and the number of its ``triples``."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about these numbers, a sentence each."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, None for NaN."""
        values: dict[str, Any] = _without_nan(asdict(self))
        return values

    def __str__(self) -> str:
        names = {"mrr": "MRR", "mr": "mean rank"}
        values = {names.get(key, f"H{key[1:]}"): value for key, value in self.metrics.items()}
        lines = [f"{'triples':18}{self.num_triples:>8,}"]
        return "\n".join(lines + [f"{name:18}{value:8.4f}" for name, value in values.items()])


def classification_report(
    scores: Tensor, labels: Tensor, classes: Sequence[str], notes: Sequence[str] = ()
) -> Report:
    """Measures predictions, in float64 on the CPU.

    Args:
        scores: Probabilities, or their logarithms, of each item, ``(N, C)``.
        labels: True class of each item, ``(N,)``; a class that is not among the columns, a number
            of ``C`` or more, has probability 0, so that its items count as wrong.
        classes: Names of the classes, those without a column last.

    Example:
        >>> probabilities = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.6, 0.4]])
        >>> found = classification_report(probabilities, torch.tensor([0, 1, 1]), ["no", "yes"])
        >>> found.confusion, round(found.accuracy, 3), found.classes[1].recall
        ([[1, 0], [1, 1]], 0.667, 0.5)
    """
    scores, labels = scores.detach().cpu().double(), labels.cpu()
    count, num_classes = len(labels), len(classes)
    missing = scores.new_full((count, num_classes - scores.size(1)), -torch.inf)
    scores = torch.cat((scores, missing), dim=1)
    pairs = labels * num_classes + scores.argmax(dim=1)
    confusion = pairs.bincount(minlength=num_classes**2).view(num_classes, num_classes)
    right, support, predicted = (
        count.double() for count in (confusion.diag(), confusion.sum(dim=1), confusion.sum(dim=0))
    )
    each = zip(
        classes,
        (right / predicted).tolist(),
        (right / support).tolist(),
        (2 * right / (predicted + support)).tolist(),
        support.long().tolist(),
        strict=True,
    )
    found = {name: metric(scores, labels) for name, metric in CLASSIFICATION_METRICS.items()}
    return Report(
        num_items=count,
        accuracy=found["accuracy"],
        interval=wilson_interval(int(right.sum()), count),
        baseline=float(support.max()) / count if count else math.nan,
        macro_f1=found["macro-f1"],
        roc_auc=found["roc-auc"],
        average_precision=found["average-precision"],
        classes=[ClassScores(*one) for one in each],
        confusion=confusion.tolist(),
        notes=list(notes),
    )


def wilson_interval(successes: int, count: int) -> tuple[float, float]:
    """The 95 % confidence interval of a proportion (Wilson, 1927); NaN for a count of 0.

    Example:
        >>> [round(bound, 4) for bound in wilson_interval(8, 10)]
        [0.4902, 0.9433]
    """
    if not count:
        return math.nan, math.nan
    share, z2 = successes / count, Z95**2
    centre = (share + z2 / (2 * count)) / (1 + z2 / count)
    spread = math.sqrt(share * (1 - share) / count + z2 / (4 * count**2)) * Z95 / (1 + z2 / count)
    return max(0.0, centre - spread), min(1.0, centre + spread)


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else f"{100 * value:.2f} %"


def _decimal(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _pad(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The cells of each column with equal width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]  # numbers to the right
        for row in rows
    ]


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value
