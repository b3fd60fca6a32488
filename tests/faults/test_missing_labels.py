"""Labels such as ``NA``: reported, and missing where the person says so."""

import csv
import json
from pathlib import Path
from shlex import quote, split
from typing import Any

import pytest
import reviews
import rings
from commands import assert_user_error, call

from quatgraph import config as configs
from quatgraph.data import graph, node, text
from quatgraph.presets import parts, preset
from quatgraph.tasks import TASKS
from quatgraph.training.record import read_records

ROOT = Path(__file__).parents[2]

MARKS = ["NA", "N/A", "NaN", "nan", "null", "None", "?", "-"]
NODES = [("train", "valid", "test")[k % 3] for k in range(24)]


def nodes(path: Path, mark: str) -> Path:
    """A graph in which every fourth label is the mark."""
    path.mkdir(exist_ok=True)
    rows = [(k, mark if k % 4 == 3 else "xy"[k % 2], part, k) for k, part in enumerate(NODES)]
    with (path / "nodes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("id", "label", "split", "size"), *rows])
    ring = "".join(f"{k},{(k + 1) % len(NODES)}\n" for k in range(len(NODES)))
    (path / "edges.csv").write_text(ring)
    return path


def graphs(path: Path, mark: str) -> Path:
    made = rings.lines()
    for one in made[::5]:
        one["label"] = mark
    return rings.written(path.with_suffix(".jsonl"), made)


def tu_folder(path: Path, mark: str) -> Path:
    """Pairs of nodes, as many graphs."""
    path.mkdir(exist_ok=True)
    labels = [mark if k % 5 == 0 else "xy"[k % 2] for k in range(30)]
    (path / "D_A.txt").write_text("".join(f"{2 * k + 1}, {2 * k + 2}\n" for k in range(30)))
    (path / "D_graph_indicator.txt").write_text("".join(f"{k + 1}\n" * 2 for k in range(30)))
    # A blank line is no label, so an empty one has quotes.
    (path / "D_graph_labels.txt").write_text("".join(f'"{label}"\n' for label in labels))
    return path


def texts(path: Path, mark: str) -> Path:
    rows = [
        (text, mark if place % 5 == 4 else label)
        for place, (text, label) in enumerate(reviews.REVIEWS)
    ]
    return reviews.written(path.with_suffix(".csv"), rows)


def read_texts(path: Path, missing: list[str] | None = None) -> text.Documents:
    return text.read(path, text.TextOptions(missing=missing or ()))


READERS: dict[str, tuple[Any, Any, str]] = {
    "node": (nodes, node.read, "6 nodes"),
    "graph": (graphs, graph.read, "6 graphs"),
    "tu": (tu_folder, graph.read, "6 graphs"),
    "text": (texts, read_texts, "12 documents"),
}
every_reader = pytest.mark.parametrize("kind", READERS)


@every_reader
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_a_class_that_is_reported_with_a_way_out(
    kind: str, mark: str, tmp_path: Path
) -> None:
    write, read, count = READERS[kind]
    data = read(write(tmp_path / "data", mark))
    assert mark in data.label_names
    assert data.notes[-1] == (
        f"labels that may mean missing are read as classes: {mark!r} ({count}); --set "
        f"{quote(f'data.missing={mark}')} makes them missing"
    )


@every_reader
@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_that_is_set_is_as_good_as_an_empty_label(
    kind: str, mark: str, tmp_path: Path
) -> None:
    write, read, _ = READERS[kind]
    empty = read(write(tmp_path / "data", ""))
    named = read(write(tmp_path / "data", mark), missing=[mark])
    assert named.digest == empty.digest
    assert not any("data.missing" in note for note in (*named.notes, *empty.notes))


def test_numbers_are_sorted_by_value_once_the_marks_are_out(tmp_path: Path) -> None:
    path = nodes(tmp_path / "data", "?")
    table = (path / "nodes.csv").read_text().replace(",x,", ",10,").replace(",y,", ",9,")
    (path / "nodes.csv").write_text(table)
    assert node.read(path).label_names == ["10", "9", "?"]
    assert node.read(path, missing=["?"]).label_names == ["9", "10"]


def test_whole_numbers_of_the_text_format_can_be_missing(tmp_path: Path) -> None:
    ring = "3 {}\n0 2 1 2\n0 2 0 2\n0 2 0 1\n"
    path = tmp_path / "graphs.txt"
    path.write_text("6\n" + "".join(ring.format(label) for label in (1, 2, -1, 1, 2, -1)))
    assert graph.read(path).label_names == ["-1", "1", "2"]
    known = graph.read(path, missing=["-1"])
    assert (known.label_names, known.y.tolist()) == (["1", "2"], [0, 1, -1, 0, 1, -1])


def test_only_the_exact_value_is_missing_and_several_are_one_note(tmp_path: Path) -> None:
    path = nodes(tmp_path / "data", "NA")
    table = (path / "nodes.csv").read_text().replace("\n3,NA,", "\n3,?,")
    (path / "nodes.csv").write_text(table)
    absent, note = node.read(path, missing=["na"]).notes
    assert absent == "no node has the label 'na' of data.missing"
    assert note == (
        "labels that may mean missing are read as classes: '?' (1 node), 'NA' (5 nodes); "
        "--set 'data.missing=na,?,NA' makes them missing"
    )
    assert node.read(path, labels_needed=False).notes == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        *((f"data.missing={mark}", mark) for mark in MARKS),
        ("data.missing=NA,?", "NA,?"),
        ("data.missing=nan,-,N/A", "nan,-,N/A"),
        ("data.missing=-1", -1),
        ('data.missing="not known,NA"', "not known,NA"),
    ],
)
@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_the_setting_is_read_as_it_is_written(setting: str, value: Any, task: str) -> None:
    values = configs.override({"data": {"path": "here"}}, [setting])
    config = configs.build(TASKS[task].config, values)
    assert config.data.missing == value
    assert (
        configs.build(TASKS[task].config, json.loads(json.dumps(configs.to_dict(config)))) == config
    )
    assert config.identity()["data"]["missing"] == value


