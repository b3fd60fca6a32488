"""Folders in the layout of the Open Graph Benchmark, read in pieces of text."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from quatgraph.data import node
from quatgraph.data.node import ogb
from quatgraph.errors import UserError

NODES, EDGES = 50, 200
RANDOM = np.random.default_rng(0)
ENDS = RANDOM.integers(NODES, size=(EDGES, 2))
X = RANDOM.standard_normal((NODES, 3)).astype(np.float32)
Y = np.arange(NODES) % 4
PARTS = {"train": range(30), "valid": range(30, 40), "test": range(40, NODES)}


def write(path: Path, rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(map(str, np.atleast_1d(row))) for row in rows]  # type: ignore[attr-defined]
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "ogbn-made"
    write(folder / "raw/edge.csv.gz", ENDS)
    write(folder / "raw/num-node-list.csv.gz", [NODES])
    write(folder / "raw/num-edge-list.csv.gz", [EDGES])
    write(folder / "raw/node-feat.csv.gz", X)
    write(folder / "raw/node-label.csv.gz", Y)
    for part, nodes in PARTS.items():
        write(folder / f"split/time/{part}.csv.gz", nodes)
    return folder


@pytest.mark.parametrize("piece", [7, 1 << 24])
def test_a_folder_is_the_graph_of_its_tables(
    folder: Path, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ogb, "PIECE", piece)
    graph = node.read(folder)
    tables = tmp_path / "tables"
    split = {i: part for part, nodes in PARTS.items() for i in nodes}
    rows = [f"{i},{Y[i]},{split[i]},{X[i, 0]},{X[i, 1]},{X[i, 2]}" for i in range(NODES)]
    tables.mkdir()
    (tables / "nodes.csv").write_text("id,label,split,x0,x1,x2\n" + "\n".join(rows))
    edges = [f"{a},{b}" for a, b in ENDS]
    (tables / "edges.csv").write_text("source,target\n" + "\n".join(edges))
    other = node.read(tables)
    for key in ("x", "y", "edge_index", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(graph[key], other[key]), key
    assert graph.digest == other.digest
    assert "both directions" in graph.notes[0]


def test_edges_keep_their_direction_if_asked(folder: Path) -> None:
    graph = node.read(folder, directed=True)
    wanted = {(int(a), int(b)) for a, b in ENDS if a != b}
    assert {(int(a), int(b)) for a, b in graph.edge_index.T} == wanted
    assert graph.directed


def test_a_folder_is_packed_and_reads_back_equal(folder: Path, tmp_path: Path) -> None:
    graph = node.read(folder)
    node.write_packed(graph, tmp_path / "packed")
    assert node.read(tmp_path / "packed").digest == graph.digest


def test_labels_and_features_and_split_are_optional_and_files_need_not_be_packed(
    folder: Path,
) -> None:
    for name in ("raw/node-feat", "raw/edge"):
        (folder / f"{name}.csv.gz").unlink()
    write(folder / "raw/edge.csv", ENDS)
    write(folder / "raw/node-label.csv.gz", ["nan", *map(float, Y[1:])])
    for part in PARTS:
        (folder / f"split/time/{part}.csv.gz").unlink()
    graph = node.read(folder)
    assert graph.x is None
    assert graph.y[:3].tolist() == [-1, 1, 2]
    assert "drawn with seed 0" in graph.notes[-1]


MISTAKES = {
    "raw/edge": ([[0, 1], [3, NODES]], r"edge\.csv\.gz names the node 50, but .* 0\.\.49"),
    "raw/node-feat": (X[:-1], r"node-feat\.csv\.gz has only 49 rows where .* 50 nodes"),
    "raw/node-label": ([*Y, 1], r"node-label\.csv\.gz has more rows"),
    "raw/num-node-list": ([NODES, 3], r"num-node-list\.csv\.gz must hold the number of nodes"),
    "split/time/valid": ([99], r"valid\.csv\.gz names the node 99"),
}


@pytest.mark.parametrize("file", MISTAKES)
def test_files_that_do_not_fit_are_named(file: str, folder: Path) -> None:
    rows, message = MISTAKES[file]
    write(folder / f"{file}.csv.gz", rows)
    with pytest.raises(UserError, match=message):
        node.read(folder)


def test_lines_that_are_wrong_are_named_in_any_piece(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ogb, "PIECE", 16)
    write(folder / "raw/edge.csv.gz", [*ENDS[:20], [1, 2, 3]])
    with pytest.raises(UserError, match=r"line 21 has 3 numbers where 2 are needed"):
        node.read(folder)
    write(folder / "raw/edge.csv.gz", [*ENDS[:30], ["a", 2]])
    with pytest.raises(UserError, match=r"line 31 has 'a'"):
        node.read(folder)
    write(folder / "raw/edge.csv.gz", ENDS)
    write(folder / "raw/node-feat.csv.gz", [*X[:9], ["nan", 0, 0], *X[10:]])
    with pytest.raises(UserError, match=r"node-feat.* line 10 has a value that is no finite"):
        node.read(folder)


def test_other_mistakes_are_told_in_a_sentence(folder: Path) -> None:
    file = folder / "raw/node-feat.csv.gz"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=r"node-feat\.csv\.gz is damaged"):
        node.read(folder)
    file.write_bytes(whole)
    write(folder / "raw/node-label.csv.gz", np.zeros((NODES, 2), dtype=int))
    with pytest.raises(UserError, match="2 labels per node"):
        node.read(folder)
    write(folder / "raw/node-label.csv.gz", Y + 0.5)
    with pytest.raises(UserError, match="no whole number"):
        node.read(folder)
    write(folder / "raw/node-label.csv.gz", Y)
    write(folder / "split/random/train.csv.gz", [1])
    with pytest.raises(UserError, match="several splits, random, time"):
        node.read(folder)
    (folder / "raw/num-node-list.csv.gz").unlink()
    with pytest.raises(UserError, match=r"there is no .*num-node-list\.csv\.gz"):
        node.read(folder)
