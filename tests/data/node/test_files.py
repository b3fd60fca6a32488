"""Node graphs from tables in a folder."""

from pathlib import Path

import numpy as np
import pytest
import torch

from quatgraph.data.node import read as read_folder
from quatgraph.errors import UserError

NODES = """id,label,split,size,age
a,cat,train,1,0.5
b,dog,train,2,1e3
c,cat,valid,3,-1
d,dog,test,4,0
e,,,5,0
"""
EDGES = "source,target\na,b\nb,c\nc,b\nd,d\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def strip_features(folder: Path) -> None:
    lines = [",".join(line.split(",")[:3]) for line in NODES.splitlines()]
    (folder / "nodes.csv").write_text("\n".join(lines))


def test_a_folder_becomes_a_graph_with_names(folder):
    data = read_folder(folder)
    assert data.x.tolist() == [[1, 0.5], [2, 1000], [3, -1], [4, 0], [5, 0]]
    assert data.x.dtype == torch.float32
    assert data.y.tolist() == [0, 1, 0, 1, -1]
    assert data.label_names == ["cat", "dog"]
    assert data.feature_names == ["size", "age"]
    assert data.node_ids == ["a", "b", "c", "d", "e"]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert data.get("edge_weight") is None
    assert data.train_mask.tolist() == [[True], [True], [False], [False], [False]]
    assert data.val_mask[:, 0].nonzero().tolist() == [[2]]
    assert data.test_mask[:, 0].nonzero().tolist() == [[3]]
    assert data.name == folder.name
    assert data.num_nodes == 5
    assert data.directed is False


def test_a_directed_graph_keeps_its_directions(folder):
    data = read_folder(folder, directed=True)
    assert data.edge_index.T.tolist() == [[0, 1], [1, 2], [2, 1]]
    assert data.directed is True


def test_edges_may_have_no_line_of_names_and_a_weight(folder):
    (folder / "edges.csv").write_text("a\tb\t2\nb\ta\t3\nb\tc\t1\nb\tc\t1.5\n")
    data = read_folder(folder)
    assert data.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]
    assert data.edge_weight.tolist() == [3, 3, 2.5, 2.5]


def test_a_graph_may_have_no_edges_if_its_file_says_so(folder):
    (folder / "edges.csv").write_text("")
    with pytest.raises(UserError, match=r"edges\.csv is empty; write an edge per line, or only"):
        read_folder(folder)
    (folder / "edges.csv").write_text("source,target,weight\n")
    assert read_folder(folder).edge_index.shape == (2, 0)


def test_without_features_x_is_none(folder):
    strip_features(folder)
    data = read_folder(folder)
    assert data.x is None
    assert data.feature_names == []
    assert data.num_nodes == 5


def test_features_may_come_as_arrays_dense_or_sparse(folder):
    strip_features(folder)
    x = np.array([[0, 1.5], [0, 0], [2, 0], [0, 0], [0, 3]])
    np.savez(folder / "features.npz", x=x)
    plain = read_folder(folder)
    assert plain.x.tolist() == x.tolist()
    assert plain.feature_names == ["x0", "x1"]
    row, column = x.nonzero()
    np.savez(
        folder / "features.npz",
        data=x[row, column],
        indices=column,
        indptr=np.searchsorted(row, np.arange(6)),
        shape=x.shape,
        format=b"csr",
    )
    assert read_folder(folder).digest == plain.digest


def test_the_digest_follows_the_content_and_not_the_place(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "nodes.csv").write_text(NODES.replace(",", ";"))
    (other / "edges.csv").write_text("a,b\nc,b\n")
    assert read_folder(other).digest == read_folder(folder).digest
    for changed in (NODES.replace("0.5", "0.6"), NODES.replace("cat", "cow"), NODES[:-8]):
        (other / "nodes.csv").write_text(changed)
        assert read_folder(other).digest != read_folder(folder).digest


def test_labels_that_are_numbers_are_sorted_by_value(folder):
    text = NODES.replace("cat", "10").replace("dog", "9")
    (folder / "nodes.csv").write_text(text)
    assert read_folder(folder).label_names == ["9", "10"]


def test_a_split_is_drawn_where_there_is_no_column(folder):
    lines = [f"{k},{'ab'[k % 2]}" for k in range(40)]
    (folder / "nodes.csv").write_text("id,label\n" + "\n".join(lines))
    (folder / "edges.csv").write_text("0,1\n")
    first, again, other = (read_folder(folder, split_seed=seed) for seed in (0, 0, 1))
    sizes = [int(first[key].sum()) for key in ("train_mask", "val_mask", "test_mask")]
    assert sizes == [24, 8, 8]
    assert torch.equal(first.train_mask, again.train_mask)
    assert not torch.equal(first.train_mask, other.train_mask)


