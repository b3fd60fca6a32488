"""Graphs for graph classification: the catalog's, a person's own files, or their own ``Data``.

Whatever the source, the result is one :class:`Graphs`: many graphs as flat tensors.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.formats import Reader, match_folder, match_suffix, select_reader
from quatgraph.data.graph.cache import keep_graphs, kept_graphs
from quatgraph.data.graph.collection import GraphLists, Graphs, check_labels
from quatgraph.data.graph.dgcnn import read_dgcnn, read_dgcnn_file
from quatgraph.data.graph.folds import fixed_folds, stratified_folds
from quatgraph.data.graph.jsonl import read_jsonl
from quatgraph.data.graph.tu import read_tu
from quatgraph.data.io import store
from quatgraph.data.labels import encoded, encoded_numbers
from quatgraph.data.splits import inner_validation
from quatgraph.errors import Mistake

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
    """Reads a dataset of the catalog and checks that it is what the catalog describes.

    The first reading is kept in the cache, in a form that is read faster.

    Example:
        >>> load("cycles")
        Graphs('cycles', 200 graphs, 1890 nodes, 1790 edges)
    """
    entry = store.entry(name)
    if entry.task != "graph":
        raise Mistake(f"{name!r} is a dataset for {entry.task!r}, not for graph classification")
    graphs = _cycles() if entry.builtin else _load_text(entry)
    entry.compare(statistics(graphs))
    return graphs


def read(path: Path, *, missing: Sequence[str] = (), labels_needed: bool = True) -> Graphs:
    """Reads graphs of one's own; ``notes`` report what was inferred.

    Args:
        path: A file or a folder in a format of :data:`READERS`.
        missing: Labels of graphs that count as missing.
        labels_needed: Whether to refuse graphs that cannot be trained on: no labels, or one class
            only. Predicting needs none.
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
    """Takes graphs of one's own in any form: a path, see :func:`read`, PyG graphs, see
    :func:`from_list`, or a collection.

    Args:
        missing: Labels in files that count as missing.
        labels_needed: Whether to refuse graphs that cannot be trained on.
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


def from_list(
    graphs: "Iterable[Data]", *, name: str = "data", labels_needed: bool = True
) -> Graphs:
    """Takes PyG graphs of one's own; edges get both directions, repeated ones and self-loops go.

    Classes may have any numbers from 0; they become ``0..C-1`` and the numbers their names.

    Args:
        graphs: Each with ``edge_index``, perhaps ``y`` (one whole number, ``-1`` for unknown),
            ``x`` (features, all graphs or none) and ``tag`` (a whole number per node, likewise).
        name: Name of the collection.
        labels_needed: Whether to refuse graphs that cannot be trained on.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import BaseData

    refused = isinstance(graphs, str | bytes | Mapping | Tensor | BaseData)
    if refused or not (hasattr(graphs, "__iter__") or hasattr(graphs, "__getitem__")):
        raise Mistake(
            "graphs must be a list of PyG's Data, or the path of a file or folder of graphs, not "
            f"{type(graphs).__name__}"
        )
    graphs = list(graphs)
    if not graphs:
        raise Mistake("the list has no graphs; give at least one")
    for place, graph in enumerate(graphs):
        if not isinstance(graph, Data):
            kind = type(graph).__name__
            raise Mistake(f"item {place} of the list is a {kind}; give a list of PyG's Data")
    for key in ("x", "tag"):
        given = [graph.get(key) is not None for graph in graphs]
        if any(given) and not all(given):
            place = given.index(False)
            raise Mistake(f"graph {place} of the list has no {key} but others do; give all or none")
    sizes = np.array([_size(graph, place) for place, graph in enumerate(graphs)])
    start = np.cumsum(sizes) - sizes
    edges = [
        _edges(g, place, int(n)) for place, (g, n) in enumerate(zip(graphs, sizes, strict=True))
    ]
    sender, receiver = np.concatenate(
        [edge + at for edge, at in zip(edges, start, strict=True)], axis=1
    )
    y, label_names = encoded(
        [_label(graph, place, needed=labels_needed) for place, graph in enumerate(graphs)]
    )
    tags, tag_names = None, list[str]()
    if graphs[0].get("tag") is not None:
        parts = [_tags(g, at, int(n)) for at, (g, n) in enumerate(zip(graphs, sizes, strict=True))]
        tags, tag_names = encoded_numbers(np.concatenate(parts))
    whole = GraphLists(
        name=name,
        sizes=sizes,
        sender=sender,
        receiver=receiver,
        y=y,
        label_names=label_names,
        tags=tags,
        tag_names=tag_names,
        attributes=_attributes(graphs),
    ).merge()
    if labels_needed:
        check_labels(whole, "the list")
    return whole


