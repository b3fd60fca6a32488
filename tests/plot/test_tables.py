"""Tables as dots: what is drawn is what the cells hold."""

import dataclasses
from typing import Any

import pytest
from crossvalidated import TABLE, honest, published
from matplotlib.container import ErrorbarContainer

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.plot.style import digest, render_figure, style
from quatgraph.plot.tables import Dot, Method, Panel, TableDots, table_dots
from quatgraph.presets import Protocol, preset
from quatgraph.reproduce.table import load_table
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.training.record import RunRecord

RECORDS = published([[0.5, 0.75], [0.75, 0.25]]) + honest([(0.5, 0.5), (0.5, 1.0)])


def linked(protocol: Protocol, seed: int, mrr: float, hits: float) -> RunRecord:
    """A run of SimQGNN on CoDEx-S."""
    config = configs.build(LinkConfig, preset("link/codex-s-simqgnn", protocol)).identity()
    metrics = {"test/mrr": mrr, "test/hits@10": hits, "valid/merit": mrr}
    others: dict[str, Any] = {
        "task": "link",
        "dataset": "codex-s",
        "method": "simqgnn",
        "seed": seed,
        "config": config,
        "config_digest": configs.digest(config),
    }
    return dataclasses.replace(RECORDS[0], metrics=metrics, protocol=protocol, **others)


def dots_of(axes: Any) -> dict[str, list[float]]:
    """Where the dots of each series stand, from left to right."""
    return {
        str(group.get_label()): group.lines[0].get_xdata().tolist()
        for group in axes.containers
        if isinstance(group, ErrorbarContainer)
    }


def spread_of(axes: Any, series: str) -> list[float]:
    """The ends of the first error bar of a series."""
    group = next(one for one in axes.containers if one.get_label() == series)
    ends: list[float] = group.lines[2][0].get_segments()[0][:, 0].tolist()
    return ends


def papers_of(axes: Any) -> list[float]:
    marks = [line for line in axes.lines if line.get_label() == "the paper's number"]
    return [float(mark.get_xdata()[0]) for mark in marks]


def test_every_rule_is_a_dot_with_its_spread_and_the_paper_is_another_mark() -> None:
    made = table_dots(TABLE, RECORDS)
    (panel,) = made.panels
    assert (panel.dataset, panel.metric) == ("mutag", "test/accuracy")
    (method,) = panel.methods
    spread = pytest.approx(0.125 * 2**0.5)
    assert (method.name, method.paper) == ("QGNN", 0.9259)
    assert method.dots["best-per-fold"] == Dot(0.75, 0.0)
    assert (method.dots["gin"].mean, method.dots["gin"].std) == (0.625, spread)
    assert method.dots["validation"].mean == 0.75
    with style():
        (axes,) = made.draw().axes
    assert dots_of(axes) == {"best-per-fold": [75], "gin": [62.5], "validation": [75]}
    assert spread_of(axes, "gin") == pytest.approx([62.5 - 12.5 * 2**0.5, 62.5 + 12.5 * 2**0.5])
    assert papers_of(axes) == pytest.approx([92.59])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["QGNN"]
    assert axes.get_title(loc="left") == "mutag"


def test_the_axis_spans_what_is_drawn_and_does_not_begin_at_zero() -> None:
    with style():
        (axes,) = table_dots(TABLE, RECORDS).draw().axes
    left, right = axes.get_xlim()
    lowest, highest = 75 - 25 * 2**0.5, 75 + 25 * 2**0.5  # the spread of `validation`
    assert lowest - 5 < left < lowest
    assert highest < right < highest + 5


def test_a_table_of_two_metrics_has_a_panel_for_each_and_a_single_run_no_spread() -> None:
    records = [linked("paper", 0, 0.5, 0.25)]
    made = table_dots(load_table("link"), records)
    assert [panel.metric for panel in made.panels] == ["test/mrr", "test/hits@10"]
    assert made.panels[0].methods[0].dots == {
        "paper": Dot(0.5, None),
        "honest": Dot(0.5, None),  # chosen among the same runs
    }
    with style():
        figure = made.draw()
    left, right = figure.axes
    assert dots_of(left) == {"paper": [0.5], "honest": [0.5]}
    assert dots_of(right) == {"paper": [25], "honest": [25]}
    assert spread_of(right, "paper") == [25, 25]
    titles = [axes.get_title(loc="left") for axes in (left, right)]
    assert titles == ["codex-s, MRR", "codex-s, Hits@10"]
    assert figure.get_supxlabel().startswith("test MRR and Hits@10 (%), mean")


def test_the_axis_is_cut_before_a_method_that_is_far_below_all_others() -> None:
    good, fair = (
        Method(name, {"paper": Dot(mean, 0.01)}, None) for name, mean in (("a", 0.9), ("b", 0.85))
    )
    poor = Method("c", {"paper": Dot(0.6, 0.01)}, None)
    assert Panel("d", "test/accuracy", [poor, good, fair]).split_far() == ([fair, good], [poor])
    middling = Method("c", {"paper": Dot(0.84, 0.01)}, None)
    near, far = Panel("d", "test/accuracy", [middling, good, fair]).split_far()
    assert (near, far) == ([middling, fair, good], [])


def test_a_method_with_one_number_among_the_others_stays_on_the_axis() -> None:
    good = Method("a", {"paper": Dot(0.9, 0.01)}, None)
    torn = Method("b", {"paper": Dot(0.6, 0.01), "honest": Dot(0.88, 0.01)}, None)
    others = [Method(name, {"paper": Dot(0.9, 0.01)}, None) for name in ("c", "d")]
    near, far = Panel("d", "test/accuracy", [good, torn, *others]).split_far()
    assert (torn in near, far) == (True, [])


def test_a_method_off_the_axis_shows_its_numbers_and_one_that_was_not_run_says_so() -> None:
    good = Method("a", {"paper": Dot(0.9, 0.01)}, 0.91)
    fair = Method("b", {"paper": Dot(0.88, 0.01)}, None)
    poor = Method("c", {"paper": Dot(0.6, 0.01)}, 0.55)
    panels = [
        Panel("x", "test/accuracy", [good, fair, poor]),
        Panel("y", "test/accuracy", [good, fair]),
    ]
    with style():
        left, right = TableDots("t", {"paper": "ours"}, ["a", "b", "c"], panels).draw().axes
    assert [text.get_text() for text in left.texts] == [
        "\N{LEFTWARDS ARROW} 55.00",
        "\N{LEFTWARDS ARROW} 60.00",
    ]
    assert [text.get_text() for text in right.texts] == ["not run"]
    assert left.get_xlim()[0] > 85


def test_what_was_not_run_is_left_out_and_may_be_chosen() -> None:
    made = table_dots(TABLE, RECORDS, ["qgnn"])
    assert [method.name for panel in made.panels for method in panel.methods] == ["QGNN"]
    with pytest.raises(UserError, match="no run of table 'tiny' is recorded"):
        table_dots(TABLE, RECORDS, ["ptc"])
    with pytest.raises(UserError, match="has no 'qgn'; did you mean 'qgnn'"):
        table_dots(TABLE, RECORDS, ["qgn"])


def test_an_svg_is_the_same_each_time_and_another_for_other_numbers() -> None:
    made, other = table_dots(TABLE, RECORDS), table_dots(TABLE, RECORDS[:2])
    assert render_figure(made, ".svg") == render_figure(table_dots(TABLE, RECORDS), ".svg")
    assert digest(made) != digest(other)