@pytest.mark.parametrize("name", ["node/cora-qgnn", "graph/mutag-qgnn", "text/mr-textqgnn"])
def test_without_it_a_configuration_is_what_the_records_call_it(name: str) -> None:
    task, dataset, _ = parts(name)
    config = configs.build(TASKS[task].config, preset(name, "paper"))
    files = (ROOT / "results" / "records").glob(f"{task}-{dataset}*")
    digests = {record.config_digest for file in files for record in read_records(file)}
    assert configs.digest(config.identity()) in digests


@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_training_counting_and_evaluating_leave_the_marked_ones_out(
    task: str, tmp_path: Path
) -> None:
    write, _, count = READERS[task]
    path, out = write(tmp_path / "data", "NA"), tmp_path / "model"
    small = {
        "node": ["--set", "train.epochs=2", "--set", "train.lr=0.1"],
        "graph": rings.options(),
        "text": reviews.options(),
    }[task]
    note = f"read as classes: 'NA' ({count}); --set data.missing=NA makes them missing"
    for command in (["data", "stats"], ["train", task, "--out", str(tmp_path / "x"), "--data"]):
        options = small if command[0] == "train" else []
        done = call(*command, str(path), *options)
        assert done.exit_code == 0
        assert done.stderr.count(note) == 1
    missing = ["--set", "data.missing=NA"]
    both = call("data", "stats", str(path), "--set", "data.missing=NA,?")
    assert "has the label '?' of data.missing\n" in both.stderr
    counted = call("data", "stats", str(path), *missing)
    assert both.stdout == counted.stdout
    assert (counted.exit_code, "data.missing" in counted.stderr) == (0, False)
    assert "classes   2\n" in counted.stdout or "classes    2\n" in counted.stdout
    trained = call("train", task, "--data", str(path), "--out", str(out), *small, *missing)
    assert (trained.exit_code, "data.missing" in trained.stderr) == (0, False)
    assert f"{count.split()[0]} more without a label" in trained.stdout
    assert call("evaluate", str(out)).exit_code == 0
    moved = path.rename(tmp_path / f"moved{path.suffix}")
    assert call("evaluate", str(out), str(moved)).exit_code == 0
    answers = call("predict", str(out), str(moved))
    assert answers.exit_code == 0
    assert "p(NA)" not in answers.stdout
    assert "data.missing" not in answers.stderr


def rare(kind: str, path: Path) -> Path:
    """Data of which a single item has the label '?', so that it cannot be split."""
    if kind == "node":
        nodes(path, "x")
        table = (path / "nodes.csv").read_text().replace("1,y,valid", "1,?,valid")
        (path / "nodes.csv").write_text(table)
        return path
    if kind == "graph":
        made = rings.lines()
        made[0]["label"] = "?"
        return rings.written(path.with_suffix(".jsonl"), made)
    return reviews.written(path.with_suffix(".csv"), [("so so", "?"), *reviews.REVIEWS])


def test_a_mark_without_a_training_node_is_reported_with_a_way_out(tmp_path: Path) -> None:
    notes = node.read(rare("node", tmp_path / "data")).notes
    assert notes[-2].startswith("class '?' has no training node")
    assert notes[-1].endswith("--set 'data.missing=?' makes them missing")


@pytest.mark.parametrize("task", ["graph", "text"])
def test_a_mark_that_hinders_training_is_counted_and_refused_with_a_way_out(
    task: str, tmp_path: Path
) -> None:
    path = rare(task, tmp_path / "data")
    counted = call("data", "stats", str(path))
    assert counted.exit_code == 0
    assert "may mean missing are read as classes: '?' (1 " in counted.stderr
    refused = call("train", task, "--data", str(path), "--out", str(tmp_path / "model"))
    assert_user_error(refused, "or leave the class out with --set 'data.missing=?'")
    setting = split(refused.stderr.split(" out with ")[1])
    again = call("data", "stats", str(path), *setting)
    assert (again.exit_code, "missing" in again.stderr) == (0, False)
