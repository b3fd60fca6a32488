"""A graph in a folder with ``nodes.csv``, ``edges.csv`` and optional ``features.npz``.

The columns of ``nodes.csv`` are ``id``, ``label`` (empty for an unlabelled node), optional
``split`` (train, valid, test or empty) and numeric features. ``features.npz`` may hold the features
instead: an array ``x`` ``(N, F)``, or the arrays ``data``, ``indices``, ``indptr`` and ``shape`` of
a sparse matrix, with rows in the order of ``nodes.csv``.

For ``edges.csv`` see :mod:`quatgraph.data.node.edges_csv`.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.io.files import NO_ARRAYS
from quatgraph.data.io.numbers import column_numbers
from quatgraph.data.io.table import Table, read_table
from quatgraph.data.labels import encode_labels, label_notes
from quatgraph.data.node.assembly import as_columns, complete_data, dense
from quatgraph.data.node.edges_csv import read_edges
from quatgraph.data.splits import (
    SPLIT_WORDS,
    SplitMasks,
    check_split,
    part_numbers,
    stratified_split,
)
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

NOT_FEATURES = ("id", "label", "split")
_SPARSE = ("data", "indices", "indptr", "shape")


def read_folder(
    path: Path,
    *,
    directed: bool = False,
    split_seed: int = 0,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> "Data":
    """Reads the files of a folder; for the options see :func:`quatgraph.data.node.read`."""
    nodes, features = path / "nodes.csv", path / "features.npz"
    table = read_table(nodes)
    columns = _columns_by_name(table)
    index = _number_nodes(table, columns, labels_needed)
    feature_names = [key for key in columns if key not in NOT_FEATURES]
    x: Tensor | None = None
    if features.exists():
        if feature_names:
            raise UserError(
                f"{nodes} has the feature column {feature_names[0]!r} and {features} gives "
                "features too; keep one of the two"
            )
        x = _read_npz(features, len(index))
    elif feature_names:
        x = _parse_features(table, {key: columns[key] for key in feature_names})
    labels = columns.get("label", [""] * len(index))
    codes, label_names = encode_labels(labels, missing)
    y = torch.from_numpy(codes)
    if labels_needed and not label_names:
        raise UserError(f"no node in {nodes} has a label; fill in the column 'label'")
    masks = as_columns(
        _parse_split(table, columns["split"])
        if "split" in columns
        else stratified_split(y, split_seed)
    )
    if labels_needed:
        check_split(y, masks, label_names, where=f"the split of {nodes}")
    edge_index, edge_weight, notes = read_edges(path / "edges.csv", index, directed=directed)
    if labels_needed:
        notes += label_notes(labels, missing, ("node", "nodes"))
    from torch_geometric.data import Data

    graph = Data(
        name=path.resolve().name,
        x=x,
        y=y,
        edge_index=edge_index,
        edge_weight=edge_weight,
        label_names=label_names,
        directed=directed,
        node_ids=list(index),
        feature_names=feature_names,
        notes=notes,
    )
    return complete_data(graph, masks)


def _columns_by_name(table: Table) -> dict[str, list[str]]:
    """The cells of each column by its name."""
    if not len(table):
        raise UserError(
            f"{table.path} is empty; it needs a line of column names and a line per node"
        )
    header = table.row(0)
    for place, key in enumerate(header):
        if not key:
            raise UserError(f"column {place + 1} of {table.path} has no name; name or remove it")
        if key in header[:place]:
            raise UserError(f"{table.path} has two columns named {key!r}; rename or remove one")
    return {key: cells[1:] for key, cells in zip(header, table.columns, strict=True)}


def _number_nodes(
    table: Table, columns: Mapping[str, list[str]], labels_needed: bool
) -> dict[str, int]:
    """The number of each node by its id."""
    for key in ("id", "label") if labels_needed else ("id",):
        if key not in columns:
            found = ", ".join(list(columns)[:8]) + (", ..." if len(columns) > 8 else "")
            raise UserError(
                f"{table.path} has no column {key!r}, its columns are {found}; "
                f"name one of them {key!r}"
            )
    index: dict[str, int] = {}
    for number, node in enumerate(columns["id"]):
        if not node:
            raise UserError(f"{table.at(number + 1)} has no id; give every node one")
        if node in index:
            raise UserError(
                f"{table.at(number + 1)} repeats the node id {node!r}; list each node once"
            )
        index[node] = number
    if not index:
        raise UserError(f"{table.path} lists no nodes; add a line for each")
    return index


def _parse_split(table: Table, cells: list[str]) -> SplitMasks:
    part = torch.tensor(part_numbers(cells, SPLIT_WORDS, lambda row: table.at(row + 1)))
    return part == 0, part == 1, part == 2


def _parse_features(table: Table, columns: Mapping[str, list[str]]) -> Tensor:
    """Feature columns as ``(N, F)``; every cell must be a finite number."""
    x = np.empty((len(table) - 1, len(columns)), dtype=np.float32)
    for place, (key, cells) in enumerate(columns.items()):
        x[:, place] = column_numbers(cells, key, lambda row: table.at(row + 1))
    return torch.from_numpy(x)


def _read_npz(path: Path, num_nodes: int) -> Tensor:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in ("x", *_SPARSE) if key in archive.files}
    except NO_ARRAYS as error:
        raise UserError(
            f"{path} cannot be read as plain arrays ({error}); write it with numpy.savez or "
            "scipy.sparse.save_npz, without Python objects"
        ) from error
    if "x" in arrays:
        x = arrays["x"]
        if x.ndim != 2 or x.dtype.kind not in "fiub":
            raise UserError(
                f"'x' in {path} must be numbers of shape (nodes, features), not {x.shape}"
            )
    elif len(arrays) == len(_SPARSE):
        data, indices, indptr, shape = (arrays[key] for key in _SPARSE)
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise UserError(f"'shape' in {path} must be two whole numbers; write the file again")
        x = dense(data, indices, indptr, (int(shape[0]), int(shape[1])), where=str(path))
    else:
        raise UserError(f"{path} needs an array 'x', or 'data', 'indices', 'indptr' and 'shape'")
    if len(x) != num_nodes:
        raise UserError(
            f"{path} has {len(x)} rows but nodes.csv lists {num_nodes} nodes; "
            "give one row per node, in the order of nodes.csv"
        )
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
    if not np.isfinite(x).all():
        row, column = np.argwhere(~np.isfinite(x))[0]
        raise UserError(
            f"{path} has a value that is no finite number in row {row}, column {column} "
            "(counted from 0); replace it"
        )
    return torch.from_numpy(x)