def statistics(graphs: Graphs) -> dict[str, int]:
    """The sizes of a collection, in the catalog's terms.

    ``edges`` counts both directions of an edge as one.
    """
    return {
        "graphs": len(graphs),
        "labelled": int((graphs.y >= 0).sum()),
        "nodes": graphs.num_nodes,
        "edges": graphs.edge_index.size(1) // 2,
        "tags": graphs.num_tags,
        "features": 0 if graphs.attributes is None else graphs.attributes.size(1),
        "classes": graphs.num_classes,
    }


def _load_text(entry: store.Entry) -> Graphs:
    # The graphs' own file comes first in the catalog; the others are lists of folds.
    text = entry.files[0]
    graphs = kept_graphs(entry.name, text.sha256)
    if graphs is None:
        content = store.read_bytes(entry.name, text.path)
        graphs = read_dgcnn(content, name=entry.name, where=text.path)
        keep_graphs(graphs, text.sha256)
    return graphs


def _cycles() -> Graphs:
    """The generated sample: every second graph a cycle, the others random trees."""
    random = np.random.RandomState(0)  # numpy keeps this generator as it is
    sizes = random.randint(5, 15, size=200).astype(np.int64)
    sender, receiver = [], []
    for place, (size, start) in enumerate(zip(sizes, np.cumsum(sizes) - sizes, strict=True)):
        nodes = np.arange(size)
        if place % 2 == 0:
            ends = nodes, (nodes + 1) % size
        else:
            # Each node but the first hangs on one before it.
            ends = nodes[1:], (random.random_sample(size - 1) * nodes[1:]).astype(np.int64)
        sender.append(ends[0] + start)
        receiver.append(ends[1] + start)
    return GraphLists(
        name="cycles",
        sizes=sizes,
        sender=np.concatenate(sender),
        receiver=np.concatenate(receiver),
        y=np.arange(len(sizes)) % 2,
        label_names=["cycle", "tree"],
    ).merge()


def _size(graph: "Data", place: int) -> int:
    x, tag = graph.get("x"), graph.get("tag")
    # Asked of each in turn: PyG guesses the number from the edges, with a warning.
    given = [v.size(0) for v in (x, tag) if isinstance(v, Tensor) and v.dim()]
    size = next((size for size in (*given, graph.get("num_nodes")) if size is not None), None)
    if size is None or size < 1:
        raise Mistake(f"graph {place} of the list has no nodes; give it x, tag or num_nodes")
    return int(size)


def _edges(graph: "Data", place: int, num_nodes: int) -> np.ndarray:
    edges = graph.get("edge_index")
    whole = (torch.int64, torch.int32)
    if not isinstance(edges, Tensor) or edges.dtype not in whole or edges.shape[:-1] != (2,):
        raise Mistake(
            f"edge_index of graph {place} must be a tensor of whole numbers of shape (2, edges)"
        )
    array = edges.detach().cpu().long().as_subclass(Tensor).numpy()
    outside = (array < 0) | (array >= num_nodes)
    if outside.any():
        raise Mistake(
            f"edge_index of graph {place} names the node {array[outside][0]} but its nodes are "
            f"0..{num_nodes - 1}; correct it"
        )
    return array


def _label(graph: "Data", place: int, *, needed: bool) -> str:
    y = graph.get("y")
    if y is None:
        return ""
    if isinstance(y, Tensor) and y.numel() == 1 and not (y.is_floating_point() or y.is_complex()):
        y = int(y)
    if not isinstance(y, int) or y < -1:
        if not needed:
            return ""
        raise Mistake(f"y of graph {place} must be one whole number, 0 or more, or -1 for unknown")
    return "" if y == -1 else str(int(y))


def _tags(graph: "Data", place: int, num_nodes: int) -> np.ndarray:
    tag = graph.tag
    if not isinstance(tag, Tensor) or tag.shape != (num_nodes,) or tag.is_floating_point():
        raise Mistake(f"tag of graph {place} must be a whole number for each of its nodes")
    return tag.detach().cpu().long().numpy()


def _attributes(graphs: "Sequence[Data]") -> np.ndarray | None:
    if graphs[0].get("x") is None:
        return None
    parts: list[np.ndarray] = []
    for place, graph in enumerate(graphs):
        x = graph.x
        if not isinstance(x, Tensor) or x.dim() != 2 or x.is_complex():
            raise Mistake(f"x of graph {place} must be numbers of shape (nodes, features)")
        if parts and x.size(1) != parts[0].shape[1]:
            raise Mistake(
                f"x of graph {place} has {x.size(1)} features but graph 0 has "
                f"{parts[0].shape[1]}; give every node the same number"
            )
        x = x.detach().cpu().float()
        if not bool(x.isfinite().all()):
            raise Mistake(f"x of graph {place} has a value that is no finite number; replace it")
        parts.append(x.numpy())
    whole = np.concatenate(parts)
    return whole if whole.shape[1] else None
