"""Planetoid's citation networks with Geom-GCN's ten splits.

Planetoid's files are Python 2 pickles that name numpy's and scipy's classes. A pickle is a program,
so they are read with stand-ins that only store their arguments: a file runs no code of numpy, scipy
or anything else, and the arrays are built after checking.
"""

import io
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.edges import merge_edges
from quatgraph.data.io.files import NO_ARRAYS
from quatgraph.data.io.store import read_bytes
from quatgraph.data.node.assembly import MAX_NUMBERS, complete_data, dense
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

NUM_SPLITS = 10
_NUMBERS = ("f4", "f8", "i4", "i8")
_BYTE_ORDERS = ("<", ">", "|", "=")


def read_planetoid(name: str) -> "Data":
    """Reads ``cora``, ``citeseer`` or ``pubmed``.

    Features are as stored, not normalized. Edges have both directions, without repeated ones and
    self-loops.

    Fifteen nodes of Citeseer (gaps in Planetoid's test index) have neither words nor a label. They
    keep their place, with zero features, label ``-1`` and their one or two edges each. Geom-GCN's
    loader gives them class 0 and its splits include them; here they are in no mask. Splits 4 and 5
    of Citeseer and all splits of Cora leave further nodes out.
    """
    paths = {suffix: f"ind.{name}.{suffix}" for suffix in ("allx", "ally", "tx", "ty", "graph")}
    files = {suffix: unpickle(read_bytes(name, p), where=p) for suffix, p in paths.items()}
    tested = _test_index(read_bytes(name, f"ind.{name}.test.index"), f"ind.{name}.test.index")
    x, y = _nodes(files, tested, where=f"ind.{name}")
    sender, receiver = _links(files["graph"], len(y), where=f"ind.{name}.graph")
    edge_index, _ = merge_edges(sender, receiver, len(y), directed=False)
    splits = [_split(name, number, len(y)) for number in range(NUM_SPLITS)]
    train, valid, test = torch.stack(splits, dim=-1)
    from torch_geometric.data import Data

    graph = Data(
        name=name,
        x=torch.from_numpy(x),
        y=torch.from_numpy(y),
        edge_index=edge_index,
        label_names=[str(label) for label in range(int(y.max()) + 1)],
        directed=False,
    )
    return complete_data(graph, (train, valid, test))


def unpickle(content: bytes, *, where: str) -> Any:
    """The content of a pickle of arrays, sparse matrices, lists and dictionaries.

    Stand-ins replace numpy's and scipy's classes, see :func:`to_array` and :func:`to_matrix`. A
    pickle that names anything else is refused.
    """
    try:
        return _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except UserError as mistake:
        raise UserError(f"{where} {mistake}; get the published file") from None
    except Exception as error:  # a broken pickle may raise nearly anything
        raise UserError(f"{where} is not a readable pickle; get the published file") from error


class _StandIn:
    """Stores the arguments and the state of an object."""

    given: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *given: Any) -> None:
        self.given = given

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Links(dict[Any, Any]):
    """Stand-in for ``defaultdict``."""

    def __init__(self, *given: object) -> None:
        super().__init__()


