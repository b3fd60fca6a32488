"""Graphs for graph classification: datasets of the catalog, files, PyG ``Data`` or networkx.

Each source gives one :class:`Graphs`: many graphs as flat tensors.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np

from quatgraph.data.formats import Reader, is_molecules, match_folder, match_suffix, select_reader
from quatgraph.data.graph.cache import load_cached, save_cached
from quatgraph.data.graph.collection import Graphs, check_labels, join_edges, merge_graphs
from quatgraph.data.graph.dgcnn import read_dgcnn, read_dgcnn_file
from quatgraph.data.graph.folds import fixed_folds, stratified_folds
from quatgraph.data.graph.jsonl import read_jsonl
from quatgraph.data.graph.networkx import from_networkx
from quatgraph.data.graph.own_split import check_own_split
from quatgraph.data.graph.pyg import from_list
from quatgraph.data.graph.smiles import from_smiles, read_smiles
from quatgraph.data.graph.tu import read_tu
from quatgraph.data.io import store
from quatgraph.data.io.files import TABLE_SUFFIXES
from quatgraph.data.io.frame import JSON_SUFFIXES
from quatgraph.data.node.networkx import is_networkx
from quatgraph.data.splits import inner_validation
from quatgraph.errors import UserError

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

AnyGraphs: TypeAlias = "Graphs | Data | Iterable[Data] | Iterable[Any] | Path | str"
"""Besides PyG's ``Data``, an iterable may hold networkx graphs or SMILES."""
HAVE_LABELS = "a list of labels is for networkx graphs and SMILES; other graphs have their own"

SMILES = Reader(
    "smiles",
    "a .csv, .tsv or .parquet table of molecules with a column smiles (or the one of data.smiles)",
    is_molecules,
    read_smiles,
)
READERS = (
    Reader(
        "jsonl",
        "a .jsonl file with one graph per line, or a .json file with a list of graphs",
        match_suffix(*JSON_SUFFIXES),
        read_jsonl,
    ),
    Reader("tu", "a folder with NAME_A.txt, in TU format", match_folder("graph"), read_tu),
    SMILES,
    Reader("dgcnn", "a .txt file in DGCNN format", match_suffix(".txt"), read_dgcnn_file),
)


class Keys(TypedDict, total=False):
    """Names of keys or columns; empty for the usual ones, if there are any."""

    split: str
    """The split of each graph: train, valid or test."""
    group: str
    """The group of each graph, which folds keep whole; of molecules perhaps ``scaffold``."""
    smiles: str
    """The SMILES of a table of molecules."""
    label: str
    """The labels of a table of molecules."""


_COLUMNS = ("smiles", "label")
"""Keys that only a table has."""


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


def read(
    path: Path,
    *,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
    **keys: Unpack[Keys],
) -> Graphs:
    """Reads graphs; ``notes`` report what was inferred.

    Args:
        path: A file or a folder in a format of :data:`READERS`.
        missing: Labels of graphs that count as missing.
        labels_needed: Whether to refuse graphs that cannot be trained on: no labels, one class
            only, or a split without a part for training or testing. Prediction needs no labels.
        keys: Names of keys or columns, see :class:`Keys`.
    """
    path = Path(path)
    if keys.get("smiles") and match_suffix(*TABLE_SUFFIXES, ".parquet")(path):
        reader = SMILES
    else:
        reader = select_reader("graph", READERS, path)
    given: dict[str, str] = {key: str(name) for key, name in keys.items() if name}
    for key, name in given.items():
        table = reader is SMILES or (reader.read is read_jsonl and key not in _COLUMNS)
        if not table and labels_needed:
            has, other = ("no columns", ".csv") if key in _COLUMNS else ("no keys", ".jsonl")
            raise UserError(
                f"{path} has {has}, so data.{key}={name} names none; write the graphs as a "
                f"{other} file, or leave out the setting"
            )
    if reader is not SMILES:
        own = () if reader.read is not read_jsonl else ("split", "group")
        given = {key: name for key, name in given.items() if key in own}
    graphs = reader.read(path, missing=missing, labels_needed=labels_needed, **given)
    if labels_needed:
        check_labels(graphs, str(path))
        check_own_split(graphs, str(path))
    return graphs


def from_any(
    graphs: AnyGraphs,
    *,
    labels: Iterable[object] | None = None,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
    **keys: Unpack[Keys],
) -> Graphs:
    """Graphs from a path (see :func:`read`), PyG graphs (see :func:`from_list`), networkx graphs
    (see :func:`from_networkx`), a list of SMILES (see :func:`from_smiles`) or a collection.

    Labels of ``missing`` do not count as missing in PyG graphs. A list of ``labels`` belongs to
    networkx graphs and SMILES.
    """
    if labels is not None and isinstance(graphs, Graphs | Path | str):
        raise UserError(HAVE_LABELS)
    if isinstance(graphs, Graphs):
        graphs = graphs.with_present_labels()
        if labels_needed:
            check_labels(graphs, graphs.name)
        return graphs
    if isinstance(graphs, Path | str):
        return read(Path(graphs), missing=missing, labels_needed=labels_needed, **keys)
    from torch_geometric.data import Data

    own = keys.get("split") or "split", keys.get("group") or "group"
    listed: Any = [graphs] if isinstance(graphs, Data) or is_networkx(graphs) else graphs
    if isinstance(listed, list | tuple) and listed and is_networkx(listed[0]):
        found = from_networkx(listed, labels, own, missing=missing, labels_needed=labels_needed)
    elif isinstance(listed, list | tuple) and listed and isinstance(listed[0], str):
        found = from_smiles(listed, labels, missing=missing, labels_needed=labels_needed)
    elif labels is not None:
        raise UserError(HAVE_LABELS)
    else:
        found = from_list(listed, labels_needed=labels_needed, own=own)
    if labels_needed:
        check_labels(found, "the list")
        check_own_split(found, "the list")
    return found


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
