"""Tables on the command line: their cells, what is on record, and what a search may be told."""

import json
from pathlib import Path

import pytest
from commands import assert_user_error, call
from crossvalidated import honest, published

from quatgraph import presets
from quatgraph.config import override
from quatgraph.reproduce import run as running
from quatgraph.reproduce import table as tables
from quatgraph.training.record import append_records


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_methods_without_a_preset_are_shown_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables.Table, "preset_of", lambda *_: None)
    result = call("reproduce", "graph", "--only", "pscn", "--only", "mutag", "--device", "cpu")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[2:] == [
        "| mutag | PSCN | 92.63 ± 4.21 | not run | not run | not run |  |  |  |"
    ]
    assert list(tmp_path.iterdir()) == []


def test_each_rule_is_an_object_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curve, valid = [[0.5, 0.75]] * 10, [(0.5, 0.25)] * 10
    append_records(tmp_path / "results" / "records" / "graph-mutag.jsonl", published(curve))
    append_records(tmp_path / "results" / "records" / "graph-mutag.jsonl", honest(valid))
    # All is on record, so no data is needed.
    monkeypatch.delenv("QUATGRAPH_DATA", raising=False)
    only = ("--only", "mutag", "--only", "qgnn")
    result = call("reproduce", "graph", *only, "--json", "--device", "cpu")
    cells = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(cell["rule"], cell["protocol"], cell["mean"], cell["runs"]) for cell in cells] == [
        ("best-per-fold", "paper", 0.75, 10),
        ("gin", "paper", 0.75, 10),
        ("validation", "honest", 0.25, 10),
    ]
    assert [cell["paper"] for cell in cells] == pytest.approx([0.9259] * 3)


@pytest.fixture
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither files nor a network."""
    for place in ("QUATGRAPH_DATA", "QUATGRAPH_CACHE"):
        monkeypatch.setenv(place, str(tmp_path / "nowhere"))


ROW = "| mutag | QGNN | 92.59 ± 3.59 | 75.00 "


@pytest.mark.usefixtures("_no_data")
def test_what_is_on_record_is_shown_where_the_rest_cannot_be_run(tmp_path: Path) -> None:
    record = tmp_path / "results" / "records" / "graph-mutag.jsonl"
    append_records(record, published([[0.5, 0.75]] * 10))
    before = record.read_text()
    asked = ("reproduce", "graph", "--only", "mutag", "--only", "qgnn", "--device", "cpu")
    tried, shown = call(*asked), call(*asked, "--recorded")
    assert tried.exit_code == 2
    assert tried.stderr.startswith("quatgraph: cannot run what is not recorded yet: ")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert tried.stdout == shown.stdout
    assert shown.stdout.splitlines()[2].startswith(ROW)
    assert record.read_text() == before


@pytest.mark.usefixtures("_no_data")
def test_a_folder_without_records_is_told_and_no_table_is_shown() -> None:
    asked = ("reproduce", "graph", "--only", "mutag", "--only", "qgnn", "--device", "cpu")
    assert_user_error(call(*asked, "--recorded"), "results has no records", "with --results")
    tried = call(*asked)
    assert_user_error(tried, "cannot run what is not recorded yet: ")
    assert tried.stdout == ""


@pytest.mark.usefixtures("_no_data")
def test_a_name_that_a_table_lacks_is_a_mistake_and_no_table() -> None:
    for more in ([], ["--recorded"]):
        result = call("reproduce", "graph", "--only", "mutagg", *more, "--device", "cpu")
        assert_user_error(result, "has no 'mutagg'; did you mean 'mutag'?")


def test_both_metrics_of_table_3_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_missing", lambda *_, **__: iter(()))
    only = ("--only", "sacn", "--only", "codex-s")
    result = call("reproduce", "link", *only, "--device", "cpu")
    assert result.exit_code == 0
    _, _, *lines = result.stdout.splitlines()
    assert lines == ["| codex-s | SACN | .374 / 59.4 | not run |  | not run |  |  |  |"]
    cells = call("reproduce", "link", *only, "--json", "--device", "cpu").stdout.splitlines()
    assert [(one["metric"], one["paper"]) for one in map(json.loads, cells)] == [
        ("test/mrr", 0.374),
        ("test/hits@10", 0.594),
    ] * 2


@pytest.mark.parametrize(
    ("preset", "protocols"),
    [("graph/mutag-qgnn", "paper and honest"), ("link/codex-s-simqgnn", "paper")],
)
def test_a_search_chooses_its_protocols_itself(preset: str, protocols: str) -> None:
    result = call("search", preset, "--set", "protocol=honest", "--device", "cpu")
    assert_user_error(result, f"search always runs under {protocols}; do not set protocol")


@pytest.fixture
def tiny_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of one dataset, presets of three epochs, a grid of two."""
    table = tables.Table(
        name="node",
        title="Tiny",
        task="node",
        metric="test/accuracy",
        rows=["karate"],
        columns=["qgnn", "hgcn"],
        methods={"qgnn": "QGNN", "hgcn": "HGCN"},
        splits=1,
        seeds=2,
        paper={"karate": {"hgcn": 0.5}},
    )
    monkeypatch.setattr(tables, "load_table", lambda name: table)

    def short(name: str, protocol: presets.Protocol = "paper") -> dict:
        return override(presets.preset(name, protocol), ["train.epochs=3"])

    for module in (running, tables):
        monkeypatch.setattr(module, "preset", short)
    rules = {"searched": ["honest"], "grid": {"train.lr": [0.1, 0.2]}}
    monkeypatch.setattr(running, "protocols", lambda task: rules)


