"""A table of the paper as bars: ours under each protocol or by each rule, beside the paper."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quatgraph.errors import Mistake
from quatgraph.plot.style import BLUE, INK, ORANGE, PALE, sheet
from quatgraph.reproduce.render import HEADS, cells, printed
from quatgraph.reproduce.table import PRINTED, PROTOCOLS, Table
from quatgraph.training.record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {"validation": BLUE, "honest": BLUE, "gin": ORANGE, "paper": ORANGE}
"""Of protocols and rules; any other is pale."""
BAR, GAP = 0.145, 0.09
"""Inches of a bar, and between the methods."""
MARK = 1.8
"""Points of the line that marks the paper's number."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One of our numbers; fractions."""

    mean: float
    std: float | None
    """None for a single run."""


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    bars: dict[str, Bar]
    """By protocol or rule; what was not run is missing."""
    paper: float | None


@dataclass(frozen=True, slots=True)
class Panel:
    dataset: str
    metric: str
    methods: list[Method]


@dataclass(frozen=True, slots=True)
class TableBars:
    title: str
    series: dict[str, str]
    """What protocols or rules are called in print."""
    panels: list[Panel]

    def draw(self) -> "Figure":
        metrics = list(dict.fromkeys(panel.metric for panel in self.panels))
        datasets = list(dict.fromkeys(panel.dataset for panel in self.panels))
        found = {(panel.dataset, panel.metric): panel for panel in self.panels}
        heights = [self._height(found[dataset, metrics[0]]) for dataset in datasets]
        figure = sheet(sum(heights) + 0.16 * len(heights) + 0.75)
        grid = figure.subplots(
            len(datasets),
            len(metrics),
            squeeze=False,
            sharex="col",
            sharey="row",
            height_ratios=heights,
        )
        for row, dataset in enumerate(datasets):
            for column, metric in enumerate(metrics):
                axes = grid[row, column]
                self._draw_panel(axes, found[dataset, metric])
                axes.set_title(dataset if column == 0 else "", fontweight="bold", pad=2)
        for column, metric in enumerate(metrics):
            name, times, _ = PRINTED[metric]
            last = grid[-1, column]
            last.set_xlabel(f"test {name}{' (%)' if times == 100 else ''}, mean ± std over runs")
            last.set_xlim(0, 1.02 * self._end(metric))
        self._draw_key(figure)
        return figure

    def _end(self, metric: str) -> float:
        """The largest number that is drawn."""
        methods = [m for panel in self.panels if panel.metric == metric for m in panel.methods]
        ours = [bar.mean + (bar.std or 0.0) for m in methods for bar in m.bars.values()]
        return PRINTED[metric][1] * max(*ours, *(m.paper or 0.0 for m in methods))

    def _height(self, panel: Panel) -> float:
        return len(panel.methods) * (BAR * len(self.series) + GAP)

    def _draw_panel(self, axes: "Axes", panel: Panel) -> None:
        _, times, _ = PRINTED[panel.metric]
        step = 1 / (len(self.series) + GAP / BAR)
        for number, name in enumerate(self.series):
            shift = step * (number - (len(self.series) - 1) / 2)
            ran = [(place + shift, m.bars[name]) for place, m in _placed(panel) if name in m.bars]
            axes.barh(
                [at for at, _ in ran],
                [times * bar.mean for _, bar in ran],
                height=step * 0.92,
                color=COLOURS.get(name, PALE),
                label=name,
            )
            spread = [(at, bar.mean, bar.std) for at, bar in ran if bar.std is not None]
            axes.errorbar(
                [times * mean for _, mean, _ in spread],
                [at for at, _, _ in spread],
                xerr=[times * std for _, _, std in spread],
                fmt="none",
                ecolor=INK,
                elinewidth=0.8,
                capsize=1.7,
            )
            for at, bar in ran:
                axes.annotate(
                    _said(bar, panel.metric),
                    (1.02, at),
                    xycoords=("axes fraction", "data"),
                    va="center",
                    fontsize=6.5,
                )
        known = [(place, m.paper) for place, m in _placed(panel) if m.paper is not None]
        half = step * (len(self.series) + 0.4) / 2
        axes.vlines(
            [times * value for _, value in known],
            [place - half for place, _ in known],
            [place + half for place, _ in known],
            color=INK,
            linewidth=MARK,
            label="the paper",
        )
        axes.set_yticks(range(len(panel.methods)), [method.name for method in panel.methods])
        axes.set_ylim(len(panel.methods) - 0.5, -0.5)
        axes.tick_params(length=0)
        for side in ("left", "bottom"):
            axes.spines[side].set_visible(False)
        axes.grid(axis="x")

    def _draw_key(self, figure: "Figure") -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        signs: list[Any] = [
            Patch(color=COLOURS.get(name, PALE), label=said) for name, said in self.series.items()
        ]
        signs.append(Line2D([], [], color=INK, linewidth=MARK, label="the paper's number"))
        figure.legend(
            handles=signs, loc="outside upper left", ncols=len(signs), title=self.title,
            alignment="left", title_fontproperties={"weight": "bold", "size": 9},
            handlelength=1.2, borderpad=0, columnspacing=1.4,
        )  # fmt: skip


def table_bars(table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()) -> TableBars:
    """What a table has of our own runs; the same numbers as ``reproduce`` prints."""
    by = "rule" if table.rules else "protocol"
    series = {str(name): f"ours, protocol {name}" for name in PROTOCOLS}
    if table.rules:
        series = {rule: HEADS[rule].replace("`", "") for rule in table.rules}
    panels: dict[tuple[str, str], dict[str, Method]] = {}
    for one in cells(table, records, only):
        if not one["runs"] or math.isnan(one["mean"]):
            continue
        methods = panels.setdefault((one["dataset"], one["metric"]), {})
        name = table.methods[one["method"]]
        method = methods.setdefault(name, Method(name, {}, one["paper"]))
        method.bars[one[by]] = Bar(one["mean"], one["std"] if one["runs"] > 1 else None)
    if not panels:
        raise Mistake(
            f"no run of table {table.name!r} is on record there: name the folder of a checkout by "
            f"--results, or run it by `quatgraph reproduce {table.name}`"
        )
    made = [Panel(*key, list(methods.values())) for key, methods in panels.items()]
    return TableBars(table.title, series, made)


def _placed(panel: Panel) -> list[tuple[int, Method]]:
    return list(enumerate(panel.methods))


def _said(bar: Bar, metric: str) -> str:
    mean = printed(bar.mean, metric)
    return mean if bar.std is None else f"{mean} ± {printed(bar.std, metric)}"
