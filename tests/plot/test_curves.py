"""Learning curves: the mean over runs, its spread, and the epochs they belong to."""

import dataclasses
import statistics
from pathlib import Path

import pytest
from crossvalidated import honest, published, record

from quatgraph.errors import UserError
from quatgraph.plot.curves import Curve, curves, mean_curve
from quatgraph.plot.style import render_figure, style
from quatgraph.training.record import RunRecord, append_records

FOLDS = [[0.5, 0.75, 0.25], [0.5, 0.25, 0.75]]


def written(tmp_path: Path, records: list[RunRecord], name: str = "records.jsonl") -> Path:
    append_records(tmp_path / name, records)
    return tmp_path / name


def test_runs_are_drawn_as_their_mean_and_standard_deviation(tmp_path: Path) -> None:
    made = curves(written(tmp_path, published(FOLDS)))
    (panel,) = made.panels
    assert panel.group == "qgnn on mutag, paper"
    assert panel.curves == {"test": [Curve([1, 2, 3], fold) for fold in FOLDS]}
    with style():
        (axes,) = made.draw().axes
    (mean,) = axes.get_lines()
    assert list(mean.get_xdata()) == [1, 2, 3]
    assert list(mean.get_ydata()) == [50, 50, 50]
    (band,) = axes.collections
    heights = sorted(y for x, y in band.get_paths()[0].vertices if x == 2)
    deviation = 100 * statistics.stdev((0.75, 0.25))
    assert heights == pytest.approx([50 - deviation, 50 + deviation])
    assert axes.get_ylabel() == "test accuracy (%)"
    assert axes.get_title(loc="left").endswith(", mean and standard deviation of 2 runs")


def test_the_mean_is_over_epochs_that_all_runs_have(tmp_path: Path) -> None:
    shorter = dataclasses.replace(
        published([[0.25, 0.5]])[0], epochs_run=2, ensemble="other", split=1
    )
    made = curves(written(tmp_path, [published(FOLDS)[0], shorter]))
    mean, _ = mean_curve(made.panels[0].curves["test"])
    assert mean == Curve([1, 2], [0.375, 0.625])


def test_epochs_are_those_on_record(tmp_path: Path) -> None:
    kept = {"valid/mrr": [0.25, 0.5]}
    path = written(tmp_path, [record("honest", 0, curves=kept, curve_epochs=[10, 11])])
    assert curves(path).panels[0].curves["valid"] == [Curve([10, 11], [0.25, 0.5])]


def test_a_curve_that_skips_epochs_without_telling_which_is_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path, published([[0.25, 0.5]], epochs_run=10))
    with pytest.raises(UserError, match="lacks its epochs"):
        curves(path)


def test_a_mean_over_several_settings_is_told(tmp_path: Path) -> None:
    runs = published([[0.25, 0.5]], epochs_run=2)
    runs += published([[0.5, 0.5]], "model.num_layers=3", epochs_run=2, ensemble="f")
    (panel,) = curves(written(tmp_path, runs)).panels
    assert panel.group == "qgnn on mutag, paper, 2 configurations"


def test_metrics_are_panels_and_parts_are_lines(tmp_path: Path) -> None:
    kept = {
        "train/accuracy": [0.5, 1.0],
        "valid/accuracy": [0.5, 0.75],
        "valid/loss": [2.0, 1.0],
        "valid/merit": [0.0, 0.0],
    }
    path = written(tmp_path, [record("honest", 0, curves=kept, epochs_run=2)])
    made = curves(tmp_path)  # as the folder of a training
    assert [panel.metric for panel in made.panels] == ["accuracy", "loss"]
    with style():
        left, right = made.draw().axes
    assert left.get_legend_handles_labels()[1] == ["train", "valid", "selected epoch 1"]
    assert list(right.get_lines()[0].get_ydata()) == [2.0, 1.0]
    assert right.get_ylabel() == "valid loss"
    assert [panel.metric for panel in curves(path, metrics=["merit"]).panels] == ["merit"]
    with pytest.raises(UserError, match=r"no curve of 'lost'; did you mean 'loss'\?"):
        curves(path, metrics=["lost"])


def test_methods_are_rows_and_may_be_chosen(tmp_path: Path) -> None:
    records = published(FOLDS) + published(FOLDS, method="gin", ensemble="f")
    path = written(tmp_path, records + honest([(0.5, 0.5)], ensemble="g"))
    assert [panel.group for panel in curves(path).panels] == [
        "qgnn on mutag, paper",
        "gin on mutag, paper",
    ]
    (panel,) = curves(path, only=["gin", "mutag", "paper"]).panels
    assert panel.group == "gin on mutag, paper"
    with pytest.raises(UserError, match=r"no run in .* has the dataset, method or protocol 'ptc'"):
        curves(path, only=["ptc"])
    with pytest.raises(UserError, match="have no curves"):
        curves(path, only=["honest"])
    many = [dataclasses.replace(records[0], method=str(n), ensemble=str(n)) for n in range(9)]
    with pytest.raises(UserError, match="select some with --only"):
        curves(written(tmp_path, many, "many.jsonl"))


def test_an_svg_is_the_same_each_time(tmp_path: Path) -> None:
    path = written(tmp_path, published(FOLDS))
    assert render_figure(curves(path), ".svg") == render_figure(curves(path), ".svg")


def test_what_holds_no_records_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_text("not a record\n")
    (tmp_path / "empty.jsonl").write_text("")
    for name, said in [
        ("text.jsonl", r"line 1 of .*text\.jsonl is not a run record"),
        ("empty.jsonl", "has no run records"),
        ("missing.jsonl", "cannot read the records"),
        ("", r"it has no records\.jsonl"),
    ]:
        with pytest.raises(UserError, match=said):
            curves(tmp_path / name)
