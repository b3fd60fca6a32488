"""A graph in a folder with the tables ``nodes`` and ``edges`` and optional ``features.npz``.

A table is a ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` or ``.parquet`` file. For the columns of
``nodes`` see :mod:`quatgraph.data.node.table`, for those of ``edges``
:mod:`quatgraph.data.node.edges`. ``features.npz`` may hold the features instead: an array ``x``
``(N, F)``, or the arrays ``data``, ``indices``, ``indptr`` and ``shape`` of a sparse matrix, with
rows in the order of ``nodes``.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.io.files import NO_ARRAYS
from quatgraph.data.io.frame import find_files, read_frame
from quatgraph.data.node.assembly import dense
from quatgraph.data.node.edges import read_edges
from quatgraph.data.node.options import DEFAULTS, ReadOptions
from quatgraph.data.node.table import Features, NodeTable
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

_SPARSE = ("data", "indices", "indptr", "shape")


def read_folder(path: Path, options: ReadOptions = DEFAULTS) -> "Data":
    """Reads the files of a folder."""
    nodes = NodeTable.from_frame(read_frame(_find_table(path, "nodes"), "node"), options)
    features = _read_features(path / "features.npz", nodes)
    edges = read_edges(_find_table(path, "edges"), nodes.index, options)
    return nodes.assemble(edges, options, name=path.resolve().name, features=features)


def _find_table(folder: Path, stem: str) -> Path:
    found = find_files(folder, stem)
    if len(found) > 1:
        raise UserError(f"{folder} holds {found[0].name} and {found[1].name}; keep one of the two")
    if not found:
        raise UserError(
            f"there is no file {folder / stem}.csv, and no {stem} in another format; put it there "
            "or name another place"
        )
    return found[0]


def _read_features(path: Path, nodes: NodeTable) -> Features | None:
    if not path.exists():
        return None
    if columns := nodes.feature_columns:
        raise UserError(
            f"{nodes.frame.where} has the feature column {columns[0]!r} and {path} gives features "
            "too; keep one of the two"
        )
    return _read_npz(path, len(nodes.index)), []


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