def test_predicting_needs_no_labels(folder):
    (folder / "nodes.csv").write_text("id,size\na,1\nb,2\nc,3\nd,4\n")
    data = read_folder(folder, labels_needed=False)
    assert data.y.tolist() == [-1] * 4
    assert data.label_names == []
    assert not data.train_mask.any()
    (folder / "nodes.csv").write_text("id,size,label\na,1,x\nb,2,\nc,3,\nd,4,\n")
    assert read_folder(folder, labels_needed=False).label_names == ["x"]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ("", r"nodes\.csv is empty"),
        ("id,label\n", r"nodes\.csv lists no nodes"),
        (NODES.replace("id,", "key,"), "no column 'id', its columns are key, label, split, size"),
        (NODES.replace("label,", "kind,"), "no column 'label', its columns are id, kind"),
        (NODES.replace("age", "size"), "two columns named 'size'"),
        (NODES.replace(",age", ","), "column 5 of .* has no name"),
        (NODES.replace("b,dog", "a,dog"), r"nodes\.csv line 3 repeats the node id 'a'"),
        (NODES.replace("b,dog", ",dog"), r"nodes\.csv line 3 has no id"),
        (NODES.replace("1e3", "big"), r"nodes\.csv line 3 has 'big' in column 'age'"),
        (NODES.replace("1e3", "-inf"), r"line 3 has '-inf' in column 'age'; write a finite"),
        (NODES.replace("1e3", "1e39"), r"line 3 has '1e39' in column 'age'; write a finite"),
        (NODES.replace("valid", "vald"), r"line 4 .* split 'vald'; .* did you mean 'valid'"),
        (NODES.replace("cat", "").replace("dog", ""), r"no node in .*nodes\.csv has a label"),
        (
            NODES.replace("dog,train", "dog,test"),
            r"all training nodes in .* have one class",
        ),
        (NODES.replace("valid", "test"), "no labelled node for the valid part"),
        (NODES + "f\n", "line 7 has 1 cells"),
    ],
)
def test_a_mistake_in_nodes_is_reported_with_its_place(nodes, words, folder):
    (folder / "nodes.csv").write_text(nodes)
    with pytest.raises(UserError, match=words):
        read_folder(folder)


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ("source,target\na,b\nb,zz\n", r"edges\.csv line 3 has an edge to the unknown node 'zz'"),
        ("zz,a\n", r"line 1 has an edge to the unknown node 'zz'"),
        ("x,y,1\na,b,1\n", "line 1 has an edge to the unknown node 'x'"),
        ("a b\n", "has 1 column and no first line"),
        ("a,b,1,2\n", "has 4 columns"),
        ("a,b,1\nb,c,-1\n", r"line 2 has the negative weight -1"),
        ("a,b,1\nb,c,nan\n", r"line 2 has 'nan' in column 'weight'"),
        ("u,v,weight\na,b,1\nb,c,\n", r"line 3 has '' in column 'weight'"),
        ("a,b\nb\n", "line 2 has 1 cells"),
    ],
)
def test_a_mistake_in_edges_is_reported_with_its_place(edges, words, folder):
    (folder / "edges.csv").write_text(edges)
    with pytest.raises(UserError, match=words):
        read_folder(folder)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((4, 2))}, "has 4 rows but nodes.csv lists 5 nodes"),
        ({"x": np.zeros(5)}, "must be numbers of shape"),
        ({"x": np.array([["a"]] * 5)}, "must be numbers of shape"),
        ({"x": np.array([[{}]] * 5, dtype=object)}, "cannot be read as plain arrays"),
        ({"x": np.full((5, 2), np.nan)}, "no finite number in row 0, column 0"),
        ({"x": np.full((5, 2), 1e300)}, "no finite number in row 0, column 0"),
        ({"z": np.zeros((5, 2))}, "needs an array 'x', or 'data'"),
        (
            {"data": np.ones(1), "indices": np.array([3]), "indptr": np.arange(2), "shape": [1, 2]},
            "column number is outside",
        ),
        (
            {"data": np.ones(1), "indices": np.array([3]), "indptr": np.arange(2), "shape": [1]},
            "'shape' in .* two whole numbers",
        ),
    ],
)
def test_a_mistake_in_features_is_reported(arrays, words, folder):
    strip_features(folder)
    np.savez(folder / "features.npz", **arrays)
    with pytest.raises(UserError, match=words):
        read_folder(folder)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x80\x04.", b"PK\x03\x04broken"])
def test_a_features_file_that_is_no_archive_is_refused(content, folder):
    strip_features(folder)
    (folder / "features.npz").write_bytes(content)
    with pytest.raises(UserError, match="cannot be read as plain arrays"):
        read_folder(folder)


def test_a_single_array_in_place_of_an_archive_is_refused(folder):
    strip_features(folder)
    with (folder / "features.npz").open("wb") as file:
        np.save(file, np.zeros((5, 2)))
    with pytest.raises(UserError, match="cannot be read as plain arrays"):
        read_folder(folder)


def test_features_given_twice_are_refused(folder):
    np.savez(folder / "features.npz", x=np.zeros((5, 2)))
    with pytest.raises(UserError, match=r"'size' and .* keep one of the two"):
        read_folder(folder)


def test_missing_folders_and_files_are_named(folder):
    with pytest.raises(UserError, match=r"there is no file or folder .*nowhere"):
        read_folder(folder / "nowhere")
    (folder / "edges.csv").unlink()
    with pytest.raises(UserError, match=r"there is no file .*edges\.csv"):
        read_folder(folder)
    (folder / "nodes.csv").unlink()
    with pytest.raises(UserError, match=r"there is no file .*nodes\.csv"):
        read_folder(folder)


@pytest.mark.slow
def test_a_million_edges_are_read(tmp_path):
    random = np.random.default_rng(0)
    names = [f"node-{k}" for k in range(100_000)]
    lines = (f"{name},{'xyz'[k % 3]},{k}" for k, name in enumerate(names))
    (tmp_path / "nodes.csv").write_text("id,label,size\n" + "\n".join(lines))
    ends = random.integers(0, len(names), (1_000_000, 2)).tolist()
    (tmp_path / "edges.csv").write_text("\n".join(f"{names[s]},{names[r]},1" for s, r in ends))
    data = read_folder(tmp_path)
    assert data.num_nodes == 100_000
    assert data.edge_index.size(1) > 1_990_000
