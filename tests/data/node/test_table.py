"""The columns of a table of nodes: named by the user, or by their usual names."""

import csv
import gzip
import json
from pathlib import Path

import pytest

from quatgraph.data.node import ReadOptions, read, statistics
from quatgraph.errors import UserError

PARTS = ("train", "train", "valid", "test")
NODES = [
    {"paper": f"p{k}", "topic": "xy"[k % 2], "fold": PARTS[k % 4], "size": k} for k in range(8)
]
EDGES = [{"from": f"p{k}", "to": f"p{(k + 1) % 8}", "w": k + 0.5} for k in range(8)]
NAMES = {"id": "paper", "label": "topic", "split": "fold"}
NAMES |= {"source": "from", "target": "to", "weight": "w"}
NAMED = ReadOptions(**NAMES)


def write_csv(path: Path, rows: list[dict]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def written(folder: Path, nodes: list[dict] = NODES, edges: list[dict] = EDGES) -> Path:
    write_csv(folder / "nodes.csv", nodes)
    write_csv(folder / "edges.csv", edges)
    return folder


def renamed(rows: list[dict], **names: str) -> list[dict]:
    return [{names.get(key, key): value for key, value in row.items()} for row in rows]


def test_columns_of_any_name_are_read_as_those_of_the_usual_name(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "usual").mkdir()
    own = read(written(tmp_path / "own"), NAMED)
    usual = written(
        tmp_path / "usual",
        renamed(NODES, paper="id", topic="label", fold="split"),
        renamed(EDGES, **{"from": "source", "to": "target", "w": "weight"}),
    )
    assert read(usual).digest == own.digest
    assert own.feature_names == ["size"]
    assert not any("nodes.csv" in note for note in own.notes)


@pytest.mark.parametrize("role", ["id", "label", "split", "source", "target", "weight"])
def test_a_misspelt_column_gets_a_suggestion(role, tmp_path):
    file = "nodes" if role in ("id", "label", "split") else "edges"
    wrong = ReadOptions(**NAMES | {role: NAMES[role] + "e"})
    with pytest.raises(UserError) as caught:
        read(written(tmp_path), wrong)
    expected = f"{tmp_path / file}.csv has no column '{NAMES[role]}e', which data.{role} names"
    assert str(caught.value).startswith(expected)
    if len(NAMES[role]) > 1:
        assert str(caught.value).endswith(f"; did you mean {NAMES[role]!r}?")


@pytest.mark.parametrize(("node", "label"), [("node_id", "class"), ("ID", "Label"), ("Node", "Y")])
def test_usual_names_are_found_and_reported(node, label, tmp_path):
    rows = renamed(NODES, paper=node, topic=label, fold="split")
    data = read(written(tmp_path, rows, renamed(EDGES, w="weight")))
    assert data.label_names == ["x", "y"]
    assert data.notes[0] == (
        f"the columns of {tmp_path / 'nodes.csv'} are read by name: {node!r} as id, {label!r} as "
        "label"
    )


def test_a_drawn_split_is_reported_and_so_is_one_called_dev(tmp_path):
    rows = [{"id": k, "label": "xy"[k % 2]} for k in range(10)]
    drawn = read(written(tmp_path, rows, [{"source": 0, "target": 1}]), split_seed=3)
    assert drawn.notes[-1] == (
        f"{tmp_path / 'nodes.csv'} has no split: drawn with seed 3, 6 nodes for train, 2 for valid "
        "and 2 for test"
    )
    split = [row | {"split": ("train", "DEV", "test")[row["id"] // 4]} for row in rows]
    again = read(written(tmp_path, split, [{"source": 0, "target": 1}]))
    assert again.notes == [*drawn.notes[:-1], "the split 'DEV' is read as valid"]
    assert again.val_mask.sum() == 4


def test_two_columns_that_may_be_the_label_are_refused(tmp_path):
    rows = [row | {"class": "a", "y": "b"} for row in renamed(NODES, paper="id")]
    with pytest.raises(UserError, match="has the columns 'class', 'y', and each may be the label"):
        read(written(tmp_path, rows))
    data = read(written(tmp_path, rows), label="topic", split="fold")
    assert data.label_names == ["x", "y"]
    assert any("the label is 'topic', and the features include 'class'" in n for n in data.notes)


@pytest.mark.parametrize(
    ("nodes", "edges", "remedy"),
    [
        ([{"paper": "p0"}], EDGES, "its columns are paper; name one of them 'id'"),
        ([{"node": "p0", "NODE_ID": "p0"}], EDGES, "and each may be the id; rename all but one"),
        (
            [{"id": "p0"}],
            [{"a": "x", "b": "y", "c": "z"}],
            "which is no edge; name the columns source, target and optionally weight",
        ),
    ],
)
def test_settings_are_advised_for_training_only(nodes, edges, remedy, tmp_path):
    path = written(tmp_path, nodes, edges)
    with pytest.raises(UserError) as mistake:
        read(path, labels_needed=False)
    assert str(mistake.value).endswith(remedy)
    labelled = [row | {"label": "x"} for row in nodes]
    with pytest.raises(UserError, match=r"--set data\."):
        read(written(tmp_path, labelled, edges))


def test_the_index_that_pandas_writes_is_left_out_or_the_id(tmp_path):
    with_ids = [{"": k} | row for k, row in enumerate(renamed(NODES, paper="id", topic="label"))]
    data = read(written(tmp_path, with_ids), split="fold")
    assert data.feature_names == ["size"]
    assert data.notes[0].endswith("the first column has no name and is left out")
    without = renamed(NODES, paper="", topic="label")
    data = read(written(tmp_path, without), split="fold")
    assert data.node_ids == [row["paper"] for row in NODES]
    assert data.notes[0].endswith("has no column 'id'; its unnamed index holds the ids")


def test_nodes_and_edges_may_have_any_format(tmp_path):
    expected = read(written(tmp_path), NAMED)
    for file, rows in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{file}.csv").unlink()
        with gzip.open(tmp_path / f"{file}.json.gz", "wt") as stream:
            json.dump(rows, stream)
    assert read(tmp_path, NAMED).digest == expected.digest
    for file, rows in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{file}.json.gz").unlink()
        (tmp_path / f"{file}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert read(tmp_path, NAMED).digest == expected.digest


def test_parquet_is_read_as_csv_is(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    expected = read(written(tmp_path), NAMED)
    for file, rows in (("nodes", NODES), ("edges", EDGES)):
        (tmp_path / f"{file}.csv").unlink()
        pandas.DataFrame(rows).to_parquet(tmp_path / f"{file}.parquet")
    data = read(tmp_path, NAMED)
    assert data.digest == expected.digest
    assert statistics(data)["edges"] == 8


def test_a_table_in_two_formats_is_refused(tmp_path):
    written(tmp_path)
    (tmp_path / "nodes.jsonl").touch()
    with pytest.raises(UserError, match=r"holds nodes\.csv and nodes\.jsonl; keep one of the two"):
        read(tmp_path, NAMED)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([*NODES, NODES[2]], r"line 10 repeats the node id 'p2' of .*nodes\.csv line 4; list each"),
        ([*NODES, NODES[0] | {"paper": ""}], r"line 10 has no id"),
        (
            [*NODES, NODES[0] | {"paper": "z", "fold": "later"}],
            r"line 10 has the unknown split",
        ),
        ([*NODES, NODES[0] | {"paper": "z", "size": "x"}], r"line 10 has 'x' in column 'size'"),
        ([row | {"topic": ""} for row in NODES], r"no node in .* fill in the column 'topic'"),
    ],
)
def test_a_mistake_has_its_line(nodes, words, tmp_path):
    with pytest.raises(UserError, match=words):
        read(written(tmp_path, nodes), NAMED)


def test_a_mistake_in_an_object_has_its_line_and_key(tmp_path):
    written(tmp_path)
    (tmp_path / "nodes.csv").unlink()
    rows = [*NODES, NODES[0] | {"paper": "z", "size": [1, 2]}]
    (tmp_path / "nodes.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match=r"nodes\.jsonl line 9 has \[1, 2\] in column 'size'"):
        read(tmp_path, NAMED)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "nodes.csv is empty"),
        (b"paper,topic,fold\n", "nodes.csv lists no nodes"),
        (bytes(range(256)), "nodes.csv line 1 holds a NUL|line 1 is not UTF-8|line 2 is not UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is not UTF-8 text"),
        (b"PK\x03\x04\x14\0\x06\0", "NUL byte"),
        (b"paper,topic,topic\na,b,c\n", "two columns named 'topic'"),
    ],
)
def test_a_file_that_is_no_table_is_refused(content, words, tmp_path):
    written(tmp_path)
    (tmp_path / "nodes.csv").write_bytes(content)
    with pytest.raises(UserError, match=words):
        read(tmp_path, NAMED)


def test_a_class_without_a_training_node_is_kept_and_reported(tmp_path):
    rows = [*NODES, {"paper": "z", "topic": "rare", "fold": "test", "size": 1}]
    data = read(written(tmp_path, rows), NAMED)
    assert data.label_names == ["rare", "x", "y"]
    assert int(data.test_mask.sum()) == 3
    (note,) = (note for note in data.notes if "rare" in note)
    assert note.endswith("its nodes count as errors, among them 33.3 % of the test nodes")


def test_decimal_commas_of_weights_are_reported(tmp_path):
    written(tmp_path)
    lines = [f"{row['from']};{row['to']};{str(row['w']).replace('.', ',')}" for row in EDGES]
    (tmp_path / "edges.csv").write_text("\n".join(["from;to;w", *lines]))
    data = read(tmp_path, NAMED)
    assert data.edge_weight.unique().tolist() == [row["w"] for row in EDGES]
    assert f"{tmp_path / 'edges.csv'}: 'w' is read with decimal commas" in data.notes


def test_a_label_of_the_training_features_stays_a_feature_in_new_data(tmp_path):
    rows = [row | {"class": k % 3} for k, row in enumerate(NODES)]
    trained = read(written(tmp_path, rows), NAMED)
    new = [{key: row[key] for key in ("paper", "size", "class")} for row in rows]
    data = read(written(tmp_path, new), NAMED, encoding=trained.encoding, labels_needed=False)
    assert data.feature_names == trained.feature_names == ["size", "class"]
