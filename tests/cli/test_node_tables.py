"""Node tables with column names of one's own, on the command line."""

import csv
import io
import json
from pathlib import Path

import pytest
from commands import assert_user_error, call

QUICK = ["--set", "train.epochs=3", "--set", "model.hidden_quats=1", "--set", "train.lr=0.05"]
NAMES = {"id": "paper_id", "label": "topic", "split": "fold"}
NAMES |= {"source": "from", "target": "to", "weight": "w"}
COLUMNS = [word for role, name in NAMES.items() for word in ("--set", f"data.{role}={name}")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A graph as a European spreadsheet writes it."""
    path = tmp_path / "papers"
    path.mkdir()
    parts = ("train", "train", "valid", "test")
    rows = [
        f"p{k};{'xy'[k % 2]};{parts[k % 4]};{k},5;{('red', 'blue', '')[k % 3]}" for k in range(24)
    ]
    (path / "nodes.csv").write_text("\n".join(["paper_id;topic;fold;price;colour", *rows]))
    edges = [f"p{k};p{(k + 2) % 24};0,{k + 1}" for k in range(24)]
    (path / "edges.csv").write_text("\n".join(["from;to;w", *edges]))
    return path


def test_columns_are_set_by_name_and_what_was_inferred_is_reported(
    folder: Path, tmp_path: Path
) -> None:
    out = str(tmp_path / "model")
    trained = call("train", "node", "--data", str(folder), *COLUMNS, *QUICK, "--out", out)
    assert trained.exit_code == 0, trained.stderr
    for words in (
        "text columns are one-hot encoded: 'colour' (2 categories)",
        "missing categories become zeros: 'colour' (8 rows)",
        "numbers are read with decimal commas: 'price'",
        "'w' is read with decimal commas",
    ):
        assert words in trained.stderr
    predicted = call("predict", out, "--node", "p3")
    (row,) = csv.DictReader(io.StringIO(predicted.stdout))
    assert row["id"] == "p3"
    assert row["prediction"] in ("x", "y")


def test_a_new_table_is_predicted_with_what_was_learned(folder: Path, tmp_path: Path) -> None:
    out, new = str(tmp_path / "model"), tmp_path / "new"
    call("train", "node", "--data", str(folder), *COLUMNS, *QUICK, "--out", out)
    new.mkdir()
    rows = [{"paper_id": 1, "price": 2.5, "colour": "mauve"}, {"paper_id": 2, "colour": "red"}]
    (new / "nodes.json").write_text(json.dumps(rows))
    (new / "edges.jsonl").write_text('{"from": 1, "to": 2, "w": 1}')
    predicted = call("predict", out, str(new), "--json")
    assert predicted.exit_code == 0, predicted.stderr
    assert [json.loads(line)["id"] for line in predicted.stdout.splitlines()] == ["1", "2"]
    assert "missing numbers become the median of their column: 'price' (1 row)" in predicted.stderr
    assert "become zeros: 'colour' ('mauve' in 1 row)" in predicted.stderr


def test_statistics_take_the_same_settings(folder: Path) -> None:
    counted = call("data", "stats", str(folder), *COLUMNS, "--json")
    assert counted.exit_code == 0, counted.stderr
    found = json.loads(counted.stdout)
    assert (found["nodes"], found["features"], found["classes"]) == (24, 3, 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["data.label=topik"], "has no column 'topik', which data.label names; did you mean 'to"),
        (["data.lable=topic"], "unknown key 'data.lable'; did you mean 'data.label'?"),
        (["data.weight=cost"], "has no column 'cost', which data.weight names; its columns are"),
        (["data.label=3"], "data.label must be text, got 3"),
    ],
)
def test_a_misspelt_column_is_a_mistake(
    settings: list[str], words: str, folder: Path, tmp_path: Path
) -> None:
    changes = [word for setting in settings for word in ("--set", setting)]
    out = str(tmp_path / "model")
    refused = call("train", "node", "--data", str(folder), *COLUMNS, *changes, "--out", out)
    assert_user_error(refused, words)
    assert not (tmp_path / "model" / "card.json").exists()


def test_formats_of_nodes_are_listed() -> None:
    listed = call("data", "formats", "node").stdout
    for suffix in (".csv", ".tsv", ".json", ".jsonl", ".gz", ".xz", ".parquet", "features.npz"):
        assert suffix in listed
