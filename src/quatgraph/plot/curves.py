"""Training curves: mean and standard deviation over runs, and the selected epoch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quatgraph.errors import UserError, check_known, printable
from quatgraph.metrics.classification import mean_std
from quatgraph.plot.style import BLUE, INK, ORANGE, PALE, SOFT, WIDTH, new_figure
from quatgraph.reproduce.table import METRIC_FORMATS
from quatgraph.tasks import TASKS
from quatgraph.tasks.job import CURVES
from quatgraph.tasks.selection import drop_diverged, select_group
from quatgraph.tasks.stored import RECORDS
from quatgraph.training.record import RunRecord, read_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = {"train": SOFT, "valid": BLUE, "test": ORANGE}
METRICS = ("accuracy", "mrr", "hits@10", "loss")
"""The metrics that are shown by default."""
OTHERS = "other candidates"
MAX_GROUPS = 8
"""Groups of runs per figure."""


@dataclass(frozen=True, slots=True)
class Curve:
    epochs: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A metric of one method on one dataset under one protocol.

    Attributes:
        group: Title: method, dataset and protocol.
        metric: Name of the metric.
        curves: One curve per run, by split.
        others: The mean curve of each other candidate.
        selected: Selected epochs of the models in the bundle.
    """

    group: str
    metric: str
    curves: dict[str, list[Curve]]
    others: list[Curve] = field(default_factory=list)
    selected: list[int] = field(default_factory=list)


def mean_curve(curves: Sequence[Curve]) -> tuple[Curve, list[float]]:
    """The mean of several curves at their common epochs, and the standard deviations around it."""
    runs = [dict(zip(one.epochs, one.values, strict=True)) for one in curves]
    epochs = [epoch for epoch in runs[0] if all(epoch in run for run in runs)]
    values = [[run[epoch] for run in runs] for epoch in epochs]
    means = [math.fsum(each) / len(each) for each in values]
    return Curve(epochs, means), [mean_std(each)[1] for each in values]


@dataclass(frozen=True, slots=True)
class Curves:
    panels: list[Panel]

    def draw(self) -> "Figure":
        groups = list(dict.fromkeys(panel.group for panel in self.panels))
        metrics = list(dict.fromkeys(panel.metric for panel in self.panels))
        width = WIDTH if len(metrics) > 1 else 0.7 * WIDTH
        figure = new_figure(2.4 * len(groups) + 0.4, width)
        grid = figure.subplots(len(groups), len(metrics), squeeze=False, sharex="row")
        for axes in grid.flatten():
            axes.set_visible(False)
        legend: dict[str, Any] = {}
        for panel in self.panels:
            axes = grid[groups.index(panel.group), metrics.index(panel.metric)]
            axes.set_visible(True)
            _draw_panel(axes, panel)
            if panel.metric == metrics[0]:
                runs = max(map(len, panel.curves.values()))
                of = f", mean and standard deviation of {runs} runs" if runs > 1 else ""
                axes.set_title(f"{printable(panel.group)}{of}", fontweight="bold")
            handles, labels = axes.get_legend_handles_labels()
            legend |= dict(zip(labels, handles, strict=True))
        if OTHERS in legend:
            legend[OTHERS] = legend.pop(OTHERS)  # last
        if len(legend) > 1:
            figure.legend(
                list(legend.values()), list(legend), loc="outside lower left", ncols=len(legend)
            )
        return figure


def curves(path: Path, *, metrics: Sequence[str] = (), only: Sequence[str] = ()) -> Curves:
    """The curves of a file of records or of a training folder.

    For a training folder, shows the selected configuration, and the means of the other candidates.
    ``only`` names datasets, methods or protocols to show.
    """
    records = _filter_records(_read(path), only, path)
    if not any(record.curves for record in records):
        raise UserError(
            f"the records in {path} have no curves; `quatgraph train` records them for up to "
            f"{CURVES} runs"
        )
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.curves:
            name = f"{record.method} on {record.dataset}, {record.protocol}"
            groups.setdefault(name, []).append(record)
    if len(groups) > MAX_GROUPS:
        raise UserError(
            f"{path} has curves of {len(groups)} methods and datasets, at most {MAX_GROUPS} "
            "fit in a figure; select some with --only"
        )
    known = list(dict.fromkeys(name.partition("/")[2] for r in records for name in r.curves))
    for metric in metrics:
        check_known(metric, known, f"the runs in {path} have no curve of {metric!r}")
    shown = metrics or [metric for metric in METRICS if metric in known] or known
    make_panel = _bundle_panel if path.is_dir() else _records_panel
    panels = [make_panel(name, metric, runs) for name, runs in groups.items() for metric in shown]
    drawn = [
        panel
        for panel in panels
        if any(len(curve.epochs) > 1 for curves in panel.curves.values() for curve in curves)
    ]
    if not drawn:
        raise UserError(
            f"the runs in {path} were evaluated only once, so there is no curve; train with more "
            "epochs, train.select=best-valid or a lower train.evaluate_every"
        )
    return Curves(drawn)


