"""Graphs for node classification: the catalog's, a person's own files, or their own ``Data``.

Whatever the source, the result is a PyG ``Data`` with the same attributes:

* ``x`` ``(N, F)`` float32, or ``None`` for a graph without features; ``feature_names``
* ``y`` ``(N,)``, ``-1`` for a node without a label; ``label_names``
* ``edge_index`` ``(2, E)`` from sender to receiver; ``edge_weight`` ``(E,)`` where there are
  weights; ``directed``
* ``train_mask``, ``val_mask``, ``test_mask`` ``(N, S)`` for ``S`` splits, labelled nodes only
* ``node_ids``, ``name`` and ``digest``, a sha256 of the content
* ``notes``, what a person should know of what was read: sentences
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from quatgraph.data.edges import count_edges, is_symmetric
from quatgraph.data.formats import Reader, match_folder, select_reader
from quatgraph.data.io import store
from quatgraph.data.node.assembly import NodeGraph, as_columns, no_masks
from quatgraph.data.node.csv import NodeOptions, read_files, read_folder
from quatgraph.data.node.planetoid import read_planetoid
from quatgraph.data.scaling import Scaling
from quatgraph.data.splits import Masks, check_split, stratified_split
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    from torch_geometric.data import Data

__all__ = [
    "READERS",
    "Scaling",
    "from_data",
    "load",
    "read",
    "statistics",
    "stratified_split",
]

MASKS = ("train_mask", "val_mask", "test_mask")


READERS = (
    Reader(
        "csv",
        "a folder with nodes.csv, edges.csv and optional features.npz",
        match_folder("node"),
        read_folder,
    ),
)


def load(name: str) -> "Data":
    """Reads a dataset of the catalog and checks that it is what the catalog describes.

    Example:
        >>> load("karate").num_nodes
        34
    """
    entry = store.entry(name)
    if entry.task != "node":
        raise Mistake(f"{name!r} is a dataset for {entry.task!r}, not for node classification")
    data = _read_sample(name) if entry.builtin else read_planetoid(name)
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
    """The sizes of a graph, in the catalog's terms.

    ``edges`` counts distinct edges between two different nodes, both directions of an undirected
    edge as one.
    """
    return {
        "nodes": data.num_nodes,
        "labelled": int((data.y >= 0).sum()),
        "edges": count_edges(data.edge_index, data.num_nodes, directed=data.directed),
        "features": 0 if data.x is None else data.x.size(1),
        "classes": len(data.label_names),
        "splits": data.train_mask.size(1),
    }


def from_data(data: "Data", *, split_seed: int = 0, labels_needed: bool = True) -> "Data":
    """Checks a ``Data`` of one's own and adds what it lacks; the given one is left as it is.

    Edges are neither added nor removed. Classes may have any numbers; they become ``0..C-1`` and
    the numbers their names, unless ``label_names`` names the classes ``0..C-1``. ``node_ids``,
    ``feature_names`` and ``name`` are kept where they are given; other attributes are left behind.

    Args:
        data: ``edge_index`` and ``y`` (``-1`` for a node without a label), perhaps ``x``,
            ``edge_weight`` and the three masks, ``(N,)`` or ``(N, S)``.
        split_seed: Seed of the split that is drawn where there are no masks.
        labels_needed: Whether to refuse a graph that cannot be trained on.
    """
    from torch_geometric.data import Data

    if not isinstance(data, Data):
        raise Mistake(
            "the graph must be a PyG Data, or for train_nodes a folder with nodes.csv and "
            f"edges.csv, not {type(data).__name__}"
        )
    x, num_nodes = _checked_features(data)
    edge_index, edge_weight = _checked_edges(data, num_nodes)
    try:
        y, label_names = _checked_labels(data, num_nodes)
        masks = _checked_masks(data, num_nodes)
    except Mistake:
        if labels_needed:
            raise
        y, label_names, masks = torch.full((num_nodes,), -1), [], None
    if labels_needed and not label_names:
        raise Mistake("no node of the graph has a label; give data.y a class for some nodes")
    if masks is None and label_names:
        masks = as_columns(stratified_split(y, split_seed))
    masks = masks or no_masks(num_nodes)
    if labels_needed:
        check_split(y, masks, label_names, where="the split of the graph")
    return NodeGraph(
        name=str(data.get("name") or "data"),
        x=x,
        y=y,
        edge_index=edge_index,
        edge_weight=edge_weight,
        masks=masks,
        label_names=label_names,
        directed=not is_symmetric(edge_index, edge_weight, num_nodes),
        node_ids=_names(data, "node_ids", num_nodes),
        feature_names=_names(data, "feature_names", 0 if x is None else x.size(1)),
    ).to_data()


def _read_sample(name: str) -> "Data":
    files = (store.SAMPLES / f"{name}_{kind}.csv" for kind in ("nodes", "edges"))
    data = read_files(*files, name=name, options=NodeOptions())
    data.notes = []  # on files that are not the person's
    return data


def _checked_features(data: "Data") -> tuple[Tensor | None, int]:
    """Features as float32 and the number of nodes."""
    x = data.get("x")
    if x is None:
        # Asked of each in turn: PyG guesses the number from the edges, with a warning.
        sizes = [
            data.get("num_nodes"),
            *(v.size(0) for k in ("y", *MASKS) if _is(v := data.get(k))),
        ]
        num_nodes = next((size for size in sizes if size is not None), None)
        if num_nodes is None:
            raise Mistake("the graph has neither x nor y; set data.num_nodes")
    else:
        if not _is(x) or x.dim() != 2 or x.is_complex():
            raise Mistake("data.x must be a tensor of real numbers of shape (nodes, features)")
        x = x.detach().cpu()
        x = (x if x.layout == torch.strided else x.to_dense()).float()
        if not bool(x.isfinite().all()):
            row, column = (~x.isfinite()).nonzero()[0].tolist()
            raise Mistake(f"data.x[{row}, {column}] is not a finite number; replace it")
        num_nodes = x.size(0)
    if num_nodes < 1:
        raise Mistake("the graph has no nodes; give it at least one")
    return x, int(num_nodes)


def _checked_edges(data: "Data", num_nodes: int) -> tuple[Tensor, Tensor | None]:
    edge_index, weight = data.get("edge_index"), data.get("edge_weight")
    whole = (torch.int64, torch.int32)
    if not _is(edge_index) or edge_index.dtype not in whole or edge_index.shape[:-1] != (2,):
        raise Mistake("data.edge_index must be a tensor of whole numbers of shape (2, edges)")
    # PyG's EdgeIndex is a tensor too; only its numbers are wanted.
    edge_index = torch.stack(tuple(edge_index.detach().cpu().long().as_subclass(Tensor)))
    if bool(((edge_index < 0) | (edge_index >= num_nodes)).any()):
        wrong = edge_index[(edge_index < 0) | (edge_index >= num_nodes)][0]
        raise Mistake(
            f"data.edge_index names the node {int(wrong)} but the nodes are "
            f"0..{num_nodes - 1}; correct it or data.num_nodes"
        )
    if weight is None:
        return edge_index, None
    if not _is(weight) or weight.shape != edge_index.shape[1:] or weight.is_complex():
        raise Mistake("data.edge_weight must be a tensor of one real number per edge")
    weight = weight.detach().cpu().float()
    if not bool((weight.isfinite() & (weight >= 0)).all()):
        place = int((~(weight.isfinite() & (weight >= 0))).nonzero()[0])
        raise Mistake(f"data.edge_weight[{place}] must be finite and zero or more")
    return edge_index, weight


def _checked_labels(data: "Data", num_nodes: int) -> tuple[Tensor, list[str]]:
    y = data.get("y")
    if y is None:
        return torch.full((num_nodes,), -1), []
    if not _is(y) or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise Mistake("data.y must be a tensor of whole numbers, -1 for nodes without a label")
    y = y.detach().cpu().long()
    if y.numel() != num_nodes or y.shape not in ((num_nodes,), (num_nodes, 1)):
        raise Mistake(f"data.y has shape {tuple(y.shape)} but must be ({num_nodes},)")
    y = y.flatten()
    if bool((y < -1).any()):
        raise Mistake(f"data.y holds {int(y.min())}; use -1 for nodes without a label")
    known = y >= 0
    names = data.get("label_names")
    if names is not None:
        if bool((y >= len(names)).any()):
            raise Mistake(
                f"data.y holds {int(y.max())} but data.label_names has {len(names)} names"
            )
        return y, [str(name) for name in names]
    classes, places = y[known].unique(return_inverse=True)
    numbered = torch.full_like(y, -1)
    numbered[known] = places
    return numbered, [str(label) for label in classes.tolist()]


def _checked_masks(data: "Data", num_nodes: int) -> Masks | None:
    given = {key: data.get(key) for key in MASKS}
    missing = [key for key in MASKS if given[key] is None]
    if len(missing) == len(MASKS):
        return None
    if missing:
        raise Mistake(
            f"the graph has masks but no {missing[0]}; give all three, or none for a split by seed"
        )
    for key, mask in given.items():
        if not _is(mask) or mask.dtype not in (torch.bool, torch.uint8) or mask.dim() not in (1, 2):
            raise Mistake(
                f"data.{key} must be a boolean tensor of shape (nodes,) or (nodes, splits)"
            )
        if mask.size(0) != num_nodes:
            raise Mistake(f"data.{key} has {mask.size(0)} rows but the graph {num_nodes} nodes")
    train, valid, test = (given[key].detach().cpu().bool() for key in MASKS)
    train, valid, test = as_columns((train, valid, test))
    if not train.shape == valid.shape == test.shape or train.size(1) == 0:
        raise Mistake("the three masks must have the same number of splits, at least one")
    return train, valid, test


def _names(data: "Data", key: str, count: int) -> list[str] | None:
    names = data.get(key)
    if names is None:
        return None
    if len(names) != count:
        raise Mistake(f"data.{key} has {len(names)} names where {count} are needed")
    return [str(name) for name in names]


def _is(value: object) -> bool:
    return isinstance(value, Tensor)
