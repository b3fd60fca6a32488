"""A table of the paper as dots: ours under each protocol or by each rule, and the paper's number.

Every dataset and metric has a panel with an axis of its own, zoomed in on what is there to compare.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from quatgraph.errors import Mistake
from quatgraph.plot.style import BLUE, FAINT, INK, ORANGE, SOFT, sheet
from quatgraph.reproduce.render import RULE_NAMES, cells, format_metric
from quatgraph.reproduce.table import METRIC_FORMATS, PROTOCOLS, Table
from quatgraph.training.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.8
"""Inches: as wide as a page on GitHub, so that nothing is scaled down there."""
COLUMNS = 4
"""Panels beside each other, at most."""
LINE = 0.13
"""Inches of a dot's line; a method has one for each series and one for the paper's number."""
LETTERS = 18
"""Of a method's name in one line."""
TEXT, SMALL = 9, 7.5
"""Points."""
GAP = 0.3
"""The share of a panel's span that is left empty below a method before the method is cut off."""
SIGNS = {
    "validation": (BLUE, "o"),
    "honest": (BLUE, "o"),
    "gin": (ORANGE, "s"),
    "paper": (ORANGE, "s"),
}
"""Colour and marker of protocols and rules."""
OTHER = (SOFT, "^")
"""Those of any other."""
PUBLISHED: dict[str, Any] = {
    "marker": "D", "markersize": 4.5, "color": INK, "markerfacecolor": "white", "linestyle": "none",
    "label": "the paper's number",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dot:
    """One of our numbers; fractions."""

    mean: float
    std: float | None
    """None for a single run."""


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    dots: dict[str, Dot]
    """By protocol or rule; what was not run is missing."""
    paper: float | None

    @property
    def values(self) -> list[float]:
        ours = [dot.mean for dot in self.dots.values()]
        return ours if self.paper is None else [*ours, self.paper]


@dataclass(frozen=True, slots=True)
class Panel:
    dataset: str
    metric: str
    methods: list[Method]

    def split_far(self) -> tuple[list[Method], list[Method]]:
        """The methods on the axis, and those so far below all others that it is cut before them: a
        third of the methods at most."""
        ranked = sorted(self.methods, key=lambda method: max(method.values))
        span = max(ranked[-1].values) - min(min(method.values) for method in ranked)
        for count in range(1, len(ranked) // 3 + 1):
            floor = min(min(method.values) for method in ranked[count:])
            if floor - max(ranked[count - 1].values) > GAP * span:
                return ranked[count:], ranked[:count]
        return ranked, []


@dataclass(frozen=True, slots=True)
class TableDots:
    title: str
    series: dict[str, str]
    """What protocols or rules are called in print."""
    methods: list[str]
    """The rows of every panel."""
    panels: list[Panel]

    def draw(self) -> "Figure":
        columns = min(COLUMNS, len(self.panels))
        rows = math.ceil(len(self.panels) / columns)
        height = max(LINE * (len(self.series) + 1), 0.33) * len(self.methods)
        figure = sheet(rows * (height + 0.5) + 0.85, WIDTH)
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
        for axes, panel in zip(grid, self.panels, strict=False):
            self._draw_panel(axes, panel)
        for axes in grid[len(self.panels) :]:
            axes.set_visible(False)
        figure.supxlabel(f"{self._measured()}; each panel has its own axis", fontsize=TEXT)
        self._draw_key(figure)
        return figure

    def _measured(self) -> str:
        metrics = dict.fromkeys(panel.metric for panel in self.panels)
        shown = " and ".join(
            f"{METRIC_FORMATS[m][0]}{' (%)' if METRIC_FORMATS[m][1] == 100 else ''}"
            for m in metrics
        )
        return f"test {shown}, mean ± standard deviation over runs"

    def _draw_panel(self, axes: "Axes", panel: Panel) -> None:
        from matplotlib.ticker import MaxNLocator

        name, times, _ = METRIC_FORMATS[panel.metric]
        columns = min(COLUMNS, len(self.panels))
        several = len({one.metric for one in self.panels}) > 1
        axes.set_title(f"{panel.dataset}, {name}" if several else panel.dataset, size=TEXT + 1)
        near, far = panel.split_far()
        for method in near:
            if method.paper is not None:
                axes.plot(times * method.paper, self._place(method.name), **PUBLISHED)
            for key, dot in method.dots.items():
                colour, marker = SIGNS.get(key, OTHER)
                axes.errorbar(
                    times * dot.mean, self._place(method.name, key), xerr=times * (dot.std or 0.0),
                    fmt=marker, color=colour, markersize=4.5, elinewidth=1.1, label=key,
                )  # fmt: skip
        for method in far:
            values = {key: dot.mean for key, dot in method.dots.items()}
            for at, value in ((None, method.paper), *values.items()):
                if value is not None:
                    text = f"\N{LEFTWARDS ARROW} {format_metric(value, panel.metric)}"
                    _write(axes, text, self._place(method.name, at))
        for row, missing in enumerate(self.methods):
            if missing not in {method.name for method in panel.methods}:
                _write(axes, "not run", row)
        axes.set_yticks(range(len(self.methods)), [fill(one, LETTERS) for one in self.methods])
        axes.set_ylim(len(self.methods) - 0.5, -0.5)
        axes.set_xlim(*_limits(near, times))
        for row in range(1, len(self.methods)):
            axes.axhline(row - 0.5, color=FAINT, linewidth=0.8, zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(16 // columns, steps=[1, 2, 5, 10]))
        axes.tick_params(length=0, labelsize=TEXT)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")

    def _place(self, method: str, series: str | None = None) -> float:
        """Where a number stands within the row of its method; that of the paper comes first."""
        line = 0 if series is None else 1 + list(self.series).index(series)
        return self.methods.index(method) - 0.5 + (line + 0.5) / (len(self.series) + 1)

    def _draw_key(self, figure: "Figure") -> None:
        from matplotlib.lines import Line2D

        signs = [Line2D([], [], **PUBLISHED)]
        for key, name in self.series.items():
            colour, marker = SIGNS.get(key, OTHER)
            signs.append(Line2D([], [], color=colour, marker=marker, markersize=4.5, label=name))
        figure.legend(
            handles=signs, loc="outside upper left", ncols=len(signs), title=self.title,
            alignment="left", title_fontproperties={"weight": "bold", "size": TEXT + 1},
            fontsize=TEXT, borderpad=0, handlelength=1.6, columnspacing=1.4,
        )  # fmt: skip


def table_dots(table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()) -> TableDots:
    """What a table has of our own runs; the same numbers as ``reproduce`` prints."""
    by = "rule" if table.rules else "protocol"
    series = {str(name): f"ours, {name} protocol" for name in PROTOCOLS}
    if table.rules:
        series = {rule: RULE_NAMES[rule].replace("`", "") for rule in table.rules}
    panels: dict[tuple[str, str], dict[str, Method]] = {}
    for one in cells(table, records, only):
        if not one["runs"] or math.isnan(one["mean"]):
            continue
        methods = panels.setdefault((one["dataset"], one["metric"]), {})
        name = table.methods[one["method"]]
        method = methods.setdefault(name, Method(name, {}, one["paper"]))
        method.dots[one[by]] = Dot(one["mean"], one["std"] if one["runs"] > 1 else None)
    if not panels:
        raise Mistake(
            f"no run of table {table.name!r} is on record there: name the folder of a checkout by "
            f"--results, or run it by `quatgraph reproduce {table.name}`"
        )
    made = [Panel(*key, list(methods.values())) for key, methods in panels.items()]
    ran = {method.name for panel in made for method in panel.methods}
    return TableDots(
        table.title,
        series,
        [name for one in table.columns if (name := table.methods[one]) in ran],
        made,
    )


def _write(axes: "Axes", text: str, place: float) -> None:
    """At the left end of a method's row."""
    axes.annotate(
        text, (0.02, place), xycoords=("axes fraction", "data"), va="center", size=SMALL, color=SOFT
    )


def _limits(methods: Sequence[Method], times: float) -> tuple[float, float]:
    """From the least to the greatest of what is drawn, with a margin."""
    ends = [times * value for method in methods for value in _ends(method)]
    margin = 0.06 * (max(ends) - min(ends)) or 1.0
    return min(ends) - margin, max(ends) + margin


def _ends(method: Method) -> Iterator[float]:
    yield from method.values
    for dot in method.dots.values():
        yield dot.mean - (dot.std or 0.0)
        yield dot.mean + (dot.std or 0.0)
