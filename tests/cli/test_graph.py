"""Graph classification as commands: from a person's file to answers, stopped and resumed."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import assert_user_error, call
from rings import lines, options, without, written

import quatgraph
from quatgraph.training.record import read_records

SHORT = [*options(), "--set", "model.normalization=none", "--device", "cpu"]
IDS = [line["id"] for line in lines()]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a command writes by default lands in the test's own folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return written(tmp_path / "mine.jsonl", lines())


def last_object(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def rows_of(result: Any) -> list[dict[str, str]]:
    assert result.exit_code == 0, result.stderr
    return list(csv.DictReader(io.StringIO(result.stdout)))


@pytest.mark.usefixtures("mine")
def test_ones_own_graphs_are_trained_evaluated_and_asked() -> None:
    # What is not set is tried: here two rates of dropout.
    some = [*options("model.dropout"), "--fast", "--device", "cpu", "--out", "model"]
    trained = call("train", "graph", "--data", "mine.jsonl", *some)
    assert (trained.exit_code, trained.stderr) == (0, "")
    result = trained.stdout.splitlines()
    own = "each fold with what is best on its validation data"
    assert re.fullmatch(rf"test accuracy \d+\.\d\d ± \d+\.\d\d % over 3 folds, {own}", result[0])
    assert re.fullmatch(
        r"(selected from|the best of) 2 configurations of \w+ on validation data: dropout 0\.\d",
        result[1],
    )
    assert result[2] == "graphs: 30 in 2 classes, 50.0 % in the largest"
    assert result[3] == "features: the tag of each node among 3"
    combined = "models; their predictions are combined"
    assert re.fullmatch(rf"saved (3 {combined}|6 {combined}: .* % .*, .* % .*)", result[4])
    assert result[5] == "predict with: quatgraph predict model"

    evaluated = call("evaluate", "model", "--json")
    assert evaluated.exit_code == 0
    *metrics, report = map(json.loads, evaluated.stdout.splitlines())
    again = {row["metric"]: row for row in metrics}
    assert report["report"]["num_items"] == 30  # each graph in the fold that tests it
    assert again.keys() == {
        f"{part}/{name}" for part in ("valid", "test") for name in ("accuracy", "loss", "macro-f1")
    }
    for row in again.values():
        assert row["computed"] == pytest.approx(row["recorded"], abs=1e-4)

    rows = rows_of(call("predict", "model"))
    known = ["label", "split"]
    assert list(rows[0]) == ["id", "prediction", "probability", *known, "p(chain)", "p(ring)"]
    assert [row["id"] for row in rows] == IDS


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("world")
    data = written(place / "mine.jsonl", lines())
    result = last_object(
        call("train", "graph", "--data", str(data), *SHORT, "--out", f"{place}/m", "--json")
    )
    assert (result["runs"], result["configs"]) == (3, 1)
    return f"{place}/m"


def test_some_graphs_are_answered_for(model: str) -> None:
    asked = ["--graph", "ring-8", "--graph", "chain-1"]
    assert [row["id"] for row in rows_of(call("predict", model, *asked))] == ["ring-8", "chain-1"]
    answered = call("predict", model, *asked, "--json", "--out", "answers.jsonl")
    assert answered.stdout == "2 predictions in answers.jsonl\n"
    rows = [json.loads(line) for line in Path("answers.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["ring-8", "chain-1"]
    assert_user_error(
        call("predict", model, "--graph", "chain-11", "--graph", "chain-99"),
        "there is no graph 'chain-99'; did you mean 'chain-9'?",
    )


def test_new_graphs_are_answered_for_and_strange_ones_are_told(model: str, tmp_path: Path) -> None:
    new = without(lines()[:3], "label")
    written(tmp_path / "new.jsonl", new)
    plain = call("predict", model, "new.jsonl")
    assert plain.stderr == ""
    known = rows_of(call("predict", model))[:3]
    for row, expected in zip(rows_of(plain), known, strict=True):
        assert row["id"] == expected["id"]
        # The same but for rounding.
        assert float(row["p(ring)"]) == pytest.approx(float(expected["p(ring)"]), abs=2e-6)
    new[1]["node_labels"][0] = "Xe"
    written(tmp_path / "new.jsonl", new)
    strange = call("predict", model, "new.jsonl")
    assert [row["id"] for row in rows_of(strange)] == IDS[:3]
    assert strange.stderr == (
        "quatgraph: training never saw the tag 'Xe': such a node counts as one without a tag\n"
    )


def as_tu(folder: Path) -> str:
    """The graphs in the format of the TU collection, without tags."""
    folder.mkdir()
    graph_of, edges, start = [], [], 1
    for place, line in enumerate(lines(), 1):
        size = len(line["node_labels"])
        graph_of += [place] * size
        edges += [(start + a, start + b) for a, b in line["edges"]]
        start += size
    (folder / "R_A.txt").write_text("".join(f"{a}, {b}\n" for a, b in edges))
    (folder / "R_graph_indicator.txt").write_text("".join(f"{graph}\n" for graph in graph_of))
    labels = "".join(f"{line['label']}\n" for line in lines())
    (folder / "R_graph_labels.txt").write_text(labels)
    return folder.name


def as_dgcnn(path: Path) -> str:
    text = ["30"]
    for line in lines():
        size = len(line["node_labels"])
        text.append(f"{size} {len(line['label'])}")
        for node in range(size):
            others = [b for a, b in line["edges"] if a == node]
            text.append(" ".join(map(str, (0, len(others), *others))))
    path.write_text("\n".join(text))
    return path.name


@pytest.mark.parametrize("form", ["tu", "dgcnn"])
def test_other_formats_are_trained_and_asked_too(form: str, tmp_path: Path) -> None:
    data = as_tu(tmp_path / "R") if form == "tu" else as_dgcnn(tmp_path / "R.txt")
    trained = call("train", "graph", "--data", data, *SHORT)
    assert trained.exit_code == 0, trained.stderr
    assert "features: the degree of each node among 2" in trained.stdout
    assert trained.stdout.endswith("predict with: quatgraph predict quatgraph-runs/R\n")
    rows = rows_of(call("predict", "quatgraph-runs/R", data))
    assert [row["id"] for row in rows] == [str(place) for place in range(30)]
    words = ["p(chain)", "p(ring)"] if form == "tu" else ["p(4)", "p(5)"]
    assert list(rows[0])[3:] == ["label", "split", *words]


def test_graphs_without_a_label_take_no_part_and_are_answered_for(tmp_path: Path) -> None:
    some = [line | ({"label": None} if place > 27 else {}) for place, line in enumerate(lines())]
    written(tmp_path / "mine.jsonl", some)
    trained = call("train", "graph", "--data", "mine.jsonl", *SHORT, "--out", "m")
    assert (
        "graphs: 28 in 2 classes, 50.0 % in the largest; 2 more without a label" in trained.stdout
    )
    assert len(rows_of(call("predict", "m"))) == 30


def test_the_sample_has_a_preset_that_is_learned_in_a_moment() -> None:
    result = last_object(call("train", "graph/cycles-qgnn", "--device", "cpu", "--json"))
    assert result["bundle"] == "quatgraph-runs/graph/cycles-qgnn-honest"
    assert result["mean"] > 0.95
    assert result["runs"] == 10
    assert {row["prediction"] for row in rows_of(call("predict", result["bundle"]))} == {
        "cycle",
        "tree",
    }


@pytest.mark.usefixtures("mine")
def test_runs_of_several_seeds_are_told_as_such() -> None:
    result = call("train", "graph", "--data", "mine.jsonl", *SHORT, "--seeds", "2", "--out", "m")
    assert "% over 3 folds and 2 seeds\n" in result.stdout


def test_a_preset_without_validation_data_is_trained_and_evaluated() -> None:
    paper = ["--protocol", "paper", "--set", "train.epochs=1", "--out", "m"]
    trained = call("train", "graph/cycles-qgnn", *paper, "--device", "cpu")
    assert "saved 10 models; their predictions are combined" in trained.stdout
    lines = call("evaluate", "m").stdout.splitlines()
    *metrics, meaning = lines[: lines.index("")]
    assert [line.split()[0] for line in metrics] == ["test/accuracy", "test/loss"]
    assert meaning.startswith("each the mean of the 10 models on their own folds, all with the ")


@pytest.mark.usefixtures("mine")
def test_time_that_is_up_and_resumed_ends_as_if_nothing_had_been() -> None:
    first = ["train", "graph", "--data", "mine.jsonl", *SHORT, "--set", "model.dropout=0.2"]
    whole = last_object(call(*first, "--out", "whole", "--json"))
    stopped = call(*first, "--out", "m", "--max-minutes", "0")
    assert stopped.stdout == (
        "stopped after 1 of 4 epochs: repeat the command with --resume --out m\n"
    )
    assert_user_error(call(*first, "--out", "m"), "m already holds ")
    resumed = last_object(call(*first, "--out", "m", "--resume", "--json"))
    assert resumed["metrics"] == whole["metrics"]
    assert (resumed["mean"], resumed["std"]) == (whole["mean"], whole["std"])
    kept = [read_records(Path(name) / "records.jsonl") for name in ("whole", "m")]
    assert [r.metrics for r in kept[0]] == [r.metrics for r in kept[1]]


@pytest.mark.usefixtures("mine")
def test_ctrl_c_keeps_what_is_done_and_resume_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    long = ["train", "graph", "--data", "mine.jsonl", *SHORT, "--set", "train.epochs=60", "--json"]
    whole = last_object(call(*long, "--out", "whole"))
    environment = os.environ | {
        "PYTHONPATH": str(Path(quatgraph.__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "quatgraph", *long, "--out", "m"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = time.monotonic() + 60
    while not (tmp_path / "m").exists() and process.poll() is None and time.monotonic() < limit:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    printed, result = process.communicate(timeout=60)
    assert (process.returncode, printed) == (130, "")
    assert result.startswith("quatgraph: interrupted")
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["checkpoint.safetensors"]
    resumed = last_object(call(*long, "--out", "m", "--resume"))
    assert resumed["metrics"] == whole["metrics"]
    assert resumed["mean"] == whole["mean"]


@pytest.mark.usefixtures("mine")
def test_data_that_was_moved_is_named_again_and_changed_data_is_refused(tmp_path: Path) -> None:
    assert call("train", "graph", "--data", "mine.jsonl", *SHORT, "--out", "m").exit_code == 0
    (tmp_path / "mine.jsonl").rename("moved.jsonl")
    assert_user_error(call("evaluate", "m"), "no longer at", "mine.jsonl")
    assert call("evaluate", "m", "moved.jsonl").exit_code == 0
    assert len(rows_of(call("predict", "m", "moved.jsonl"))) == 30
    written(tmp_path / "mine.jsonl", lines(28))
    changed = "'mine' is no longer what the model was trained on"
    assert_user_error(call("evaluate", "m"), changed)
    assert_user_error(call("predict", "m"), changed)
    assert_user_error(call("evaluate", "m", "mine.jsonl"), changed)


@pytest.mark.realdata
def test_a_published_preset_is_trained_and_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path / "cache"))
    short = ["--set", "train.epochs=1", "--set", "model.hidden_quats=2", "--device", "cpu"]
    result = last_object(call("train", "graph/mutag-qgnn", *short, "--out", "m", "--json"))
    assert result["runs"] == 10
    assert call("evaluate", "m").exit_code == 0
    assert len(rows_of(call("predict", "m"))) == 188


def test_an_own_split_gives_one_model_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["train", "train", "valid", "train", "test"]
    listed = [line | {"part": words[place % 5]} for place, line in enumerate(lines())]
    written(Path("mine.jsonl"), listed)
    train = ["train", "graph", "--data", "mine.jsonl", *options(), "--device", "cpu"]
    unnamed = call(*train, "--out", "folds")
    assert (unnamed.exit_code, unnamed.stderr.count("mine.jsonl: not used: 'part'\n")) == (0, 1)
    trained = call(*train, "--set", "data.split=part", "--out", "m")
    assert trained.exit_code == 0
    assert "gives its own split instead of folds: 18 for train, 6 for valid, 6 for test" in (
        trained.stderr
    )
    assert re.match(r"test accuracy \d+\.\d\d %\n", trained.stdout)
    assert "folds" not in trained.stdout
    evaluated = call("evaluate", "m", "--json")
    assert evaluated.exit_code == 0
    for row in map(json.loads, evaluated.stdout.splitlines()[:-1]):
        assert row["computed"] == pytest.approx(row["recorded"], abs=1e-5)
    predicted = call("predict", "m", "mine.jsonl", "--json")
    assert len(predicted.stdout.splitlines()) == 30
