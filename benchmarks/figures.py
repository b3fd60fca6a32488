"""Benchmark records as figures: relative times of variants, and scaling with size."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill, wrap
from typing import TYPE_CHECKING, Any

from benchmarks.growth import exponent
from benchmarks.limits import REACHED
from benchmarks.render import MEASURES, machine_of, read_rows, with_unit
from quatgraph.errors import UserError, did_you_mean
from quatgraph.plot.style import (
    BLUE,
    INK,
    ORANGE,
    SOFT,
    WIDTH,
    format_log_axes,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREEN, PURPLE, SKY = "#009E73", "#CC79A7", "#56B4E9"
COLOURS, MARKERS = (BLUE, ORANGE, GREEN, PURPLE, SKY, INK), "osD^vP"
TIMES = ("ms", "seconds")
"""The fields of a row that hold its time."""
TIMES_SIGN = "\N{MULTIPLICATION SIGN}"
BAR = 0.17
"""Height of a bar in inches."""
LINE, NAME = 120, 36
"""Characters per line of a figure, and per line of a variant's name."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The variants of one benchmark case on one machine."""

    machine: str
    case: str
    work: str
    ours: str
    """The first variant; ``others`` are relative to it."""
    time: float
    unit: str
    others: dict[str, float]

    @property
    def heading(self) -> str:
        work = "" if self.work == "training" else f", {self.work}"
        return f"{self.case}{work}: {self.ours} {with_unit(self.time, self.unit)}"


@dataclass(frozen=True, slots=True)
class SpeedBars:
    title: str
    comparisons: list[Comparison]

    def draw(self) -> "Figure":
        machines = list(dict.fromkeys(one.machine for one in self.comparisons))
        groups = {m: [one for one in self.comparisons if one.machine == m] for m in machines}
        names = [line for one in self.comparisons for v in one.others for line in _lines(v, NAME)]
        letters = LINE - max(map(len, names))
        lines = {
            m: sum(
                len(_lines(one.heading, letters)) + sum(len(_lines(v, NAME)) for v in one.others)
                for one in found
            )
            for m, found in groups.items()
        }
        figure = new_figure(BAR * sum(lines.values()) + 0.32 * len(machines) + 0.5)
        grid = figure.subplots(
            len(machines), 1, squeeze=False, sharex=True, height_ratios=list(lines.values())
        )[:, 0]
        for axes, machine in zip(grid, machines, strict=True):
            _draw_machine(axes, groups[machine], letters)
            axes.set_title(machine, fontweight="bold", pad=3)
        ratios = [ratio for one in self.comparisons for ratio in one.others.values()]
        first, last = (math.log(far) for far in (min(1.0, *ratios), max(1.0, *ratios)))
        margin = max(0.05, 0.13 * (last - first))
        left = first - margin if first < 0 else -0.1 * margin
        grid[-1].set_xlim(math.exp(left), math.exp(last + margin))
        format_log_axes(grid[-1])
        grid[-1].set_xlabel("time relative to the variant named in the line above (logarithmic)")
        figure.suptitle(self.title, x=0.005, ha="left", fontsize=9, fontweight="bold")
        return figure


@dataclass(frozen=True, slots=True)
class Line:
    """Times of one variant of a series on one machine, by size."""

    series: str
    variant: str
    machine: str
    sizes: list[float]
    times: list[float]
    """In milliseconds."""
    floor: float
    """The time at almost zero size."""

    @property
    def exponent(self) -> float | None:
        """The fitted exponent, None if too few sizes count."""
        points = zip(self.sizes, self.times, strict=True)
        return exponent([{"size": n, "ms": ms, "floor_ms": self.floor} for n, ms in points])


