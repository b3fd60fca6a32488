"""A pair of frames as a graph."""

from pathlib import Path

import pytest

from quatgraph.data.node import ReadOptions, from_any, read
from quatgraph.errors import UserError

PARTS = ("train", "train", "valid", "test")
NODES = {
    "id": [10 * k for k in range(8)],
    "label": [k % 2 for k in range(8)],
    "split": [PARTS[k % 4] for k in range(8)],
    "size": [1.5, None, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0],
    "colour": ["red", "blue"] * 4,
}
EDGES = {"source": [10 * k for k in range(8)], "target": [10 * (k * 3 % 8) for k in range(8)]}
LIBRARIES = ("pandas", "polars", "pyarrow")


def frame(library: str, columns: dict):
    module = pytest.importorskip(library)
    return module.table(columns) if library == "pyarrow" else module.DataFrame(columns)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_are_read_as_the_files_that_they_write(library, tmp_path: Path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(NODES).to_csv(tmp_path / "nodes.csv", index=False)
    pandas.DataFrame(EDGES).to_csv(tmp_path / "edges.csv", index=False)
    expected = read(tmp_path)
    pair = frame(library, NODES), frame(library, EDGES)
    data = from_any(pair)
    assert data.digest == expected.digest
    assert from_any(dict(zip(("nodes", "edges"), pair, strict=True))).digest == data.digest
    assert data.feature_names == ["size", "colour=blue", "colour=red"]
    assert data.label_names == ["0", "1"]
    assert data.label_values == [0, 1]
    assert data.encoding == expected.encoding
    assert "the frame of nodes: missing numbers become the median" in "".join(data.notes)


def test_the_index_of_pandas_holds_the_ids_unless_a_column_does():
    pandas = pytest.importorskip("pandas")
    nodes, edges = pandas.DataFrame(NODES), pandas.DataFrame(EDGES)
    expected = from_any((nodes, edges))
    indexed = nodes.set_index("id")
    assert from_any((indexed, edges)).digest == expected.digest
    unnamed = indexed.rename_axis(None)
    data = from_any((unnamed, edges))
    assert data.digest == expected.digest
    assert data.notes[0] == (
        "the frame of nodes has no column 'id'; its unnamed index holds the ids"
    )
    named = ReadOptions(id="paper")
    assert from_any((indexed.rename_axis("paper"), edges), named).digest == expected.digest


def test_nodes_without_ids_are_numbered():
    polars = pytest.importorskip("polars")
    nodes = polars.DataFrame(NODES).drop("id")
    data = from_any((nodes, polars.DataFrame({"source": [0, 1], "target": [1, 2]})))
    assert data.node_ids == [str(k) for k in range(8)]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


def test_labels_keep_their_own_values():
    pandas = pytest.importorskip("pandas")
    labels = [True, False, None, True, False, True, False, True]
    made = from_any((pandas.DataFrame(NODES | {"label": labels}), pandas.DataFrame(EDGES)))
    assert (made.label_names, made.label_values) == (["false", "true"], [False, True])
    assert made.y.tolist() == [1, 0, -1, 1, 0, 1, 0, 1]
    floats = [2.0, 1.0, float("nan"), 2.0, 1.0, 2.0, 1.0, 1.0]
    made = from_any((pandas.DataFrame(NODES | {"label": floats}), pandas.DataFrame(EDGES)))
    assert (made.label_names, made.label_values) == (["1", "2"], [1.0, 2.0])
    assert int(made.y[2]) == -1


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ({"id": [0] * 8}, {}, r"^row 1 \(counted from 0\) of the frame of nodes repeats the node"),
        ({"label": None}, {}, "the frame of nodes has no column 'label', its columns are id, spl"),
        (
            {},
            {"target": [7] * 8},
            r"^row 0 \(counted from 0\) of the frame of edges has an edge",
        ),
        ({}, {"weight": [-1] * 8}, "of the frame of edges has the negative weight -1"),
        ({}, {"weight": [None] * 8}, "of the frame of edges has 'nan' in column 'weight'; write a"),
        ({"size": [float("inf")] * 8}, {}, "of the frame of nodes has 'inf' in column 'size'"),
        ({"split": ["later"] * 8}, {}, "has the unknown split 'later'"),
    ],
)
def test_a_mistake_in_a_frame_has_its_row(nodes, edges, words):
    pandas = pytest.importorskip("pandas")
    made = [
        pandas.DataFrame({key: cells for key, cells in columns.items() if cells is not None})
        for columns in (NODES | nodes, EDGES | edges)
    ]
    with pytest.raises(UserError, match=words):
        from_any(tuple(made))


def test_both_tables_must_be_frames():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(UserError, match=r"^the frame of edges must be a pandas or Polars"):
        from_any((pandas.DataFrame(NODES), [(0, 10)]))