def _read(path: Path) -> list[RunRecord]:
    if path.is_dir():
        inside = path / RECORDS
        if not inside.is_file():
            raise UserError(f"{path} is not a training folder: it has no {RECORDS}")
        path = inside
    records = read_records(path)
    if not records:
        raise UserError(f"{path} has no run records")
    return records


def _filter_records(records: list[RunRecord], only: Sequence[str], path: Path) -> list[RunRecord]:
    for kind in ("dataset", "method", "protocol"):
        wanted = {name for name in only if any(getattr(r, kind) == name for r in records)}
        only = [name for name in only if name not in wanted]
        records = [r for r in records if not wanted or getattr(r, kind) in wanted]
    if only:
        raise UserError(f"no run in {path} has the dataset, method or protocol {only[0]!r}")
    return records


def _records_panel(group: str, metric: str, runs: Sequence[RunRecord]) -> Panel:
    """The curves of all runs."""
    count = len({run.config_digest for run in runs})
    configurations = f", {count} configurations" if count > 1 else ""
    return Panel(f"{group}{configurations}", metric, _lines(metric, runs))


def _bundle_panel(group: str, metric: str, runs: Sequence[RunRecord]) -> Panel:
    """The curves of the selected configuration, and validation curves of the other candidates."""
    best = select_group(runs)
    together = TASKS[best.best.task].averages_runs
    candidates: dict[str, list[RunRecord]] = {best.best.config_digest: []}  # the selected one first
    for run in drop_diverged(runs):
        candidates.setdefault(run.config_digest, []).append(run)
    found, *rest = (_lines(metric, candidate) for candidate in candidates.values())
    part = "valid" if "valid" in found else next(iter(found), "")
    others = [mean_curve(lines[part])[0] for lines in rest if part in lines]
    selected = [run.best_epoch for run in (best.healthy if together else [best.best])]
    return Panel(group, metric, found, others, selected)


def _lines(metric: str, runs: Sequence[RunRecord]) -> dict[str, list[Curve]]:
    found: dict[str, list[Curve]] = {}
    for part in PARTS:
        name = f"{part}/{metric}"
        lines = [_curve(r, r.curves[name]) for r in runs if name in r.curves]
        if lines:
            found[part] = lines
    return found


def _curve(record: RunRecord, values: list[float]) -> Curve:
    if not record.curve_epochs and len(values) != record.epochs_run:
        raise UserError("the record of a curve lacks its epochs; train again")
    return Curve(record.curve_epochs or list(range(1, len(values) + 1)), values)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    name, scale, _ = METRIC_FORMATS.get(f"test/{panel.metric}", (panel.metric, 1, 0))
    for place, other in enumerate(panel.others):
        values, label = [scale * value for value in other.values], OTHERS if not place else ""
        axes.plot(other.epochs, values, color=PALE, linewidth=0.7, label=label)
    seen: list[float] = []
    for part, lines in panel.curves.items():
        mean, spread = mean_curve(lines)
        # A loss is at least 0, a share between 0 and 1.
        upper = math.inf if panel.metric == "loss" else max(1, *mean.values)
        pairs = list(zip(mean.values, spread, strict=True))
        low = [scale * max(value - std, min(0, value)) for value, std in pairs]
        high = [scale * min(value + std, upper) for value, std in pairs]
        if len(lines) > 1:
            axes.fill_between(mean.epochs, low, high, color=PARTS[part], alpha=0.18, linewidth=0)
        values = [scale * value for value in mean.values]
        axes.plot(mean.epochs, values, color=PARTS[part], linewidth=1.8, label=part)
        seen += [value for value in (*low, *high) if math.isfinite(value)]
    _mark_epochs(axes, panel.selected)
    if seen and panel.others:  # the others must not flatten the main curve
        margin = 0.5 * (max(seen) - min(seen)) or 1.0
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, min(seen) - margin), min(top, max(seen) + margin))
    parts = list(panel.curves)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    label = f"{name}{' (%)' if scale == 100 else ''}"
    axes.set_ylabel(label if len(parts) > 1 else f"{parts[0]} {label}")
    axes.grid()


def _mark_epochs(axes: "Axes", epochs: Sequence[int]) -> None:
    """Marks one epoch by a line, several by markers at the bottom."""
    if len(epochs) == 1:
        (epoch,) = epochs
        label = f"selected epoch {epoch}"
        axes.axvline(epoch, color=INK, linewidth=1, linestyle=(0, (4, 2)), label=label)
    elif epochs:
        heights, label = [0.03] * len(epochs), "selected epochs"
        axes.plot(
            epochs, heights, "^", color=INK, markersize=4, label=label,
            transform=axes.get_xaxis_transform(),
        )  # fmt: skip
