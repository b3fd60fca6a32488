"""Graphs for node classification: datasets of the catalog, files, or a PyG ``Data``.

Each source gives a PyG ``Data`` with the same attributes:

* ``x`` ``(N, F)`` float32, or ``None`` for a graph without features; ``feature_names``
* ``y`` ``(N,)``, ``-1`` for an unlabelled node; ``label_names``
* ``edge_index`` ``(2, E)`` from sender to receiver; optional ``edge_weight`` ``(E,)``; ``directed``
* ``train_mask``, ``val_mask``, ``test_mask`` ``(N, S)`` for ``S`` splits, labelled nodes only
* ``node_ids``, ``name`` and ``digest``, a sha256 of the content
* ``notes``, what was inferred: sentences for the user
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.data.edges import count_edges
from quatgraph.data.formats import Reader, match_folder, select_reader
from quatgraph.data.io import store
from quatgraph.data.node.csv import read_folder
from quatgraph.data.node.planetoid import read_planetoid
from quatgraph.data.node.pyg import from_data

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = ["READERS", "from_data", "load", "read", "statistics"]

READERS = (
    Reader(
        "csv",
        "a folder with nodes.csv, edges.csv and optional features.npz",
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


def read(
    path: Path,
    *,
    directed: bool = False,
    split_seed: int = 0,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> "Data":
    """Reads a graph in a format of :data:`READERS`.

    Args:
        path: The folder.
        directed: Whether an edge goes from its first node to its second only.
        split_seed: Seed of the split that is drawn if the files give none.
        missing: Labels that count as missing, like an empty one.
        labels_needed: Whether to refuse a graph that cannot be trained on: no labels, or a class
            without a training node. Prediction needs no labels.
    """
    path = Path(path)
    return select_reader("node", READERS, path).read(
        path,
        directed=directed,
        split_seed=split_seed,
        missing=missing,
        labels_needed=labels_needed,
    )


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
