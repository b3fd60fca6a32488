"""The result of a comparison, in numbers and in words."""

from dataclasses import dataclass

from quatgraph.metrics.comparison import PairedTest
from quatgraph.reproduce.render import format_metric
from quatgraph.reproduce.table import METRIC_FORMATS

SIGNIFICANT = 0.05


@dataclass(frozen=True, slots=True)
class PairedRun:
    """The test metric of both models for one split and seed."""

    split: int
    seed: int
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Two models and the test of their difference, the first's metric minus the second's."""

    first: str
    second: str
    first_mean: float
    second_mean: float
    """The test metric of each over what both were tested on."""
    metric: str
    """As in records: ``test/accuracy``."""
    paired_by: str
    """What was paired: ``nodes``, ``splits``, ``seeds``."""
    result: PairedTest
    """With Holm's correction if there are several pairs."""
    runs: tuple[PairedRun, ...] = ()
    """Of records: what was paired."""

    @property
    def significant(self) -> bool:
        return self.result.p < SIGNIFICANT

    def __str__(self) -> str:
        result = self.result
        ahead, behind, sign = self.first, self.second, 1
        if result.difference < 0:
            ahead, behind, sign = self.second, self.first, -1
        low, high = sorted((sign * result.low, sign * result.high))
        p = "< .001" if result.p < 0.001 else f"= {_short(f'{result.p:.2g}')}"
        interval = f"{_points(low, self.metric)} to {_points(high, self.metric)}"
        details = f"(95 % CI {interval}; {result.test} p {p})"
        if not result.difference:
            return f"{ahead} and {behind} are level {details}"
        unit = "points" if METRIC_FORMATS[self.metric][1] == 100 else METRIC_FORMATS[self.metric][0]
        by = f"{_points(abs(result.difference), self.metric)} {unit}"
        if self.significant:
            return f"{ahead} is ahead of {behind} by {by} {details}"
        return f"{ahead} is ahead of {behind} by {by}, which is within noise {details}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Models compared pair by pair; ``str()`` describes the result in words."""

    task: str
    data: str
    pairs: list[Pair]
    reference: str = ""
    """Why all others are compared with the first of each pair; empty for a single pair."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = []
        for pair in self.pairs:
            name = METRIC_FORMATS[pair.metric][0]
            first, second = (_value(m, pair.metric) for m in (pair.first_mean, pair.second_mean))
            over = f"over {pair.result.pairs:,} {pair.paired_by} of {self.data}"
            lines.append(f"test {name} {over}: {pair.first} {first}, {pair.second} {second}")
            lines.append(f"{pair}")
        if self.reference:
            lines.append(f"{self.reference}; p-values are Holm-corrected, intervals are not")
        return "\n".join(lines)


def _short(number: str) -> str:
    return number.replace("0.", ".", 1)


def _points(difference: float, metric: str) -> str:
    """A difference in percentage points, or of an MRR."""
    if METRIC_FORMATS[metric][1] == 100:
        return f"{100 * difference:.1f}"
    return format_metric(difference, metric)


def _value(mean: float, metric: str) -> str:
    return format_metric(mean, metric) + (" %" if METRIC_FORMATS[metric][1] == 100 else "")