@pytest.mark.usefixtures("tiny_table")
def test_a_table_is_reproduced_and_printed(tmp_path: Path) -> None:
    result = call("reproduce", "node", "--device", "cpu")
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].startswith("| dataset | method | published |")
    assert lines[2].startswith("| karate | QGNN |")
    assert "(2)" in lines[2]
    assert "| 50.00 | not run |" in lines[3]
    records = (tmp_path / "results" / "records" / "node-karate.jsonl").read_text()
    again = call("reproduce", "node", "--device", "cpu")
    assert again.stdout == result.stdout
    assert (tmp_path / "results" / "records" / "node-karate.jsonl").read_text() == records


@pytest.mark.usefixtures("tiny_table")
def test_the_cells_of_a_table_are_objects_for_programs() -> None:
    result = call("reproduce", "node", "--json", "--results", "r", "--only", "qgnn")
    cells = [json.loads(line) for line in result.stdout.splitlines()]
    assert [cell["protocol"] for cell in cells] == ["paper", "honest"]
    for cell in cells:
        assert cell.keys() >= {
            *("task", "dataset", "method", "protocol", "metric", "mean"),
            *("std", "runs", "configs", "paper", "seconds"),
        }
        assert (cell["task"], cell["dataset"], cell["method"]) == ("node", "karate", "qgnn")
        assert 0 <= cell["mean"] <= 1
        assert (cell["runs"], cell["paper"]) == (2, None)


@pytest.mark.usefixtures("tiny_table")
def test_a_table_that_runs_out_of_time_shows_what_there_is() -> None:
    result = call("reproduce", "node", "--max-minutes", "0", "--device", "cpu")
    assert result.exit_code == 0
    assert result.stderr == "quatgraph: time limit reached; repeat the command to continue\n"
    assert "| karate | QGNN |  | not run |" in result.stdout


def test_an_unknown_table_or_cell_is_a_mistake(tmp_path: Path) -> None:
    assert_user_error(call("reproduce", "nodee"), "no table 'nodee'; did you mean 'node'?")
    assert_user_error(call("reproduce", "node", "--only", "cra"), "did you mean 'cora'?")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny_table")
def test_a_search_runs_once() -> None:
    first = call("search", "node/karate-qgnn", "--device", "cpu")
    assert (first.exit_code, first.stdout) == (0, "2 runs added to results/records\n")
    again = call("search", "node/karate-qgnn", "--device", "cpu")
    assert (again.exit_code, again.stdout) == (0, "0 runs added to results/records\n")


def test_an_unknown_preset_cannot_be_searched(tmp_path: Path) -> None:
    assert_user_error(call("search", "karate"), "no task or preset 'karate'")
    assert list(tmp_path.iterdir()) == []
