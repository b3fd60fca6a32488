"""The curves of a model: of the configuration in the bundle, or a sentence where there are none."""

import dataclasses
import math
import statistics
from pathlib import Path
from typing import Any

import karate
import pytest
import rings
from commands import assert_user_error, call
from on_cpu import train_in_folder

from quatgraph.plot.curves import OTHERS, Curves, Panel, curves, mean_curve
from quatgraph.plot.style import render_figure, style
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.job import Job
from quatgraph.tasks.node import NODE

HOSTILE = "a$x^2$ [bold]b[/] \x1b[31m\u202e\0\n \u4e2d <&>"


def trained(folder: Path, *lrs: float, **values: Any) -> Job:
    candidates = [karate.config_of(**{"train.lr": lr}, **values) for lr in lrs]
    return train_in_folder(NODE, candidates, folder)


def lines_of(panel: Panel) -> dict[str, Any]:
    """The drawn lines by their labels."""
    with style():
        figure = Curves([panel]).draw()
    (axes,) = figure.axes
    handles, labels = axes.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def test_the_curve_is_the_mean_of_the_runs_that_the_bundle_was_chosen_from(tmp_path: Path) -> None:
    job = trained(tmp_path, 0.001, 0.1, seeds=3)
    (panel,) = curves(tmp_path, metrics=["loss"]).panels
    kept = [r for r in job.records if r.config_digest == job.chosen.config_digest]
    other = [r for r in job.records if r.config_digest != job.chosen.config_digest]
    assert len(kept) == len(other) == 3
    drawn = lines_of(panel)
    assert list(drawn) == [OTHERS, "valid", f"selected epoch {job.chosen.best_epoch}"]
    for label, runs in (("valid", kept), (OTHERS, other)):
        each = zip(*(run.curves["valid/loss"] for run in runs), strict=True)
        assert list(drawn[label].get_ydata()) == pytest.approx([sum(v) / 3 for v in each])
    spread = [
        statistics.stdev(v) for v in zip(*(r.curves["valid/loss"] for r in kept), strict=True)
    ]
    assert mean_curve(panel.curves["valid"])[1] == pytest.approx(spread)
    assert drawn[OTHERS].get_linewidth() < drawn["valid"].get_linewidth()


def test_other_candidates_have_one_entry_in_the_legend(tmp_path: Path) -> None:
    trained(tmp_path, 0.001, 0.01, 0.1)
    made = curves(tmp_path)
    assert [len(panel.others) for panel in made.panels] == [2, 2]
    with style():
        figure = made.draw()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()].count(OTHERS) == 1


def test_a_single_candidate_has_nothing_in_the_background(tmp_path: Path) -> None:
    trained(tmp_path, 0.05)
    (panel,) = curves(tmp_path, metrics=["loss"]).panels
    assert panel.others == []
    assert OTHERS not in lines_of(panel)


def test_the_epochs_of_all_models_that_answer_together_are_marked(tmp_path: Path) -> None:
    graphs, folder = rings.collection(tmp_path), tmp_path / "m"
    job = train_in_folder(GRAPH, [rings.config_of()], folder, data=graphs)
    panel = curves(folder, metrics=["accuracy"]).panels[0]
    assert panel.selected == [run.best_epoch for run in job.records]
    assert list(lines_of(panel)["selected epochs"].get_xdata()) == panel.selected


def test_candidates_that_diverged_are_not_drawn(tmp_path: Path) -> None:
    trained(tmp_path, 1e20, 0.05)
    (panel,) = curves(tmp_path, metrics=["loss"]).panels
    assert panel.others == []
    assert all(math.isfinite(v) for line in panel.curves["valid"] for v in line.values)


@pytest.mark.parametrize("changes", [{"train.select": "last"}, {"train.epochs": 1}])
def test_a_single_evaluation_is_no_curve(changes: dict[str, Any], tmp_path: Path) -> None:
    trained(tmp_path / "m", 0.05, **changes)
    result = call("plot", str(tmp_path / "m"), "--out", str(tmp_path / "m.png"))
    assert_user_error(
        result, "were evaluated only once, so there is no curve; train with more epochs"
    )
    assert not (tmp_path / "m.png").exists()


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_names_are_drawn_as_text(ending: str) -> None:
    from quatgraph.plot.curves import Curve

    panel = Panel(HOSTILE, "loss", {"valid": [Curve([1, 2], [0.5, 0.4])]}, [], [1])
    with style():
        (axes,) = Curves([panel]).draw().axes
    shown = r"a$x^2$ [bold]b[/] \x1b[31m\u202e\x00\n " + "\u4e2d <&>"
    assert axes.get_title(loc="left") == shown
    assert axes.title.get_parse_math() is False
    content = render_figure(Curves([panel]), ending)
    if ending == ".svg":
        assert r"a$x^2$ [bold]b[/] \x1b[31m\u202e\x00\n" in content.decode()


def test_a_long_run_of_other_candidates_does_not_press_the_curve_flat(tmp_path: Path) -> None:
    trained(tmp_path, 0.001, 0.1)
    (panel,) = curves(tmp_path, metrics=["loss"]).panels
    wild = dataclasses.replace(panel.others[0], values=[1e6] * len(panel.others[0].values))
    with style():
        (axes,) = Curves([dataclasses.replace(panel, others=[wild])]).draw().axes
    assert axes.get_ylim()[1] < 10
