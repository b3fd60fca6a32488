"""What all readers of node-classification graphs need: attributes, masks, sparse features."""

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.labels import label_type
from quatgraph.data.splits import SplitMasks
from quatgraph.data.tensors import hash_tensor
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

MAX_NUMBERS = 2**30
"""Maximum size of a dense matrix (4 GiB): a wrong shape must not fill the memory."""


def complete_data(data: "Data", masks: SplitMasks) -> "Data":
    """Adds to a graph what :mod:`quatgraph.data.node` promises, such as its masks and digest.

    Nodes without ids are numbered, and so are features without names. Unlabelled nodes leave the
    masks, which are train, valid and test, ``(N, S)`` each.
    """
    labelled = (data.y >= 0).unsqueeze(1)
    data.train_mask, data.val_mask, data.test_mask = (mask & labelled for mask in masks)
    if data.x is not None and data.x.size(1) == 0:
        data.x = None
    # PyG would have to guess it from the edges of a graph without features.
    data.num_nodes = data.y.numel()
    data.node_ids = data.get("node_ids") or [str(node) for node in range(data.num_nodes)]
    num_features = 0 if data.x is None else data.x.size(1)
    data.has_feature_names = data.get("feature_names") is not None
    data.feature_names = data.get("feature_names") or default_feature_names(num_features)
    data.label_values = data.get("label_values") or list(data.label_names)
    data.label_type = label_type(data.label_values)
    data.encoding = data.get("encoding")
    data.notes = data.get("notes") or []
    data.digest = digest(data)
    return data


def default_feature_names(count: int) -> list[str]:
    """Names for features without names."""
    return [f"x{column}" for column in range(count)]


def digest(data: "Data") -> str:
    """A sha256 of everything that can change a result: arrays, splits, ids and names.

    It does not depend on the source of the graph or its name.
    """
    total = hashlib.sha256(b"quatgraph node data 1")
    for key in ("x", "y", "edge_index", "edge_weight", "train_mask", "val_mask", "test_mask"):
        value = data.get(key)
        if value is None:
            total.update(f"\n{key} none".encode())
        else:
            hash_tensor(total, key, value)
    names = [data.node_ids, data.label_names, data.feature_names, data.directed]
    total.update(json.dumps(names).encode())
    return total.hexdigest()


def as_columns(masks: SplitMasks) -> SplitMasks:
    """Masks ``(N,)`` or ``(N, S)`` as ``(N, S)``."""
    train, valid, test = (mask.reshape(mask.size(0), -1) for mask in masks)
    return train, valid, test


def dense(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
    *,
    where: str,
) -> NDArray[np.float32]:
    """The dense form of a CSR matrix of the file ``where``; repeated entries are summed."""
    wrong = f"{where} does not hold a valid sparse matrix"
    rows, columns = shape
    if rows < 0 or columns < 0 or rows * columns > MAX_NUMBERS:
        raise UserError(f"{wrong}: its shape is {rows} x {columns}; write the file again")
    if any(a.ndim != 1 for a in (data, indices, indptr)) or len(indptr) != rows + 1:
        raise UserError(f"{wrong}: its arrays do not fit {rows} rows; write the file again")
    if data.dtype.kind not in "fiub" or any(a.dtype.kind not in "iu" for a in (indices, indptr)):
        raise UserError(f"{wrong}: its arrays are not numbers; write the file again")
    ptr, column = indptr.astype(np.int64), indices.astype(np.int64)
    lengths = np.diff(ptr)
    if ptr[0] != 0 or (lengths < 0).any() or not ptr[-1] == len(data) == len(column):
        raise UserError(f"{wrong}: its indptr is out of order; write the file again")
    if len(column) and not 0 <= column.min() <= column.max() < columns:
        raise UserError(
            f"{wrong}: a column number is outside 0..{columns - 1}; write the file again"
        )
    matrix = np.zeros((rows, columns), dtype=np.float32)
    with np.errstate(over="ignore"):  # infinite values are refused later, by name
        np.add.at(matrix, (np.repeat(np.arange(rows), lengths), column), data.astype(np.float32))
    return matrix
