"""Runs a model layer by layer: on sampled nodes, or on a whole graph in chunks.

A layer of a message-passing model is two functions: ``send(x)`` maps the vectors of all nodes row
by row, and ``receive(sent, x, matrix, begin)`` sums what the rows of a matrix receive. The rows of
the matrix are the nodes from ``begin`` on; its columns are all nodes. A model with such layers
accepts a whole :class:`Adjacency`, :class:`Hops` or :class:`Chunks`, see :func:`run_layer`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.entries import stable_sort
from quatgraph.ops.csr import index2ptr
from quatgraph.sampling import Sample

X = TypeVar("X", Tensor, Tensor | Adjacency)
Send = Callable[[Any], Tensor]
Receive = Callable[[Tensor, Any, Adjacency, int], Tensor]
CHUNK = 1 << 20
"""What a chunk of a graph costs, counted in entries; a row costs :data:`ROW`."""
ROW = 16
_SMALLEST = 256  # sizes below it are not worth a shape of their own


def run_layer(
    graph: "Adjacency | Hops | Chunks", layer: int, x: Any, send: Send, receive: Receive
) -> Tensor:
    """The vectors after a layer, counted from 0: of all nodes, or of those that later layers of a
    sample need."""
    if isinstance(graph, Chunks):
        return graph.run(layer, x, send, receive)
    matrix = graph.matrices[layer] if isinstance(graph, Hops) else graph
    return receive(send(x), x, matrix, 0)


def own_rows(x: X, matrix: Adjacency, begin: int = 0) -> X:
    """Of the vectors of all columns of a matrix, those of its rows."""
    rows = matrix.shape[0]
    if rows == x.shape[0]:
        return x
    assert isinstance(x, Tensor)
    return x[begin : begin + rows]


@dataclass(frozen=True, slots=True, eq=False)
class Hops:
    """The matrices that the layers of a model multiply by on sampled nodes.

    The rows of a matrix are its first columns, and the columns of the next matrix. The first layer
    computes all nodes except those of the last hop, the last layer only the nodes to predict.

    Attributes:
        nodes: The nodes, ``(N,)``: the columns of the first matrix.
        matrices: One per layer, the first layer first.
    """

    nodes: Tensor
    matrices: tuple[Adjacency, ...]

    @classmethod
    def of(cls, matrix: Adjacency, sample: Sample) -> "Hops":
        """The entries of a matrix that :meth:`NeighborSampler.of` has drawn, with weights whose
        sums are those of the whole rows on average."""
        sender, receiver = sample.edge_index.int().unbind()
        weight = matrix.weight.index_select(0, sample.e_id) * sample.scale.to(matrix.weight.dtype)
        nodes, edges = sample.num_sampled_nodes, sample.num_sampled_edges
        rowptr = index2ptr(receiver, sum(nodes[:-1]))
        matrices = []
        for hop in reversed(range(len(edges))):
            rows, count = sum(nodes[: hop + 1]), sum(edges[: hop + 1])
            columns = rows + nodes[hop + 1]
            t_sorted, t_order = stable_sort(sender[:count], columns)
            matrices.append(
                Adjacency(
                    rowptr=rowptr[: rows + 1],
                    col=sender[:count],
                    weight=weight[:count],
                    t_rowptr=index2ptr(t_sorted, columns),
                    t_col=receiver[:count].index_select(0, t_order),
                    t_perm=t_order.int(),
                )
            )
        return cls(sample.n_id, tuple(matrices))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of the first matrix, then rows and entries of each: what decides the shape."""
        each = [size for m in self.matrices for size in (m.shape[0], m.num_edges)]
        return (len(self.nodes), *each)

    def padded(self) -> "Hops":
        """The same hops, each size rounded up to one of few. Padding nodes come last and are node
        0; padding entries have weight 0, are in padding rows and columns, and are spread over them.
        The host does not wait for the device."""
        columns, *each = map(round_up, self.sizes)
        nodes = self.nodes.new_zeros(columns)
        nodes[: len(self.nodes)] = self.nodes
        matrices = []
        for matrix, rows, entries in zip(self.matrices, each[::2], each[1::2], strict=True):
            matrices.append(_pad(matrix, rows, columns, entries))
            columns = rows
        return Hops(nodes, tuple(matrices))

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor, in a fixed order."""
        yield self.nodes
        for matrix in self.matrices:
            yield from (matrix.rowptr, matrix.col, matrix.weight)
            yield from (matrix.t_rowptr, matrix.t_col, matrix.t_perm)


def round_up(size: int) -> int:
    """The next larger power of the cube root of two, as a multiple of eight; larger than the size,
    so that padding has a place."""
    thirds = math.ceil(3 * math.log2(max(size + 1, _SMALLEST)) - 1e-9)
    return -(-math.ceil(2 ** (thirds / 3)) // 8) * 8


def _pad(matrix: Adjacency, rows: int, columns: int, entries: int) -> Adjacency:
    """A matrix with more rows, columns and entries, at least one of each."""
    (own_rows, own_columns), own = matrix.shape, matrix.num_edges
    extra, device = entries - own, matrix.device

    def spread(ptr: Tensor, places: int) -> tuple[Tensor, Tensor]:
        """Row pointers with more rows, and the place of each padding entry among these."""
        ends = own + torch.arange(1, places + 1, device=device) * extra // places
        entry = torch.arange(1, extra + 1, device=device)
        return torch.cat((ptr, ends.int())), ((entry * places - 1) // extra).int()

    rowptr, row = spread(matrix.rowptr, rows - own_rows)
    t_rowptr, column = spread(matrix.t_rowptr, columns - own_columns)
    position = torch.arange(own, entries, device=device, dtype=torch.int32)
    return Adjacency(
        rowptr=rowptr,
        col=torch.cat((matrix.col, own_columns + column)),
        weight=torch.cat((matrix.weight, matrix.weight.new_zeros(extra))),
        t_rowptr=t_rowptr,
        t_col=torch.cat((matrix.t_col, own_rows + row)),
        t_perm=torch.cat((matrix.t_perm, position)),
    )


class Chunks:
    """A whole graph whose layers are computed in chunks of nodes, without gradients.

    Memory holds two layers at a time: the vectors that nodes send and those that they receive. What
    a chunk adds is small. The entries of a row always stay together.

    Args:
        matrix: The matrix of the graph.
        cost: Cost of a chunk, at least one row; a chunk may exceed it by up to one row.
    """

    def __init__(self, matrix: Adjacency, cost: int = CHUNK) -> None:
        self.matrix = matrix
        rowptr = matrix.rowptr.cpu().long()
        total = rowptr + ROW * torch.arange(len(rowptr))
        wanted = torch.arange(cost, max(int(total[-1]), cost), cost)
        inner = torch.searchsorted(total, wanted, right=True) - 1
        rows = torch.cat((inner, torch.tensor([0, len(rowptr) - 1]))).unique()
        self.bounds = list(zip(rows.tolist(), rowptr[rows].tolist(), strict=True))
        """The first row and the first entry of each chunk, then the numbers of all."""

    def run(self, layer: int, x: Any, send: Send, receive: Receive) -> Tensor:
        """See :func:`run_layer`. The vectors of an earlier layer may be overwritten."""
        sent = self._map(x, send) if isinstance(x, Tensor) else send(x)
        made: Tensor | None = None
        for (begin, first), (end, last) in pairwise(self.bounds):
            matrix = self._rows(begin, end, first, last)
            y = receive(sent, x, matrix, begin)
            if made is None:
                free = layer > 0 and sent is not x and x.shape[1:] == y.shape[1:]
                made = x if free else y.new_empty(len(x), *y.shape[1:])
            made[begin:end] = y
        assert made is not None
        return made

    def _map(self, x: Tensor, send: Send) -> Tensor:
        made: Tensor | None = None
        for (begin, _), (end, _) in pairwise(self.bounds):
            part = x[begin:end]
            if (y := send(part)) is part:
                return x
            made = y.new_empty(len(x), *y.shape[1:]) if made is None else made
            made[begin:end] = y
        assert made is not None
        return made

    def _rows(self, begin: int, end: int, first: int, last: int) -> Adjacency:
        """Rows of the matrix, without a transpose: there are no gradients."""
        whole = self.matrix
        return Adjacency(
            rowptr=whole.rowptr[begin : end + 1] - first,
            col=whole.col[first:last],
            weight=whole.weight[first:last],
            t_rowptr=whole.t_rowptr,  # for the number of columns
            t_col=whole.t_col[:0],
            t_perm=whole.t_perm[:0],
            product_dtype=whole.product_dtype,
        )
