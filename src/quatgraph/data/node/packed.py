"""A graph as a folder of memory-mapped NumPy arrays.

``edge_index.npy`` ``(2, E)``, sender and receiver, is required. Optional are ``x.npy`` ``(N, F)``,
``y.npy`` ``(N,)``, ``edge_weight.npy`` ``(E,)``, and the split ``train.npy``, ``valid.npy``,
``test.npy``, each as node ids or as a mask ``(N,)`` or ``(N, S)``. ``names.json`` has the names of
nodes, classes and features, and how columns of a table became features. Edges are neither added nor
removed.

While a folder is written, a temporary file of ``edge_index.npy`` is there, which is renamed last.
Without a process that locks it, it is a leftover, and so are the other arrays.
"""

import io
import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.encoding import Encoding
from quatgraph.data.formats import EDGES, NODE_ARRAYS
from quatgraph.data.io.files import read_text
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.node.pyg import MASKS, from_data
from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError
from quatgraph.files import (
    ensure_folder,
    remove_leftovers,
    removed_if_empty,
    write_all,
    write_atomic,
)
from quatgraph.signals import cleanup_pending

if TYPE_CHECKING:
    from torch_geometric.data import Data

NAMES = "names.json"
_ARRAYS = ("x", "y", "edge_weight")
_FILES = (*NODE_ARRAYS, NAMES)
"""What a folder has besides the edges."""
_NAMED = ("node_ids", "label_names", "label_values", "feature_names")


def read_packed(path: Path, *, options: ReadOptions) -> "Data":
    """Reads a folder of arrays."""
    from torch_geometric.data import Data

    if not (path / EDGES).exists():
        raise UserError(
            f"there is no {path / EDGES}, which every graph of arrays needs; write it with "
            "numpy.save, or pack the graph again"
        )
    data = Data(name=path.resolve().name, edge_index=_map(path / EDGES))
    for key in _ARRAYS:
        if (path / f"{key}.npy").exists():
            data[key] = _map(path / f"{key}.npy")
    names = _read_names(path / NAMES)
    encoding = names.pop("encoding", None)
    for key, value in names.items():
        data[key] = value
    rows = {key: len(data[key]) for key in ("x", "y") if key in data}
    num_nodes = names.get("num_nodes") or max(rows.values(), default=0)
    for key, count in rows.items():
        if count != num_nodes:
            raise UserError(
                f"{path / key}.npy has {count:,} rows for {num_nodes:,} nodes; write it again, or "
                f"correct num_nodes in {NAMES}"
            )
    if not num_nodes and data.edge_index.numel():  # reading all edges takes long
        num_nodes = 1 + int(data.edge_index.max())
    data.num_nodes = num_nodes
    if any((path / f"{part}.npy").exists() for part in PARTS):
        for part, mask in zip(PARTS, MASKS, strict=True):
            data[mask] = _as_mask(path / f"{part}.npy", num_nodes)
    try:
        graph = from_data(data, split_seed=options.split_seed, labels_needed=options.labels_needed)
    except UserError as mistake:
        raise UserError(f"{path}: {mistake}") from None
    graph.encoding = None if encoding is None else Encoding.from_dict(encoding)
    return graph


def write_packed(data: "Data", path: Path) -> None:
    """Writes a graph of :mod:`quatgraph.data.node` as a folder of arrays; reading it gives an equal
    graph. A failed call leaves nothing behind.

    Raises:
        UserError: The folder is not empty, or cannot be written.
    """
    masks = dict(zip(PARTS, (data[mask] for mask in MASKS), strict=True))
    arrays = {key: data[key] for key in _ARRAYS if data.get(key) is not None} | masks
    names = {key: data[key] for key in _NAMED} | {"num_nodes": data.num_nodes}
    if not data.has_feature_names:
        del names["feature_names"]
    if data.get("encoding") is not None:
        names["encoding"] = data.encoding.to_dict()
    written = list[Path]()

    def write(edges: io.FileIO) -> None:
        if any(entry.name != Path(edges.name).name for entry in path.iterdir()):
            raise _taken(path)  # another process has begun
        with _removed_on_failure(written):
            for key, value in arrays.items():
                written.append(path / f"{key}.npy")
                write_atomic(written[-1], partial(_write_array, value=value))
            written.append(path / NAMES)
            write_atomic(written[-1], json.dumps(names))
            _write_array(edges, data.edge_index)
            os.fsync(edges.fileno())

    with cleanup_pending(), removed_if_empty(path):
        _prepare(path)
        with _removed_on_failure(written):
            write_atomic(path / EDGES, write)


