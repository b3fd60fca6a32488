"""A table of the paper as a dot plot: our results and the paper's numbers.

Every dataset and metric has a panel with its own axis.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from quatgraph.errors import UserError
from quatgraph.plot.style import BLUE, FAINT, INK, ORANGE, SOFT, new_figure
from quatgraph.reproduce.render import RULE_NAMES, cells, format_metric
from quatgraph.reproduce.table import METRIC_FORMATS, PROTOCOLS, Table
from quatgraph.training.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.8
"""Width of a page on GitHub, in inches; figures are not scaled down there."""
COLUMNS = 4
"""Panels per row."""
LINE = 0.13
"""Height per dot, in inches; a method has a dot per series and one for the paper's number."""
NAME_WIDTH = 18
"""Characters per line of a method's name."""
TEXT, SMALL = 9, 7.5
"""Font sizes in points."""
GAP = 0.3
"""A method is cut off if this share of the panel's span to its left neighbour is empty."""
STYLES = {
    "validation": (BLUE, "o"),
    "honest": (BLUE, "o"),
    "gin": (ORANGE, "s"),
    "paper": (ORANGE, "s"),
}
"""Colour and marker by protocol or rule."""
DEFAULT_STYLE = (SOFT, "^")
PUBLISHED: dict[str, Any] = {
    "marker": "D", "markersize": 4.5, "color": INK, "markerfacecolor": "white", "linestyle": "none",
    "label": "the paper's number",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Dot:
    """One of our results, as fractions."""

    mean: float
    std: float | None
    """None for a single run."""


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    dots: dict[str, Dot]
    """Our results by protocol or rule."""
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
        """The methods on the axis, and outliers far below all others, at most a third of them."""
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
    """Printed names of the protocols or rules."""
    methods: list[str]
    """The rows of every panel."""
    panels: list[Panel]

    def draw(self) -> "Figure":
        columns = min(COLUMNS, len(self.panels))
        rows = math.ceil(len(self.panels) / columns)
        height = max(LINE * (len(self.series) + 1), 0.33) * len(self.methods)
        figure = new_figure(rows * (height + 0.5) + 0.85, WIDTH)
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten()
        for axes, panel in zip(grid, self.panels, strict=False):
            self._draw_panel(axes, panel)
        for axes in grid[len(self.panels) :]:
            axes.set_visible(False)
        figure.supxlabel(f"{self._describe_metrics()}; each panel has its own axis", fontsize=TEXT)
        self._draw_legend(figure)
        return figure

    def _describe_metrics(self) -> str:
        metrics = dict.fromkeys(panel.metric for panel in self.panels)
        shown = " and ".join(
            f"{METRIC_FORMATS[m][0]}{' (%)' if METRIC_FORMATS[m][1] == 100 else ''}"
            for m in metrics
        )
        return f"test {shown}, mean ± standard deviation over runs"

    def _draw_panel(self, axes: "Axes", panel: Panel) -> None:
        from matplotlib.ticker import MaxNLocator

        name, scale, _ = METRIC_FORMATS[panel.metric]
        columns = min(COLUMNS, len(self.panels))
        several = len({one.metric for one in self.panels}) > 1
        axes.set_title(f"{panel.dataset}, {name}" if several else panel.dataset, size=TEXT + 1)
        near, far = panel.split_far()
        for method in near:
            if method.paper is not None:
                axes.plot(scale * method.paper, self._y(method.name), **PUBLISHED)
            for key, dot in method.dots.items():
                colour, marker = STYLES.get(key, DEFAULT_STYLE)
                axes.errorbar(
                    scale * dot.mean, self._y(method.name, key), xerr=scale * (dot.std or 0.0),
                    fmt=marker, color=colour, markersize=4.5, elinewidth=1.1, label=key,
                )  # fmt: skip
        for method in far:
            values = {key: dot.mean for key, dot in method.dots.items()}
            for series, value in ((None, method.paper), *values.items()):
                if value is not None:
                    text = f"\N{LEFTWARDS ARROW} {format_metric(value, panel.metric)}"
                    _write(axes, text, self._y(method.name, series))
        for row, missing in enumerate(self.methods):
            if missing not in {method.name for method in panel.methods}:
                _write(axes, "not run", row)
        axes.set_yticks(range(len(self.methods)), [fill(one, NAME_WIDTH) for one in self.methods])
        axes.set_ylim(len(self.methods) - 0.5, -0.5)
        axes.set_xlim(*_limits(near, scale))
        for row in range(1, len(self.methods)):
            axes.axhline(row - 0.5, color=FAINT, linewidth=0.8, zorder=0)
        axes.xaxis.set_major_locator(MaxNLocator(16 // columns, steps=[1, 2, 5, 10]))
        axes.tick_params(length=0, labelsize=TEXT)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")

    def _y(self, method: str, series: str | None = None) -> float:
        """The height of a dot within the row of its method; the paper's number is first."""
        line = 0 if series is None else 1 + list(self.series).index(series)
        return self.methods.index(method) - 0.5 + (line + 0.5) / (len(self.series) + 1)

    def _draw_legend(self, figure: "Figure") -> None:
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], **PUBLISHED)]
        for key, name in self.series.items():
            colour, marker = STYLES.get(key, DEFAULT_STYLE)
            handles.append(Line2D([], [], color=colour, marker=marker, markersize=4.5, label=name))
        figure.legend(
            handles=handles, loc="outside upper left", ncols=len(handles), title=self.title,
            alignment="left", title_fontproperties={"weight": "bold", "size": TEXT + 1},
            fontsize=TEXT, borderpad=0, handlelength=1.6, columnspacing=1.4,
        )  # fmt: skip


def table_dots(table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()) -> TableDots:
    """Our results in a table, the same numbers as ``reproduce`` prints."""
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
        raise UserError(
            f"no run of table {table.name!r} is recorded; run `quatgraph reproduce {table.name}` "
            "or pass the results folder of a checkout with --results"
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
    """Writes at the left end of a method's row."""
    axes.annotate(
        text, (0.02, place), xycoords=("axes fraction", "data"), va="center", size=SMALL, color=SOFT
    )


def _limits(methods: Sequence[Method], scale: float) -> tuple[float, float]:
    """The range of everything drawn, with a margin."""
    ends = [scale * value for method in methods for value in _ends(method)]
    margin = 0.06 * (max(ends) - min(ends)) or 1.0
    return min(ends) - margin, max(ends) + margin


def _ends(method: Method) -> Iterator[float]:
    yield from method.values
    for dot in method.dots.values():
        yield dot.mean - (dot.std or 0.0)
        yield dot.mean + (dot.std or 0.0)
