"""Graphs for node classification: datasets of the catalog, files, or graphs in memory.

Each source gives a PyG ``Data`` with the same attributes:

* ``x`` ``(N, F)`` float32, or ``None`` for a graph without features; ``feature_names``
* ``encoding``, how the columns of a table became ``x``, or ``None``
* ``y`` ``(N,)``, ``-1`` for an unlabelled node; ``label_names``; ``label_values``, the labels as
  they were given
* ``edge_index`` ``(2, E)`` from sender to receiver; optional ``edge_weight`` ``(E,)``; ``directed``
* ``train_mask``, ``val_mask``, ``test_mask`` ``(N, S)`` for ``S`` splits, labelled nodes only
* ``node_ids``, ``name`` and ``digest``, a sha256 of the content
* ``notes``, what was inferred: sentences for the user
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quatgraph.data.edges import count_edges
from quatgraph.data.formats import Reader, is_array_folder, match_folder, select_reader
from quatgraph.data.io import store
from quatgraph.data.io.frame import is_frame
from quatgraph.data.node.arrays import from_arrays, is_matrix
from quatgraph.data.node.files import read_folder
from quatgraph.data.node.frames import from_frames
from quatgraph.data.node.networkx import from_networkx, is_networkx
from quatgraph.data.node.ogb import is_ogb_folder, read_ogb
from quatgraph.data.node.options import DEFAULTS, ReadOptions
from quatgraph.data.node.packed import check_packable, read_packed, write_packed
from quatgraph.data.node.planetoid import read_planetoid
from quatgraph.data.node.pyg import from_data

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "READERS",
    "ReadOptions",
    "check_packable",
    "from_any",
    "from_data",
    "load",
    "read",
    "statistics",
    "write_packed",
]

READERS = (
    Reader(
        "arrays",
        "a folder with edge_index.npy and optional x.npy, y.npy, edge_weight.npy and train.npy, "
        "valid.npy, test.npy, as `quatgraph data pack` writes it",
        is_array_folder,
        read_packed,
    ),
    Reader(
        "ogb",
        "a folder as the Open Graph Benchmark's, with raw/edge.csv.gz, raw/num-node-list.csv.gz, "
        "and optional raw/node-feat.csv.gz, raw/node-label.csv.gz and split/NAME/",
        is_ogb_folder,
        read_ogb,
    ),
    Reader(
        "tables",
        "a folder with the tables nodes and edges (.csv, .tsv, .json, .jsonl, each also .gz or "
        ".xz, or .parquet) and optional features.npz",
        match_folder("node"),
        read_folder,
    ),
)


def load(name: str) -> "Data":
    """Reads a dataset of the catalog and checks its statistics.

    Example:
        >>> load("karate").num_nodes
        34
    """
    entry = store.entry(name, "node")
    data = read_folder(store.SAMPLES / name) if entry.builtin else read_planetoid(name)
    data.notes = []  # on files that the user does not have
    entry.compare(statistics(data))
    return data


def read(path: Path, options: ReadOptions = DEFAULTS, **changes: Any) -> "Data":
    """Reads a graph in a format of :data:`READERS`; keywords replace single options."""
    path, options = Path(path), replace(options, **changes)
    return select_reader("node", READERS, path).read(path, options=options)


def from_any(graph: Any, options: ReadOptions = DEFAULTS) -> "Data":
    """A graph in memory.

    Args:
        graph: A PyG ``Data``; a networkx graph; a pair of frames, or a dictionary of two with the
            keys ``nodes`` and ``edges``; arrays ``(adjacency, x)`` or ``(adjacency, x, y)``, or a
            dictionary of arrays, see :func:`quatgraph.data.node.arrays.from_arrays`.
        options: How tables are read.
    """
    if is_networkx(graph):
        return from_networkx(graph, options)
    if isinstance(graph, Mapping) and graph:
        if graph.keys() == {"nodes", "edges"}:
            return from_frames(graph["nodes"], graph["edges"], options)
        return from_arrays(graph, options)
    if isinstance(graph, tuple) and len(graph) in (2, 3):
        if len(graph) == 2 and is_frame(graph[0]):
            return from_frames(*graph, options)
        if is_matrix(graph[0]):
            names = ("adjacency", "x", "y")
            return from_arrays(dict(zip(names, graph, strict=False)), options)
    return from_data(graph, split_seed=options.split_seed, labels_needed=options.labels_needed)


def statistics(data: "Data") -> dict[str, int]:
    """The sizes of a graph, as the catalog lists them; for ``edges`` see :func:`count_edges`."""
    return {
        "nodes": data.num_nodes,
        "labelled": int((data.y >= 0).sum()),
        "edges": count_edges(data.edge_index, data.num_nodes, directed=data.directed),
        "features": 0 if data.x is None else data.x.size(1),
        "classes": len(data.label_names),
        "splits": data.train_mask.size(1),
    }
