"""A graph in a folder with ``nodes.csv``, ``edges.csv`` and optional ``features.npz``.

The columns of ``nodes.csv`` are ``id``, ``label`` (empty for an unlabelled node), optional
``split`` (train, valid, test or empty) and numeric features. ``features.npz`` may hold the features
instead: an array ``x`` ``(N, F)``, or the arrays ``data``, ``indices``, ``indptr`` and ``shape`` of
a sparse matrix, with rows in the order of ``nodes.csv``.

For ``edges.csv`` see :mod:`quatgraph.data.node.edges_csv`.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.edges import merge_edges, merge_notes
from quatgraph.data.io.files import NO_ARRAYS
from quatgraph.data.io.numbers import column_numbers
from quatgraph.data.io.table import Table, read_table
from quatgraph.data.labels import encode_labels, label_notes
from quatgraph.data.node.assembly import NodeGraph, as_columns, no_masks
from quatgraph.data.node.edges_csv import read_edges
from quatgraph.data.node.sparse import dense
from quatgraph.data.splits import SPLIT_WORDS, Masks, check_split, part_numbers, stratified_split
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    from torch_geometric.data import Data

NOT_FEATURES = ("id", "label", "split")


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """How a graph is read; see :func:`quatgraph.data.node.read`."""

    directed: bool = False
    split_seed: int = 0
    missing: Sequence[str] = ()
    labels_needed: bool = True


def read_folder(path: Path, **options: Any) -> "Data":
    """Reads the files of a folder; for the options see :class:`NodeOptions`."""
    files = (path / name for name in ("nodes.csv", "edges.csv", "features.npz"))
    return read_files(*files, name=path.resolve().name, options=NodeOptions(**options))


def read_files(
    nodes: Path,
    edges: Path,
    features: Path | None = None,
    *,
    name: str,
    options: NodeOptions,
) -> "Data":
    """Like :func:`read_folder`, for files with other names; ``features`` need not exist."""
    table = read_table(nodes)
    columns = _columns_by_name(table)
    node_ids, index = _check_ids(table, columns, options.labels_needed)
    feature_names = [key for key in columns if key not in NOT_FEATURES]
    x: Tensor | None = None
    if features is not None and features.exists():
        if feature_names:
            raise Mistake(
                f"{nodes} has the feature column {feature_names[0]!r} and {features} gives "
                "features too; keep one of the two"
            )
        x = _read_npz(features, len(node_ids))
    elif feature_names:
        x = _parse_features(table, [(key, columns[key]) for key in feature_names])
    labels = columns.get("label", [""] * len(node_ids))
    codes, label_names = encode_labels(labels, options.missing)
    y = torch.from_numpy(codes)
    if options.labels_needed and not label_names:
        raise Mistake(f"no node in {nodes} has a label; fill in the column 'label'")
    if "split" in columns:
        masks = _parse_split(table, columns["split"])
    elif label_names:
        masks = as_columns(stratified_split(y, options.split_seed))
    else:
        masks = no_masks(len(node_ids))
    if options.labels_needed:
        check_split(y, masks, label_names, where=f"the split of {nodes}")
    sender, receiver, weight, notes = read_edges(edges, index)
    edge_index, edge_weight = merge_edges(
        sender, receiver, len(node_ids), directed=options.directed, weight=weight, node_ids=node_ids
    )
    merged = merge_notes(sender, receiver, len(node_ids), directed=options.directed, weight=weight)
    notes = notes + [f"{edges}: {note}" for note in merged]
    if options.labels_needed:
        notes = notes + label_notes(labels, options.missing, ("node", "nodes"))
    return NodeGraph(
        name=name,
        x=x,
        y=y,
        edge_index=edge_index,
        edge_weight=edge_weight,
        masks=masks,
        label_names=label_names,
        directed=options.directed,
        node_ids=node_ids,
        feature_names=feature_names or None,
        notes=notes,
    ).to_data()


def _columns_by_name(table: Table) -> dict[str, list[str]]:
    """The cells of each column by its name."""
    if not len(table):
        raise Mistake(f"{table.path} is empty; it needs a line of column names and a line per node")
    header = table.row(0)
    for place, key in enumerate(header):
        if not key:
            raise Mistake(f"column {place + 1} of {table.path} has no name; name or remove it")
        if key in header[:place]:
            raise Mistake(f"{table.path} has two columns named {key!r}; rename or remove one")
    return {key: cells[1:] for key, cells in zip(header, table.columns, strict=True)}


def _check_ids(
    table: Table, columns: dict[str, list[str]], labels_needed: bool
) -> tuple[list[str], dict[str, int]]:
    for key in ("id", "label") if labels_needed else ("id",):
        if key not in columns:
            found = ", ".join(list(columns)[:8]) + (", ..." if len(columns) > 8 else "")
            raise Mistake(
                f"{table.path} has no column {key!r}, its columns are {found}; "
                f"name one of them {key!r}"
            )
    ids = columns["id"]
    if not ids:
        raise Mistake(f"{table.path} lists no nodes; add a line for each")
    index = dict(zip(ids, range(len(ids)), strict=True))
    if "" in index:
        raise Mistake(f"{table.at(ids.index('') + 1)} has no id; give every node one")
    if len(index) < len(ids):
        seen: set[str] = set()
        for row, node in enumerate(ids):
            if node in seen:
                raise Mistake(
                    f"{table.at(row + 1)} repeats the node id {node!r}; list each node once"
                )
            seen.add(node)
    return ids, index


def _parse_split(table: Table, cells: list[str]) -> Masks:
    numbers = part_numbers(cells, SPLIT_WORDS, lambda row: table.at(row + 1))
    part = torch.tensor(numbers).unsqueeze(1)
    return part == 0, part == 1, part == 2


def _parse_features(table: Table, columns: Sequence[tuple[str, list[str]]]) -> Tensor:
    """Feature columns as ``(N, F)``; every cell must be a finite number."""
    x = np.empty((len(columns[0][1]), len(columns)), dtype=np.float32)
    for place, (key, cells) in enumerate(columns):
        x[:, place] = column_numbers(cells, key, lambda row: table.at(row + 1))
    return torch.from_numpy(x)


def _read_npz(path: Path, num_nodes: int) -> Tensor:
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            for key in ("x", "data", "indices", "indptr", "shape"):
                if key in archive.files:
                    arrays[key] = archive[key]
    except NO_ARRAYS as error:
        raise Mistake(
            f"{path} cannot be read as plain arrays ({error}); write it with numpy.savez or "
            "scipy.sparse.save_npz, without Python objects"
        ) from error
    if "x" in arrays:
        x = arrays["x"]
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise Mistake(
                f"'x' in {path} must be numbers of shape (nodes, features), not {x.shape}"
            )
    elif {"data", "indices", "indptr", "shape"} <= arrays.keys():
        shape = arrays["shape"]
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise Mistake(f"'shape' in {path} must be two whole numbers; write the file again")
        data, indices, indptr = (arrays[key] for key in ("data", "indices", "indptr"))
        x = dense(data, indices, indptr, (int(shape[0]), int(shape[1])), where=str(path))
    else:
        raise Mistake(f"{path} needs an array 'x', or 'data', 'indices', 'indptr' and 'shape'")
    if len(x) != num_nodes:
        raise Mistake(
            f"{path} has {len(x)} rows but nodes.csv lists {num_nodes} nodes; "
            "give one row per node, in the order of nodes.csv"
        )
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise Mistake(
            f"{path} has a value that is no finite number in row {row}, column {column} "
            "(counted from 0); replace it"
        )
    return torch.from_numpy(x)
