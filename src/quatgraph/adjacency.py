"""The sparse matrix of graphs and of bag-of-words features."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.entries import add_loops, check_range, merge_duplicates, stable_sort
from quatgraph.errors import UserError
from quatgraph.ops import aggregate
from quatgraph.ops.csr import index2ptr

Normalization = Literal["none", "row", "symmetric"]
Duplicates = Literal["keep", "merge"]
INTEGER_TYPES = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64
"""The types of node ids."""
SPARSE_BELOW = 0.2
"""Features with a smaller share of non-zero numbers are kept sparse."""


@dataclass(frozen=True, slots=True, eq=False)
class Adjacency:
    r"""A sparse matrix :math:`\mathbf{A}` prepared once for many products.

    Row ``v`` lists the senders ``u`` of node ``v``; ``weight`` holds :math:`a_{v,u}`. Build one
    with :meth:`from_edge_index` and refine it by chaining::

        Adjacency.from_edge_index(edge_index, n).with_self_loops().normalized("symmetric")

    It may be rectangular, as sparse features are. It is a pytree of its tensors.

    Attributes:
        rowptr: Row pointers, int32 ``(R + 1,)``.
        col: Sender of each entry, int32 ``(E,)``.
        weight: Value of each entry, ``(E,)``.
        t_rowptr: Row pointers of the transpose, int32 ``(C + 1,)``.
        t_col: Columns of the transpose, int32 ``(E,)``.
        t_perm: The position in ``weight`` of each of the transpose's entries, int32 ``(E,)``.
        product_dtype: See :func:`quatgraph.aggregate`.

    Example:
        >>> a = Adjacency.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
        >>> (a @ torch.tensor([[1.0], [10.0], [100.0]])).flatten()
        tensor([ 0.,  1., 10.])
    """

    rowptr: Tensor
    col: Tensor
    weight: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    t_perm: Tensor
    product_dtype: torch.dtype | None = None

    @classmethod
    def from_entries(
        cls,
        row: Tensor,
        col: Tensor,
        weight: Tensor | None,
        shape: tuple[int, int],
        *,
        duplicates: Duplicates = "keep",
    ) -> Self:
        """Builds the matrix from its entries ``(row, col, weight)``, each ``(E,)``.

        Args:
            duplicates: ``"keep"`` keeps repeated entries, which add up in every product;
                ``"merge"`` merges them and sums their weights (without weights: 1).
        """
        if duplicates not in ("keep", "merge"):
            raise UserError(f"duplicates must be 'keep' or 'merge', got {duplicates!r}")
        check_range(row, shape[0])
        check_range(col, shape[1])
        if duplicates == "merge":
            row, col, weight = merge_duplicates(row, col, weight, shape[1])
        return cls._from_valid(row, col, weight, shape)

    @classmethod
    def _from_valid(
        cls,
        row: Tensor,
        col: Tensor,
        weight: Tensor | None,
        shape: tuple[int, int],
        normalization: Normalization = "none",
    ) -> Self:
        """Builds the matrix from entries in range."""
        if row.numel() >= 1 << 31:
            raise UserError(f"a matrix may have 2^31 - 1 entries, got {row.numel()}")
        if weight is None:
            weight = torch.ones(row.numel(), device=row.device)
        # Stable sorts preserve the order of a row's entries, and so the rounding of sums.
        sorted_row, order = stable_sort(row.int(), shape[0])
        sorted_col = col.int().index_select(0, order)
        t_sorted, t_order = stable_sort(sorted_col, shape[1])
        made = cls(
            rowptr=index2ptr(sorted_row, shape[0]),
            col=sorted_col,
            weight=weight.index_select(0, order),
            t_rowptr=index2ptr(t_sorted, shape[1]),
            t_col=sorted_row.index_select(0, t_order),
            t_perm=t_order.int(),
        )
        return made._normalized(normalization, sorted_row)

    @classmethod
    def from_edge_index(
        cls,
        edge_index: Tensor,
        num_nodes: int,
        weight: Tensor | None = None,
        *,
        self_loops: bool = False,
        normalization: Normalization = "none",
        duplicates: Duplicates = "keep",
    ) -> Self:
        """Reads a PyG-style ``edge_index`` ``(2, E)`` of sender-receiver pairs.

        Args:
            weight: ``(E,)`` or ``(E, 1)``; 1 for every edge by default.
            self_loops: As :meth:`with_self_loops`.
            normalization: As :meth:`normalized`, with the loops.
            duplicates: As :meth:`from_entries`.
        """
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise UserError(f"edge_index must have the shape (2, E), got {tuple(edge_index.shape)}")
        if edge_index.dtype not in INTEGER_TYPES:
            raise UserError("edge_index must hold integers: use edge_index.long()")
        sender, receiver = edge_index.int().unbind()
        if weight is not None:
            if not isinstance(weight, Tensor):
                raise UserError(f"weights must be a tensor, got a {type(weight).__name__}")
            if weight.shape not in (sender.shape, (*sender.shape, 1)):
                raise UserError(
                    f"there must be one weight per edge: {tuple(weight.shape)} weights came with "
                    f"{sender.numel()} edges"
                )
            weight = weight.view_as(sender)
            weight = weight if weight.is_floating_point() else weight.float()
        check_range(edge_index, num_nodes)
        if duplicates == "merge":
            receiver, sender, weight = merge_duplicates(receiver, sender, weight, num_nodes)
        if self_loops:
            receiver, sender, weight = add_loops(receiver, sender, weight, num_nodes)
        shape = num_nodes, num_nodes
        return cls._from_valid(receiver, sender, weight, shape, normalization)

    @classmethod
    def from_dense(cls, x: Tensor) -> Self:
        """The non-zeros of a dense matrix, such as bag-of-words features."""
        row, col = x.nonzero(as_tuple=True)
        return cls._from_valid(row, col, x[row, col], (x.size(0), x.size(1)))

    @classmethod
    def of(
        cls,
        edges: "Tensor | Adjacency",
        num_nodes: int,
        weight: Tensor | None = None,
        *,
        self_loops: bool = True,
        normalization: Normalization = "symmetric",
        dtype: torch.dtype | None = None,
    ) -> "Adjacency":
        """Converts any graph that a PyG convolution takes.

        Args:
            edges: An ``edge_index`` ``(2, E)`` or PyG's ``EdgeIndex``; a sparse torch matrix
                ``(N, N)`` whose rows are receivers (PyG's ``adj_t``); or an :class:`Adjacency`,
                which is returned unchanged. Present loops keep their weight; PyG's ``GCNConv`` adds
                to the loops of a sparse matrix.
            dtype: The type of default weights; torch's default type if None.
        """
        if isinstance(edges, Adjacency):
            if weight is not None:
                raise UserError("an Adjacency holds its own weights: leave out edge_weight")
            return edges
        if not isinstance(edges, Tensor):
            raise UserError(
                "edge_index must be a tensor of the shape (2, E), a sparse torch matrix or an "
                f"Adjacency, got a {type(edges).__name__}"
            )
        edge_index: Tensor = edges
        if edges.layout != torch.strided:
            if weight is not None:
                raise UserError("a sparse matrix holds its own weights: leave out edge_weight")
            if edges.shape != (num_nodes, num_nodes):
                raise UserError(
                    f"a sparse matrix of {num_nodes} nodes must have the shape "
                    f"{(num_nodes, num_nodes)}, got {tuple(edges.shape)}"
                )
            coo = edges.to_sparse_coo().coalesce()
            edge_index, weight = coo.indices().flip(0), coo.values()
        elif type(edges) is not Tensor and hasattr(edges, "as_tensor"):
            edge_index = edges.as_tensor()
        if weight is None and dtype is not None:
            weight = torch.ones(edge_index.numel() // 2, dtype=dtype, device=edge_index.device)
        return cls.from_edge_index(
            edge_index, num_nodes, weight, self_loops=self_loops, normalization=normalization
        )

    @property
    def shape(self) -> tuple[int, int]:
        return self.rowptr.size(-1) - 1, self.t_rowptr.size(-1) - 1

    @property
    def num_edges(self) -> int:
        return self.col.size(-1)

    @property
    def device(self) -> torch.device:
        return self.weight.device

    @property
    def receiver(self) -> Tensor:
        """Row of each entry, ``(E,)``: the number of rows that end at or before it."""
        ends = self.rowptr[1:-1]
        ended = self.col.new_zeros(self.num_edges + 1)
        ended = ended.scatter_add(0, ends.long(), torch.ones_like(ends))
        return ended[:-1].cumsum(dim=0, dtype=self.col.dtype)

    @property
    def sender(self) -> Tensor:
        """Column of each entry, ``(E,)``."""
        return self.col

    def with_weight(self, weight: Tensor) -> Self:
        """The same structure with new weights."""
        return replace(self, weight=weight)

    def with_product_dtype(self, dtype: torch.dtype | None) -> Self:
        """The same matrix, whose products round to this type; None for no rounding."""
        return replace(self, product_dtype=dtype)

    def with_self_loops(self) -> Self:
        r""":math:`\mathbf{A} + \mathbf{I}`; present loops keep their weight."""
        num_nodes = self._square("self-loops")
        row, col, weight = add_loops(self.receiver, self.col, self.weight, num_nodes)
        made = type(self)._from_valid(row, col, weight, self.shape)
        return made.with_product_dtype(self.product_dtype)

    def normalized(self, kind: Normalization) -> Self:
        r""":math:`\mathbf{D}^{-1}\mathbf{A}` for ``"row"``,
        :math:`\mathbf{D}^{-1/2}\mathbf{A}\mathbf{D}^{-1/2}` for ``"symmetric"``, with
        :math:`\mathbf{D}` the sums of the rows; a row that sums to zero or less becomes zero."""
        return self._normalized(kind)

    def _normalized(self, kind: Normalization, receiver: Tensor | None = None) -> Self:
        """As :meth:`normalized`; ``receiver`` saves computing the row of each entry."""
        if kind not in ("none", "row", "symmetric"):
            raise UserError(f"there is no normalization {kind!r}; choose none, row or symmetric")
        if kind == "none":
            return self
        if kind == "symmetric":
            self._square("symmetric normalisation")
        degree = self @ self.weight.new_ones(self.shape[1], 1)
        power = -1.0 if kind == "row" else -0.5
        empty = degree <= 0  # False for NaN, which should propagate
        inverse = degree.masked_fill(empty, 1).pow(power).masked_fill(empty, 0).flatten()
        receiver = self.receiver if receiver is None else receiver
        weight = self.weight * inverse.index_select(0, receiver)
        if kind == "symmetric":
            weight = weight * inverse.index_select(0, self.col)
        return self.with_weight(weight)

    def tiled(self) -> Self:
        r""":math:`[\mathbf{A}\,\mathbf{A}\,\mathbf{A}\,\mathbf{A}]`: features as four equal
        components, so that each copy can have its own mask."""
        rows, cols = self.shape
        col = torch.cat([self.col + part * cols for part in range(4)])
        made = type(self)._from_valid(
            self.receiver.repeat(4), col, self.weight.repeat(4), (rows, 4 * cols)
        )
        return made.with_product_dtype(self.product_dtype)

    def transpose(self) -> Self:
        return type(self)(
            rowptr=self.t_rowptr,
            col=self.t_col,
            weight=self.weight.index_select(0, self.t_perm),
            t_rowptr=self.rowptr,
            t_col=self.col,
            t_perm=torch.argsort(self.t_perm).int(),
            product_dtype=self.product_dtype,
        )

    def gather_senders(self) -> Self:
        """The matrix ``(E, C)`` that gathers the row of each entry's sender."""
        return self._gather(self.col, self.t_rowptr, self.t_perm)

    def gather_receivers(self) -> Self:
        """The matrix ``(E, R)`` that gathers the row of each entry's receiver."""
        return self._gather(self.receiver, self.rowptr, self._entries(self.num_edges))

    def sum_entries(self) -> Self:
        """The matrix ``(R, E)`` that sums values of entries over each row."""
        entries = self._entries(self.num_edges + 1)
        return type(self)(
            rowptr=self.rowptr,
            col=entries[:-1],
            weight=torch.ones(self.num_edges, device=self.device),
            t_rowptr=entries,
            t_col=self.receiver,
            t_perm=entries[:-1],
        )

    def _gather(self, col: Tensor, t_rowptr: Tensor, t_order: Tensor) -> Self:
        return type(self)(
            rowptr=self._entries(self.num_edges + 1),
            col=col,
            weight=torch.ones(self.num_edges, device=self.device),
            t_rowptr=t_rowptr,
            t_col=t_order,
            t_perm=t_order,
        )

    def _entries(self, count: int) -> Tensor:
        return torch.arange(count, device=self.device, dtype=torch.int32)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        moved: Self = pytree.tree_map(lambda t: t.to(device, non_blocking=non_blocking), self)
        return moved

    def to_dense(self) -> Tensor:
        """The dense matrix, to inspect small ones."""
        dense = self.weight.new_zeros(self.shape)
        return dense.index_put((self.receiver, self.col), self.weight, accumulate=True)

    def __matmul__(self, x: Tensor) -> Tensor:
        """The product ``(..., C, F) -> (..., R, F)``."""
        if x.dim() > 2:  # leading dimensions become columns
            columns = x.movedim(-2, 0)
            y = self @ columns.flatten(1)
            return y.unflatten(1, columns.shape[1:]).movedim(0, -2)
        if x.size(0) != self.shape[1]:
            raise UserError(f"a {self.shape} matrix cannot multiply {tuple(x.shape)}")
        return aggregate(
            self.rowptr,
            self.col,
            self.weight,
            x,
            self.t_rowptr,
            self.t_col,
            self.t_perm,
            product_dtype=self.product_dtype,
        )

    def _square(self, what: str) -> int:
        if self.shape[0] != self.shape[1]:
            raise UserError(f"{what} needs a square matrix, got {self.shape}")
        return self.shape[0]


def _flatten(adjacency: Adjacency) -> tuple[list[Any], torch.dtype | None]:
    *tensors, product_dtype = (getattr(adjacency, f.name) for f in fields(adjacency))
    return tensors, product_dtype


def _unflatten(tensors: Iterable[Any], product_dtype: torch.dtype | None) -> Adjacency:
    return Adjacency(*tensors).with_product_dtype(product_dtype)


pytree.register_pytree_node(Adjacency, _flatten, _unflatten)
