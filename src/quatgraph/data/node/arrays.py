"""NumPy arrays and SciPy sparse matrices as a graph."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.encoding import encode
from quatgraph.data.io.frame import Frame, is_frame, to_frame
from quatgraph.data.labels import encode_labels
from quatgraph.data.node.assembly import MAX_NUMBERS
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.node.pyg import MASKS, from_data
from quatgraph.data.pyg import check_features
from quatgraph.errors import UserError, check_known

if TYPE_CHECKING:
    from torch_geometric.data import Data

ARRAYS = (
    *("adjacency", "edge_index", "edge_weight", "x", "y", "node_ids", "feature_names"),
    *MASKS,
)
"""The arrays of a graph."""


def is_matrix(value: object) -> bool:
    """Whether an object is an array or a sparse matrix."""
    return hasattr(value, "tocoo") or isinstance(value, np.ndarray | Tensor)


def from_arrays(arrays: Mapping[str, Any], options: ReadOptions) -> "Data":
    """Checks the arrays of a graph and returns a node graph.

    Args:
        arrays: ``adjacency`` ``(N, N)``, in which row i lists the edges from node i, or
            ``edge_index`` ``(2, E)`` with optional ``edge_weight``. ``x`` ``(N, F)`` may be sparse
            or a frame. ``y`` holds a label of any type per node; None, NaN, an empty text and -1
            are missing. ``node_ids``, ``feature_names`` and the three masks are optional.
    """
    from torch_geometric.data import Data

    for name in arrays:
        check_known(str(name), ARRAYS, f"a graph has no array {name!r}")
    given: dict[str, Any] = {key: value for key, value in arrays.items() if value is not None}
    if ("adjacency" in given) == ("edge_index" in given):
        raise UserError("the arrays of a graph need either 'adjacency' or 'edge_index'")
    data = Data()
    if "adjacency" in given:
        data.edge_index, data.edge_weight, data.num_nodes = _read_adjacency(given["adjacency"])
    else:
        data.edge_index = _to_tensor(given["edge_index"], "edge_index")
    for key in ("edge_weight", *MASKS):
        if key in given:
            data[key] = _to_tensor(given[key], key)
    for key in ("node_ids", "feature_names"):
        if key in given:
            data[key] = list(given[key])
    encoding, notes = None, []
    if is_frame(given.get("x")):
        frame = to_frame(given["x"], "x")
        encoded = encode(frame, list(frame.columns), options.encoding)
        encoding, notes = encoded.encoding, encoded.notes
        data.x, data.feature_names = torch.from_numpy(encoded.x), encoding.feature_names
    elif "x" in given:
        data.x = _read_features(given["x"])
    if "y" in given:
        data.y, data.label_names, data.label_values = _read_labels(given["y"], options.missing)
    graph = from_data(data, split_seed=options.split_seed, labels_needed=options.labels_needed)
    graph.encoding, graph.notes = encoding, [*notes, *graph.notes]
    return graph


def _read_adjacency(matrix: Any) -> tuple[Tensor, Tensor | None, int]:
    """Edges, weights (None if all are 1) and number of nodes."""
    shape = tuple(getattr(matrix, "shape", ()))
    if len(shape) != 2 or shape[0] != shape[1]:
        raise UserError(f"'adjacency' must be a square matrix, not of shape {shape}")
    if hasattr(matrix, "tocoo"):
        entries = matrix.tocoo()
        row, column, weight = entries.row, entries.col, np.asarray(entries.data)
        kept = weight != 0
        row, column, weight = row[kept], column[kept], weight[kept]
    else:
        plain = _to_array(matrix, "adjacency")
        row, column = plain.nonzero()
        weight = plain[row, column]
    if weight.dtype.kind not in "fiub":
        raise UserError("'adjacency' must hold numbers")
    bad = ~(np.isfinite(weight.astype(np.float32)) & (weight >= 0))
    if bad.any():
        place = int(bad.argmax())
        raise UserError(
            f"adjacency[{row[place]}, {column[place]}] is {weight[place]}; weights must be finite "
            "and zero or more"
        )
    edges = torch.from_numpy(np.stack((row, column)).astype(np.int64))
    ones = bool((weight == 1).all())
    return edges, None if ones else torch.from_numpy(weight.astype(np.float32)), shape[0]


def _read_features(x: Any) -> Tensor:
    if hasattr(x, "todense") and hasattr(x, "tocoo"):
        if x.shape[0] * x.shape[1] > MAX_NUMBERS:
            raise UserError(f"'x' of shape {x.shape} is too large for a dense matrix")
        x = x.toarray()
    return check_features(_to_tensor(x, "x").float(), "x")


def _read_labels(y: Any, missing: Sequence[str]) -> tuple[Tensor, list[str], list[Any]]:
    values = y.tolist() if hasattr(y, "tolist") else list(y)
    words = Frame("y", {"y": values}, "y[{}]".format).words("y")
    unlabelled = [*missing, *(["-1"] if -1 in values else [])]
    codes, names = encode_labels(words, unlabelled)
    first = dict(zip(reversed(words), reversed(values), strict=True))
    return torch.from_numpy(codes), names, [first[name] for name in names]


def _to_tensor(value: Any, name: str) -> Tensor:
    array = _to_array(value, name)
    if array.dtype.kind not in "fiub":
        raise UserError(f"{name!r} must hold numbers, not {array.dtype}")
    return torch.from_numpy(np.ascontiguousarray(array))


def _to_array(value: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name!r} cannot be read as an array ({error})") from error
