"""Graphs as folders of arrays: they read as what was written, and damage is told in a sentence."""

from pathlib import Path

import numpy as np
import pytest
import torch

from quatgraph.data import node
from quatgraph.errors import UserError

TABLE = """id,label,split,age,city
a,x,train,31.5,Oslo
b,y,train,,Rome
c,x,valid,18,Rome
d,y,test,40,Oslo
e,,,7,Oslo
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A graph of tables with numbers, categories and an unlabelled node."""
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "nodes.csv").write_text(TABLE)
    (folder / "edges.csv").write_text("source,target,weight\na,b,2\nb,c,1\nd,a,0.5\ne,a,1\n")
    return folder


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """The least that a graph needs, and labels."""
    path = tmp_path / "arrays"
    path.mkdir()
    np.save(path / "edge_index.npy", np.array([[0, 1, 2, 3], [1, 0, 3, 2]]))
    np.save(path / "y.npy", np.array([4, 7, 4, 7]))
    return path


@pytest.mark.parametrize("name", ["karate", "tables"])
def test_a_packed_graph_is_the_graph_that_was_packed(
    name: str, folder: Path, tmp_path: Path
) -> None:
    graph = node.read(folder) if name == "tables" else node.load(name)
    node.write_packed(graph, tmp_path / "packed")
    packed = node.read(tmp_path / "packed")
    assert packed.digest == graph.digest
    for key in ("label_values", "label_type", "node_ids", "feature_names", "encoding", "directed"):
        assert packed[key] == graph[key], key
    assert packed.has_feature_names == graph.has_feature_names


@pytest.mark.realdata
def test_cora_keeps_its_ten_splits_in_arrays(tmp_path: Path) -> None:
    cora = node.load("cora")
    node.write_packed(cora, tmp_path / "cora")
    assert node.read(tmp_path / "cora").digest == cora.digest


def test_features_are_mapped_and_a_change_does_not_reach_the_file(
    folder: Path, tmp_path: Path
) -> None:
    node.write_packed(node.read(folder), tmp_path / "packed")
    before = (tmp_path / "packed" / "x.npy").read_bytes()
    node.read(tmp_path / "packed").x.zero_()
    assert (tmp_path / "packed" / "x.npy").read_bytes() == before


def test_a_split_is_given_by_node_ids_or_masks(arrays: Path) -> None:
    np.save(arrays / "train.npy", np.array([0, 1]))
    np.save(arrays / "valid.npy", np.array([2]))
    np.save(arrays / "test.npy", np.array([False, False, False, True]))
    graph = node.read(arrays)
    masks = torch.cat((graph.train_mask, graph.val_mask, graph.test_mask), dim=1)
    assert masks.int().argmax(dim=1).tolist() == [0, 0, 1, 2]
    assert graph.label_names == ["4", "7"]
    assert graph.notes == []


def test_arrays_come_before_tables_and_need_no_features(arrays: Path) -> None:
    (arrays / "nodes.csv").write_text("id,label\n")
    graph = node.read(arrays, labels_needed=False)
    assert graph.x is None
    assert graph.num_nodes == 4


