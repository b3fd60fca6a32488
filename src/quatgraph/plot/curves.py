"""Learning curves: every run a thin line, and their mean."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.errors import Mistake, did_you_mean
from quatgraph.plot.style import BLUE, ORANGE, SOFT, WIDTH, sheet
from quatgraph.reproduce.table import PRINTED
from quatgraph.tasks.job import CURVES, RECORDS
from quatgraph.training.record import RunRecord, read_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = {"train": SOFT, "valid": BLUE, "test": ORANGE}
METRICS = ("accuracy", "mrr", "hits@10", "loss")
"""What is shown unless something else is asked for."""
ROWS = 8
"""Groups of runs in a figure, at most."""


@dataclass(frozen=True, slots=True)
class Curve:
    epochs: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A metric of the runs of one method on one dataset under one protocol."""

    group: str
    metric: str
    curves: dict[str, list[Curve]]
    """By part, a curve for each run."""

    def mean(self, part: str) -> Curve:
        """Over all runs, at the epochs that all of them have."""
        runs = [dict(zip(one.epochs, one.values, strict=True)) for one in self.curves[part]]
        shared = [epoch for epoch in runs[0] if all(epoch in run for run in runs)]
        means = [math.fsum(run[epoch] for run in runs) / len(runs) for epoch in shared]
        return Curve(shared, means)


@dataclass(frozen=True, slots=True)
class Curves:
    panels: list[Panel]

    def draw(self) -> "Figure":
        groups = list(dict.fromkeys(panel.group for panel in self.panels))
        metrics = list(dict.fromkeys(panel.metric for panel in self.panels))
        width = WIDTH if len(metrics) > 1 else 0.7 * WIDTH
        figure = sheet(2.4 * len(groups) + 0.2, width)
        grid = figure.subplots(len(groups), len(metrics), squeeze=False, sharex="row")
        for axes in grid.flatten():
            axes.set_visible(False)
        for panel in self.panels:
            axes = grid[groups.index(panel.group), metrics.index(panel.metric)]
            axes.set_visible(True)
            _draw_panel(axes, panel)
            if panel.metric == metrics[0]:
                runs = max(map(len, panel.curves.values()))
                of = f", {runs} runs and their mean" if runs > 1 else ""
                axes.set_title(f"{panel.group}{of}", fontweight="bold")
        return figure


def curves(path: Path, *, metrics: Sequence[str] = (), only: Sequence[str] = ()) -> Curves:
    """The curves in a file of records, or in the folder of a training.

    Args:
        metrics: As ``accuracy``; :data:`METRICS` unless given.
        only: Datasets, methods or protocols; union within each kind, all must hold.
    """
    records = _picked(_read(path), only, path)
    if not any(record.curves for record in records):
        raise Mistake(
            f"the records in {path} hold no curves by epoch; those of `quatgraph train` do, unless "
            f"it makes more than {CURVES} runs"
        )
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.curves:
            name = f"{record.method} on {record.dataset}, {record.protocol}"
            groups.setdefault(name, []).append(record)
    groups = {_with_settings(name, runs): runs for name, runs in groups.items()}
    if len(groups) > ROWS:
        raise Mistake(
            f"{path} has the curves of {len(groups)} methods and datasets, more than {ROWS} fit in "
            "a figure: choose by --only"
        )
    known = list(dict.fromkeys(_metric(name) for r in records for name in r.curves))
    for metric in metrics:
        if metric not in known:
            hint = did_you_mean(metric, known) or f"; there are {', '.join(known)}"
            raise Mistake(f"the runs in {path} have no curve of {metric!r}{hint}")
    shown = metrics or [metric for metric in METRICS if metric in known] or known
    panels = [_panel(name, metric, runs) for name, runs in groups.items() for metric in shown]
    return Curves([panel for panel in panels if panel.curves])


def _with_settings(name: str, runs: Sequence[RunRecord]) -> str:
    """Tells where a mean is over runs of several settings."""
    count = len({run.config_digest for run in runs})
    return f"{name}, {count} settings" if count > 1 else name


def _read(path: Path) -> list[RunRecord]:
    if path.is_dir():
        inside = path / RECORDS
        if not inside.is_file():
            raise Mistake(f"{path} is no folder of a training: it has no {RECORDS}")
        path = inside
    records = read_records(path)
    if not records:
        raise Mistake(f"{path} holds no run records")
    return records


def _picked(records: list[RunRecord], only: Sequence[str], path: Path) -> list[RunRecord]:
    for kind in ("dataset", "method", "protocol"):
        wanted = {name for name in only if any(getattr(r, kind) == name for r in records)}
        only = [name for name in only if name not in wanted]
        records = [r for r in records if not wanted or getattr(r, kind) in wanted]
    if only:
        raise Mistake(f"no run in {path} has the dataset, method or protocol {only[0]!r}")
    return records


def _metric(name: str) -> str:
    return name.partition("/")[2]


def _panel(group: str, metric: str, runs: Sequence[RunRecord]) -> Panel:
    found: dict[str, list[Curve]] = {}
    for part in PARTS:
        name = f"{part}/{metric}"
        lines = [_curve(r, r.curves[name]) for r in runs if name in r.curves]
        if lines:
            found[part] = lines
    return Panel(group, metric, found)


def _curve(record: RunRecord, values: list[float]) -> Curve:
    if not record.curve_epochs and len(values) != record.epochs_run:
        raise Mistake("the record of a curve does not say which epochs it has: train again")
    return Curve(record.curve_epochs or list(range(1, len(values) + 1)), values)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    printed, times, _ = PRINTED.get(f"test/{panel.metric}", (panel.metric, 1, 0))
    for part, lines in panel.curves.items():  # first, so that no mean is below a run
        faint = max(0.02, min(0.6, 5 / len(lines)))
        for line in lines if len(lines) > 1 else ():
            values = [times * value for value in line.values]
            axes.plot(line.epochs, values, color=PARTS[part], linewidth=0.6, alpha=faint)
    for part in panel.curves:
        mean = panel.mean(part)
        values = [times * value for value in mean.values]
        if len(panel.curves[part]) > 1:  # a rim, to stand out from them
            axes.plot(mean.epochs, values, color="white", linewidth=3.2)
        axes.plot(mean.epochs, values, color=PARTS[part], linewidth=1.8, label=part)
    parts = list(panel.curves)
    axes.set_xlabel("epoch")
    said = f"{printed}{' (%)' if times == 100 else ''}"
    axes.set_ylabel(said if len(parts) > 1 else f"{parts[0]} {said}")
    axes.grid()
    if len(parts) > 1:
        axes.legend(loc="best")
