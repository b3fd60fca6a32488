"""Learning curves: the mean over runs with its spread, and the epoch that was selected."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quatgraph.errors import Mistake, did_you_mean, printable
from quatgraph.plot.style import BLUE, INK, ORANGE, PALE, SOFT, WIDTH, sheet
from quatgraph.reproduce.table import PRINTED
from quatgraph.tasks import TASKS
from quatgraph.tasks.job import CURVES, RECORDS
from quatgraph.tasks.selection import drop_diverged, select_group
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord, read_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = {"train": SOFT, "valid": BLUE, "test": ORANGE}
METRICS = ("accuracy", "mrr", "hits@10", "loss")
"""What is shown unless something else is asked for."""
OTHERS = "other candidates"
ROWS = 8
"""Groups of runs in a figure, at most."""


@dataclass(frozen=True, slots=True)
class Curve:
    epochs: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A metric of the runs of one method on one dataset under one protocol.

    Attributes:
        group: What the runs are of.
        metric: What is drawn.
        curves: By part, a curve for each run.
        others: Of each other candidate the mean over its runs.
        selected: The epochs at which the models of the bundle were kept.
    """

    group: str
    metric: str
    curves: dict[str, list[Curve]]
    others: list[Curve] = field(default_factory=list)
    selected: list[int] = field(default_factory=list)

    def mean(self, part: str) -> Curve:
        """Over all runs, at the epochs that all of them have."""
        return mean_curve(self.curves[part])

    def spread(self, part: str) -> list[float]:
        """The standard deviations that belong to :meth:`mean`."""
        return [mean_std(values)[1] for values in _by_epoch(self.curves[part]).values()]


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """The mean of curves, at the epochs that all of them have."""
    found = _by_epoch(curves)
    return Curve(list(found), [math.fsum(values) / len(values) for values in found.values()])


def _by_epoch(curves: Sequence[Curve]) -> dict[int, list[float]]:
    runs = [dict(zip(one.epochs, one.values, strict=True)) for one in curves]
    return {
        epoch: [run[epoch] for run in runs]
        for epoch in runs[0]
        if all(epoch in run for run in runs)
    }


@dataclass(frozen=True, slots=True)
class Curves:
    panels: list[Panel]

    def draw(self) -> "Figure":
        groups = list(dict.fromkeys(panel.group for panel in self.panels))
        metrics = list(dict.fromkeys(panel.metric for panel in self.panels))
        width = WIDTH if len(metrics) > 1 else 0.7 * WIDTH
        figure = sheet(2.4 * len(groups) + 0.4, width)
        grid = figure.subplots(len(groups), len(metrics), squeeze=False, sharex="row")
        for axes in grid.flatten():
            axes.set_visible(False)
        signs: dict[str, Any] = {}
        for panel in self.panels:
            axes = grid[groups.index(panel.group), metrics.index(panel.metric)]
            axes.set_visible(True)
            _draw_panel(axes, panel)
            if panel.metric == metrics[0]:
                runs = max(map(len, panel.curves.values()))
                of = f", mean and standard deviation of {runs} runs" if runs > 1 else ""
                axes.set_title(f"{printable(panel.group)}{of}", fontweight="bold")
            handles, labels = axes.get_legend_handles_labels()
            signs |= dict(zip(labels, handles, strict=True))
        if OTHERS in signs:
            signs[OTHERS] = signs.pop(OTHERS)  # last
        if len(signs) > 1:
            figure.legend(
                list(signs.values()), list(signs), loc="outside lower left", ncols=len(signs)
            )
        return figure


def curves(path: Path, *, metrics: Sequence[str] = (), only: Sequence[str] = ()) -> Curves:
    """The curves in a file of records, or in the folder of a training: there of the configuration
    that became the bundle, beside those of the other candidates.

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
    make = _kept_panel if path.is_dir() else _panel
    panels = [make(name, metric, runs) for name, runs in groups.items() for metric in shown]
    drawn = [panel for panel in panels if any(map(_is_line, panel.curves.values()))]
    if not drawn:
        raise Mistake(
            f"the runs in {path} were evaluated once only, which makes no curve: train with more "
            "epochs, train.select=best-valid or a lower train.evaluate_every"
        )
    return Curves(drawn)


def _is_line(curves: Sequence[Curve]) -> bool:
    return any(len(curve.epochs) > 1 for curve in curves)


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
    """All runs alike."""
    count = len({run.config_digest for run in runs})
    settings = f", {count} settings" if count > 1 else ""
    return Panel(f"{group}{settings}", metric, _lines(metric, runs))


def _kept_panel(group: str, metric: str, runs: Sequence[RunRecord]) -> Panel:
    """The runs of the configuration in the bundle; of the others only what it was chosen by."""
    best = select_group(runs)
    together = TASKS[best.best.task].averages_runs
    candidates: dict[str, list[RunRecord]] = {best.best.config_digest: []}  # the kept one first
    for run in drop_diverged(runs):
        candidates.setdefault(run.config_digest, []).append(run)
    found, *rest = (_lines(metric, candidate) for candidate in candidates.values())
    part = "valid" if "valid" in found else next(iter(found), "")
    others = [mean_curve(lines[part]) for lines in rest if part in lines]
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
        raise Mistake("the record of a curve does not say which epochs it has: train again")
    return Curve(record.curve_epochs or list(range(1, len(values) + 1)), values)


def _draw_panel(axes: "Axes", panel: Panel) -> None:
    from matplotlib.ticker import MaxNLocator

    printed, times, _ = PRINTED.get(f"test/{panel.metric}", (panel.metric, 1, 0))
    for place, other in enumerate(panel.others):
        values, label = [times * value for value in other.values], OTHERS if not place else ""
        axes.plot(other.epochs, values, color=PALE, linewidth=0.7, label=label)
    seen: list[float] = []
    for part, lines in panel.curves.items():
        mean, spread = panel.mean(part), panel.spread(part)
        # Neither a loss nor a share is below 0, and no share is above 1.
        most = math.inf if panel.metric == "loss" else max(1, *mean.values)
        pairs = list(zip(mean.values, spread, strict=True))
        low = [times * max(value - std, min(0, value)) for value, std in pairs]
        high = [times * min(value + std, most) for value, std in pairs]
        if len(lines) > 1:
            axes.fill_between(mean.epochs, low, high, color=PARTS[part], alpha=0.18, linewidth=0)
        values = [times * value for value in mean.values]
        axes.plot(mean.epochs, values, color=PARTS[part], linewidth=1.8, label=part)
        seen += [value for value in (*low, *high) if math.isfinite(value)]
    _mark_epochs(axes, panel.selected)
    if seen and panel.others:  # which must not press the main curve flat
        room = 0.5 * (max(seen) - min(seen)) or 1.0
        bottom, top = axes.get_ylim()
        axes.set_ylim(max(bottom, min(seen) - room), min(top, max(seen) + room))
    parts = list(panel.curves)
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    said = f"{printed}{' (%)' if times == 100 else ''}"
    axes.set_ylabel(said if len(parts) > 1 else f"{parts[0]} {said}")
    axes.grid()


def _mark_epochs(axes: "Axes", epochs: Sequence[int]) -> None:
    """One as a line, several as marks at the bottom."""
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