_STAND_INS: dict[tuple[str, str], type] = {
    ("numpy", "ndarray"): _StandIn,
    ("numpy", "dtype"): _StandIn,
    # numpy 2 moved this module; the files have the old name.
    ("numpy.core.multiarray", "_reconstruct"): _StandIn,
    ("numpy._core.multiarray", "_reconstruct"): _StandIn,
    ("scipy.sparse.csr", "csr_matrix"): _StandIn,
    ("scipy.sparse._csr", "csr_matrix"): _StandIn,
    ("collections", "defaultdict"): _Links,
    ("__builtin__", "list"): _StandIn,
    ("builtins", "list"): _StandIn,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _STAND_INS.get((module, name))
        if known is None:
            raise UserError(f"names {module}.{name}, which no data file needs, and was not read")
        # A new class for each mention: a pickle can set attributes of a class.
        return type(known.__name__, (known,), {})


def to_array(value: Any, where: str) -> NDArray[Any]:
    """The array of a stand-in; a damaged one is a :class:`UserError`."""
    try:
        _, shape, dtype, fortran, content = value.state
        code, order = dtype.given[0], dtype.state[1]
        known = code in _NUMBERS and order in _BYTE_ORDERS
        sizes = all(type(size) is int and 0 <= size <= MAX_NUMBERS for size in shape)
        if not known or not sizes or len(shape) > 2 or type(content) is not str:
            raise ValueError("not an array of numbers")
        flat = np.frombuffer(content.encode("latin1"), dtype=order + code)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{where} holds a damaged array; get the published file") from error


def to_matrix(value: Any, where: str) -> NDArray[np.float32]:
    """The sparse matrix of a stand-in, made dense; a damaged one is a :class:`UserError`."""
    try:
        rows, columns = value.state["_shape"]
        if not (type(rows) is int and type(columns) is int):
            raise TypeError("sizes must be whole numbers")
        parts = [value.state[key] for key in ("data", "indices", "indptr")]
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise UserError(f"{where} holds no sparse matrix; get the published file") from error
    data, indices, indptr = (to_array(part, where) for part in parts)
    return dense(data, indices, indptr, (rows, columns), where=where)


def _nodes(
    files: dict[str, Any], tested: NDArray[np.int64], *, where: str
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Features and classes in the graph's order: first ``all*``, then the tested nodes."""
    x, tx = (to_matrix(files[suffix], f"{where}.{suffix}") for suffix in ("allx", "tx"))
    y, ty = (to_array(files[suffix], f"{where}.{suffix}") for suffix in ("ally", "ty"))
    known = len(x)
    if not (
        y.ndim == ty.ndim == 2
        and y.dtype.kind == ty.dtype.kind == "i"
        and x.shape[1] == tx.shape[1]
        and y.shape[1] == ty.shape[1] > 0
        and len(y) == known
        and len(tx) == len(ty) == len(tested) > 0
        and tested.min() >= known
        and tested.max() < known + 2 * len(tested)
        and len(np.unique(tested)) == len(tested)
    ):
        raise UserError(f"the files of {where} do not fit each other; get the published ones")
    num_nodes = int(tested.max()) + 1
    features = np.zeros((num_nodes, x.shape[1]), dtype=np.float32)
    features[:known], features[tested] = x, tx
    one_hot = np.zeros((num_nodes, y.shape[1]), dtype=np.int64)
    one_hot[:known], one_hot[tested] = y, ty
    return features, np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)


def _test_index(content: bytes, where: str) -> NDArray[np.int64]:
    try:
        return np.array([int(line) for line in content.split()], dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise UserError(f"{where} is not a list of numbers; get the published file") from error


def _links(graph: object, num_nodes: int, *, where: str) -> NDArray[np.int64]:
    """Both ends of each edge in a dictionary of neighbours, ``(2, E)``."""
    if not isinstance(graph, dict) or not all(type(ends) is list for ends in graph.values()):
        raise UserError(f"{where} holds no lists of neighbours; get the published file")
    pairs = [(node, end) for node, ends in graph.items() for end in ends]
    if not all(type(v) is int and 0 <= v < num_nodes for pair in pairs for v in pair):
        raise UserError(
            f"{where} links a node that is none of the {num_nodes}; get the published file"
        )
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _split(name: str, number: int, num_nodes: int) -> Tensor:
    """Train, valid and test masks of a split, ``(3, N)``."""
    file = f"splits/{name}_split_0.6_0.2_{number}.npz"
    content = read_bytes(name, file)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            masks = [archive[f"{part}_mask"] for part in ("train", "val", "test")]
    except NO_ARRAYS as error:
        raise UserError(f"{file} of {name} holds no masks; get the published file") from error
    if any(m.shape != (num_nodes,) or m.dtype not in (np.bool_, np.uint8) for m in masks):
        raise UserError(f"{file} of {name} does not fit {num_nodes} nodes; get the published file")
    return torch.from_numpy(np.stack(masks).astype(np.bool_))