@pytest.mark.parametrize("name", ["edge_index", "y", "x"])
def test_a_file_that_is_cut_short_is_named(name: str, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "packed"
    node.write_packed(node.read(folder), path)
    file = path / f"{name}.npy"
    for size in (0, 20, file.stat().st_size - 1):
        file.write_bytes(file.read_bytes()[:size].ljust(size, b"0"))
        with pytest.raises(UserError, match=rf"{name}\.npy is not a \.npy file.*cut short"):
            node.read(path)


def test_mistakes_in_arrays_are_named(arrays: Path) -> None:
    np.save(arrays / "train.npy", np.array([0, 9]))
    with pytest.raises(UserError, match=r"train\.npy names nodes outside 0\.\.3"):
        node.read(arrays)
    np.save(arrays / "train.npy", np.array([0, 1]))
    with pytest.raises(UserError, match=r"there is no .*valid\.npy"):
        node.read(arrays)
    np.save(arrays / "train.npy", np.array([0.5]))
    with pytest.raises(UserError, match="must hold node ids or a mask"):
        node.read(arrays)
    (arrays / "train.npy").unlink()
    np.save(arrays / "y.npy", np.array(["a", "b", "a", "b"]))
    with pytest.raises(UserError, match=r"y\.npy must hold numbers"):
        node.read(arrays)
    np.save(arrays / "y.npy", np.array([{}, 1, 2, 3], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=r"y\.npy is not a \.npy file of numbers"):
        node.read(arrays)
    np.save(arrays / "y.npy", np.array([0, 1, 0]))
    with pytest.raises(UserError, match=r"arrays: data\.edge_index names the node 3"):
        node.read(arrays)


NAMES = [
    ('{"num_nodes": 10000000000000}', r"num_nodes must be from 0 to 2\^31 - 1, got 10{13}"),
    ('{"num_nodes": -4}', "num_nodes must be from 0"),
    ('{"num_nodes": true}', "'num_nodes' is none of them"),
    ('{"num_nodes": 3}', r"y\.npy has 4 rows for 3 nodes"),
    ('{"node_ids": ["a", "b", "a", "c"]}', "node_ids must differ, but 'a' is there twice"),
]


@pytest.mark.parametrize(("text", "message"), NAMES)
def test_names_that_cannot_be_are_told_in_a_sentence(text: str, message: str, arrays: Path) -> None:
    (arrays / "names.json").write_text(text)
    with pytest.raises(UserError, match=message):
        node.read(arrays)


def test_arrays_without_edges_are_told_in_a_sentence(arrays: Path) -> None:
    (arrays / "edge_index.npy").unlink()
    for name in ("y", "x", "train"):
        (arrays / "y.npy").rename(arrays / f"{name}.npy")
        with pytest.raises(UserError, match=r"there is no .*/arrays/edge_index\.npy, which"):
            node.read(arrays)
        (arrays / f"{name}.npy").rename(arrays / "y.npy")


def test_an_array_beside_tables_is_no_graph_of_arrays(folder: Path) -> None:
    np.save(folder / "x.npy", np.zeros((5, 2)))
    assert node.read(folder).num_nodes == 5
    (folder / "nodes.csv").unlink()
    with pytest.raises(UserError, match=r"there is no file .*nodes\.csv"):
        node.read(folder)


def test_an_archive_of_arrays_is_no_array(arrays: Path) -> None:
    with (arrays / "x.npy").open("wb") as file:
        np.savez(file, x=np.zeros((4, 2)))
    with pytest.raises(UserError, match=r"x\.npy must hold one array"):
        node.read(arrays)


WRONG = {
    "edge_index": [
        (np.zeros((2, 4)), r"edge_index must be a tensor of whole numbers of shape \(2, edges\)"),
        (np.zeros((3, 4), dtype=int), r"whole numbers of shape \(2, edges\)"),
        (np.zeros(4, dtype=int), r"whole numbers of shape \(2, edges\)"),
        (np.int64(3), r"edge_index\.npy must hold one array with dimensions"),
        (np.zeros((2, 4), dtype=np.uint32), r"edge_index\.npy must .*not uint32; .*int64"),
        (np.zeros((2, 4), dtype=np.uint64), r"edge_index\.npy must .*not uint64; .*int64"),
    ],
    "x": [
        (np.zeros(4), r"x must be .* of shape \(nodes, features\)"),
        (np.float64(3), r"x\.npy must hold one array with dimensions"),
        (np.zeros((5, 2)), r"y\.npy has 4 rows for 5 nodes; .* num_nodes in names\.json"),
        (np.zeros((4, 2), dtype=complex), r"x\.npy must hold numbers .*not complex128"),
        (np.zeros((4, 2), dtype=">f4"), r"x\.npy must hold numbers in native byte order"),
    ],
    "y": [
        (np.zeros(4), "y must be a tensor of whole numbers"),
        (np.zeros((4, 2), dtype=int), r"y has shape \(4, 2\) but must be \(4,\)"),
    ],
    "edge_weight": [(np.ones(3), "one real number per edge")],
}


@pytest.mark.parametrize(("name", "case"), [(n, c) for n, cases in WRONG.items() for c in cases])
def test_arrays_of_a_wrong_type_or_shape_are_told_in_a_sentence(
    name: str, case: tuple[np.ndarray, str], arrays: Path
) -> None:
    np.save(arrays / f"{name}.npy", case[0])
    with pytest.raises(UserError, match=case[1]):
        node.read(arrays)


@pytest.mark.parametrize(
    "names", ["{", "[]", '{"nodes": []}', '{"num_nodes": "4"}', '{"label_names": 3}']
)
def test_names_that_are_no_names_are_a_mistake(names: str, arrays: Path) -> None:
    (arrays / "names.json").write_text(names)
    with pytest.raises(UserError, match=r"names\.json may hold the lists"):
        node.read(arrays)


def test_a_folder_with_files_is_not_written_over(arrays: Path, folder: Path) -> None:
    with pytest.raises(UserError, match="exists and is not an empty folder"):
        node.write_packed(node.read(folder), arrays)
    assert sorted(path.name for path in arrays.iterdir()) == ["edge_index.npy", "y.npy"]
