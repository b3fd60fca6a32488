"""Graphs for graph classification: datasets of the catalog, files, or PyG ``Data``.

Each source gives one :class:`Graphs`: many graphs as flat tensors.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from quatgraph.data.formats import Reader, match_folder, match_suffix, select_reader
from quatgraph.data.graph.cache import load_cached, save_cached
from quatgraph.data.graph.collection import Graphs, check_labels, join_edges, merge_graphs
from quatgraph.data.graph.dgcnn import read_dgcnn, read_dgcnn_file
from quatgraph.data.graph.folds import fixed_folds, stratified_folds
from quatgraph.data.graph.jsonl import read_jsonl
from quatgraph.data.graph.pyg import from_list
from quatgraph.data.graph.tu import read_tu
from quatgraph.data.io import store
from quatgraph.data.splits import inner_validation

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "READERS",
    "AnyGraphs",
    "Graphs",
    "fixed_folds",
    "from_any",
    "from_list",
    "inner_validation",
    "load",
    "read",
    "statistics",
    "stratified_folds",
]

AnyGraphs: TypeAlias = "Graphs | Data | Iterable[Data] | Path | str"


READERS = (
    Reader("jsonl", "a .jsonl file with one graph per line", match_suffix(".jsonl"), read_jsonl),
    Reader("tu", "a folder with NAME_A.txt, in TU format", match_folder("graph"), read_tu),
    Reader("dgcnn", "a .txt file in DGCNN format", match_suffix(".txt"), read_dgcnn_file),
)


def load(name: str) -> Graphs:
    """Reads a dataset of the catalog and checks its statistics.

    The cache holds graphs that were read before, in a faster form.

    Example:
        >>> load("cycles")
        Graphs('cycles', 200 graphs, 1890 nodes, 1790 edges)
    """
    entry = store.entry(name, "graph")
    graphs = _generate_cycles() if entry.builtin else _load_published(entry)
    entry.compare(statistics(graphs))
    return graphs


def read(path: Path, *, missing: Sequence[str] = (), labels_needed: bool = True) -> Graphs:
    """Reads graphs; ``notes`` report what was inferred.

    Args:
        path: A file or a folder in a format of :data:`READERS`.
        missing: Labels of graphs that count as missing.
        labels_needed: Whether to refuse graphs that cannot be trained on: no labels, or one class
            only. Prediction needs no labels.
    """
    path = Path(path)
    graphs = select_reader("graph", READERS, path).read(
        path, missing=missing, labels_needed=labels_needed
    )
    if labels_needed:
        check_labels(graphs, str(path))
    return graphs


def from_any(
    graphs: AnyGraphs, *, missing: Sequence[str] = (), labels_needed: bool = True
) -> Graphs:
    """Graphs from a path (see :func:`read`), PyG graphs (see :func:`from_list`) or a collection.

    Labels of ``missing`` count as missing in files only.
    """
    if isinstance(graphs, Graphs):
        if labels_needed:
            graphs = graphs.with_present_labels()
            check_labels(graphs, graphs.name)
        return graphs
    if isinstance(graphs, Path | str):
        return read(Path(graphs), missing=missing, labels_needed=labels_needed)
    from torch_geometric.data import Data

    listed = [graphs] if isinstance(graphs, Data) else graphs
    return from_list(listed, labels_needed=labels_needed)


def statistics(graphs: Graphs) -> dict[str, int]:
    """The sizes of a collection, as the catalog lists them; an edge has two directions."""
    return {
        "graphs": len(graphs),
        "labelled": int((graphs.y >= 0).sum()),
        "nodes": graphs.num_nodes,
        "edges": graphs.edge_index.size(1) // 2,
        "tags": graphs.num_tags,
        "features": 0 if graphs.attributes is None else graphs.attributes.size(1),
        "classes": graphs.num_classes,
    }


def _load_published(entry: store.Entry) -> Graphs:
    # The graphs' own file comes first in the catalog; the others are lists of folds.
    text = entry.files[0]
    graphs = load_cached(entry.name, text.sha256)
    if graphs is None:
        content = store.read_bytes(entry.name, text.path)
        graphs = read_dgcnn(content, name=entry.name, where=text.path)
        save_cached(graphs, text.sha256)
    return graphs


def _generate_cycles() -> Graphs:
    """The generated sample: cycles and random trees in turn."""
    random = np.random.RandomState(0)  # the same in every version of numpy
    sizes = random.randint(5, 15, size=200).astype(np.int64)
    edges = []
    for place, size in enumerate(sizes):
        nodes = np.arange(size)
        if place % 2 == 0:
            edges.append(np.stack((nodes, (nodes + 1) % size)))
        else:  # each node but the first hangs on one before it
            parents = (random.random_sample(size - 1) * nodes[1:]).astype(np.int64)
            edges.append(np.stack((nodes[1:], parents)))
    return merge_graphs(
        name="cycles",
        sizes=sizes,
        edges=join_edges(edges, sizes),
        labels=(np.arange(len(sizes)) % 2, ["cycle", "tree"]),
    )