@dataclass(frozen=True, slots=True)
class Growing:
    grows: str
    """What the sizes count."""
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Growth:
    panels: list[Growing]

    def draw(self) -> "Figure":
        columns = min(2, len(self.panels))
        rows = -(-len(self.panels) // columns)
        most = max(len(panel.lines) for panel in self.panels)
        figure = new_figure((2.3 + 0.3 * most) * rows, WIDTH if columns == 2 else 0.6 * WIDTH)
        grid = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(grid, self.panels, strict=False):
            _draw_growing(axes, panel)
        for axes in grid[len(self.panels) :]:
            axes.set_visible(False)
        return figure


def speed_bars(folder: Path, bench: str) -> SpeedBars:
    """All cases of a benchmark with several variants, on all machines."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in _timed(_rows(folder, bench)):
        if "series" not in row and row["case"] != REACHED:
            key = machine_of(row), row["case"], row["work"], row.get("graph", "")
            groups.setdefault(key, []).append(row)
    found = [
        _comparison(machine, case, work, rows)
        for (machine, case, work, _), rows in groups.items()
        if len(rows) > 1
    ]
    if not found:
        raise UserError(f"the benchmark {bench!r} has no case with the times of several variants")
    return SpeedBars(f"{bench}: times side by side", found)


def growth(folder: Path, only: Sequence[str] = ()) -> Growth:
    """All series of all benchmarks, grouped by what grows; ``only`` restricts the groups."""
    lines: dict[tuple[str, str, str, str], dict[float, dict[str, Any]]] = {}
    for bench in _benches(folder):
        for row in _timed(_rows(folder, bench)):
            if row.keys() >= {"series", "size", "grows"}:
                key = row["grows"], row["series"], row["variant"], machine_of(row)
                lines.setdefault(key, {})[float(row["size"])] = row
    panels: dict[str, Growing] = {}
    for (grows, series, variant, machine), line in lines.items():
        if len(line) > 1:
            sizes = sorted(line)
            times = [_milliseconds(line[size]) for size in sizes]
            floor = max(row.get("floor_ms", 0.0) for row in line.values())
            panel = panels.setdefault(grows, Growing(grows, []))
            panel.lines.append(Line(series, variant, machine, sizes, times, floor))
    for name in only:
        if name not in panels:
            hint = did_you_mean(name, panels) or f"; choose from {', '.join(panels) or 'none'}"
            raise UserError(f"{folder} has no series in which {name!r} grow{hint}")
    if not panels:
        raise UserError(
            f"no benchmark in {folder} has a series of sizes; record one with "
            "`python -m benchmarks growth --out DIR`"
        )
    return Growth([panel for grows, panel in panels.items() if grows in only or not only])


def _milliseconds(row: dict[str, Any]) -> float:
    time, unit = _time(row)
    return time if unit == "ms" else 1000 * time


def _benches(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def _rows(folder: Path, bench: str) -> list[dict[str, Any]]:
    """As :func:`read_rows`, but raises a UserError for missing or invalid records."""
    known = _benches(folder)
    if bench not in known:
        hint = did_you_mean(bench, known) or f"; choose from {', '.join(known)}"
        hint = hint if known else f"; record them with `python -m benchmarks {bench} --out DIR`"
        raise UserError(f"{folder} has no records of a benchmark {bench!r}{hint}")
    try:
        rows = read_rows(folder, bench)
        for row in rows:
            machine_of(row)
            if any(not row[field] > 0 for field in (*TIMES, "size") if field in row):
                raise ValueError("times and sizes are positive numbers")
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise UserError(f"{folder / bench}.jsonl is not a file of benchmark rows") from error
    return rows


def _timed(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if any(field in row for field in TIMES)]


def _time(row: dict[str, Any]) -> tuple[float, str]:
    field = next(field for field in TIMES if field in row)
    return row[field], MEASURES[field][1]


def _comparison(machine: str, case: str, work: str, rows: list[dict[str, Any]]) -> Comparison:
    first, *others = rows
    time, unit = _time(first)
    ratios = {row["variant"]: _time(row)[0] / time for row in others}
    return Comparison(machine, case, work, first["variant"], time, unit, ratios)


def _lines(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False)


def _draw_machine(axes: "Axes", found: list[Comparison], letters: int) -> None:
    """A heading per case, wrapped at ``letters`` characters, and a bar per variant."""
    place, ticks = 0, dict[float, str]()
    for one in found:
        heading = _lines(one.heading, letters)
        axes.annotate(
            "\n".join(heading),
            (0.004, place + (len(heading) - 1) / 2),
            xycoords=("axes fraction", "data"),
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )
        place += len(heading)
        for variant, ratio in one.others.items():
            name = _lines(variant, NAME)
            middle = place + (len(name) - 1) / 2
            axes.barh(
                middle,
                ratio - 1,
                left=1,
                height=0.7,
                color=BLUE if ratio >= 1 else ORANGE,
                label=variant,
            )
            axes.annotate(
                f"{ratio:.3g}{TIMES_SIGN}" if ratio < 100 else f"{ratio:,.0f}{TIMES_SIGN}",
                (ratio, middle),
                (3 if ratio >= 1 else -3, 0),
                textcoords="offset points",
                va="center",
                ha="left" if ratio >= 1 else "right",
            )
            ticks[middle] = "\n".join(name)
            place += len(name)
    axes.set_xscale("log")
    axes.axvline(1, color=SOFT, linewidth=0.8)
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(place - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")


def _draw_growing(axes: "Axes", panel: Growing) -> None:
    """Log-log plot; colours distinguish machines."""
    machines = list(dict.fromkeys(line.machine for line in panel.lines))
    for number, line in enumerate(panel.lines):
        power = line.exponent
        fit = "" if power is None else f": {panel.grows}^{power:.2f}"
        label = f"{line.machine}, {line.variant}{fit} ({line.series})"
        axes.plot(
            line.sizes,
            line.times,
            color=COLOURS[machines.index(line.machine) % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=3.5,
            label=fill(label, 62),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    format_log_axes(axes, max_ratio=60)
    axes.grid()
    axes.set_xlabel(f"{panel.grows} (logarithmic)")
    axes.set_ylabel("time (ms, logarithmic)")
    axes.legend(loc="upper left", bbox_to_anchor=(-0.12, -0.2), fontsize=6.3, borderpad=0)