def check_packable(path: Path) -> None:
    """Checks that a graph can be written to a folder: it is new or empty, besides what a killed
    process left, and writable."""
    with removed_if_empty(path):
        _prepare(path)


def _prepare(path: Path) -> None:
    """Creates the folder if needed, and removes what a killed process left of a graph."""
    if path.exists() and not path.is_dir():
        raise _taken(path)
    ensure_folder(path)
    if not (path / EDGES).exists():
        remove_leftovers(path / EDGES, [path / name for name in _FILES])
    if any(path.iterdir()):
        raise _taken(path)


def _taken(path: Path) -> UserError:
    return UserError(f"{path} exists and is not an empty folder; choose another")


@contextmanager
def _removed_on_failure(paths: list[Path]) -> Iterator[None]:
    """Removes files, each only once, if the block fails."""
    try:
        yield
    except BaseException:
        while paths:
            paths[-1].unlink(missing_ok=True)
            paths.pop()
        raise


def _write_array(file: io.FileIO, value: Tensor) -> None:
    array, header = value.contiguous().numpy(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    # Not by NumPy: where a disk is full, it does not say so.
    write_all(file, header.getvalue())
    write_all(file, array.reshape(-1).view(np.uint8).data)


def _map(path: Path) -> Tensor:
    """An array on disk as a tensor; changes of the tensor do not reach the file."""
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"there is no {path}; write it, or remove the other parts") from None
    except (OSError, EOFError, ValueError) as error:
        raise UserError(
            f"{path} is not a .npy file of numbers, or it is cut short; write it again with "
            "numpy.save"
        ) from error
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise UserError(f"{path} must hold one array with dimensions; write it with numpy.save")
    wide = array.dtype.kind == "u" and array.dtype.itemsize > 1  # for which torch lacks operations
    if array.dtype.kind not in "fiub" or not array.dtype.isnative or wide:
        raise UserError(
            f"{path} must hold numbers in native byte order, signed ones if whole, not "
            f"{array.dtype}; write it as numpy.int64 or numpy.float32"
        )
    return torch.from_numpy(array)


def _as_mask(path: Path, num_nodes: int) -> Tensor:
    """A part of the split as a mask; a file of whole numbers holds node ids."""
    part = _map(path)
    if part.dtype in (torch.bool, torch.uint8):
        return part
    if part.is_floating_point() or part.dim() != 1:
        raise UserError(f"{path} must hold node ids or a mask")
    ids = part.long()
    if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < num_nodes:
        raise UserError(f"{path} names nodes outside 0..{num_nodes - 1}; write it again")
    return torch.zeros(num_nodes, dtype=torch.bool).index_fill(0, ids, True)


def _read_names(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    wrong = f"{path} may hold the lists {', '.join(_NAMED)}, the number num_nodes and an encoding"
    try:
        found = json.loads(read_text(path))
    except ValueError:
        raise UserError(f"{wrong}; it is not JSON") from None
    if not isinstance(found, dict):
        raise UserError(wrong)
    types = dict.fromkeys(_NAMED, list) | {"num_nodes": int, "encoding": dict}
    for key, value in found.items():
        if not isinstance(value, types.get(key, ())) or isinstance(value, bool):
            raise UserError(f"{wrong}; {key!r} is none of them")
    if not 0 <= found.get("num_nodes", 0) < 1 << 31:
        raise UserError(f"{path}: num_nodes must be from 0 to 2^31 - 1, got {found['num_nodes']}")
    ids = list(map(str, found.get("node_ids", [])))
    if len(set(ids)) < len(ids):
        repeated = next(name for name, count in Counter(ids).items() if count > 1)
        raise UserError(f"{path}: node_ids must differ, but {repeated!r} is there twice")
    return found
