"""A batch of graphs: diagonal blocks of one prepared matrix, selected without copying."""

from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.ops.aggregate_blocks import BlockRows, aggregate_blocks
from quatgraph.ops.csr import concat_padded, concat_rows
from quatgraph.ops.members import flatten_index


class Blocks:
    r"""Some blocks of a block-diagonal matrix, as a matrix of their own.

    The whole matrix is prepared once; a batch is two numbers per row and column, so that its shape
    depends on the number of nodes only. Padding rows and columns are zero. Like :class:`Adjacency`
    it multiplies by ``@``.

    The blocks of all members of an ensemble are one ``Blocks``, ``(M, ...)``, which vmap does not
    split: within the ensemble ``@`` multiplies each member's vectors by its own blocks.

    Args:
        whole: The block-diagonal matrix.
        row: Indices of rows of the whole matrix, negative for padding, int32 ``(R,)``.
        shift: Added to the columns of that row, int32 ``(R,)``.
        t_row: Indices of columns of the whole matrix, negative for padding, int32 ``(C,)``.
        t_shift: Added to the rows of that column, int32 ``(C,)``.
        symmetric: Whether the blocks equal their transpose.
        max_row: A bound on the entries of a row, for :func:`max_row`.
        max_entries: A bound on the entries of a member's blocks, for :attr:`joined` on a GPU.

    Example:
        The second of two graphs, an edge between its two nodes::

            Blocks(whole, row=[3, 4], shift=[-3, -3], t_row=[3, 4], t_shift=[-3, -3])
    """

    product_dtype: torch.dtype | None = None
    """As in :class:`Adjacency`: blocks never round."""

    def __init__(
        self,
        whole: Adjacency,
        row: Tensor,
        shift: Tensor,
        t_row: Tensor,
        t_shift: Tensor,
        *,
        symmetric: bool = False,
        max_row: int | None = None,
        max_entries: int | None = None,
    ) -> None:
        self.whole, self.max_row, self.max_entries = whole, max_row, max_entries
        self.row, self.shift, self.t_row, self.t_shift = row, shift, t_row, t_shift
        columns, rows = t_row.size(-1), row.size(-1)
        self._rows = BlockRows(whole.rowptr, whole.col, whole.weight, None, row, shift, columns)
        self._columns = self._rows
        if not symmetric:
            self._columns = BlockRows(
                whole.t_rowptr, whole.t_col, whole.weight, whole.t_perm, t_row, t_shift, rows
            )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, of each member."""
        return self.row.size(-1), self.t_row.size(-1)

    def __matmul__(self, x: Tensor) -> Tensor:
        """Sums what each row receives, ``(C, F) -> (R, F)``; members outside an ensemble
        ``(M, C, F) -> (M, R, F)``."""
        if x.size(-2) != self.shape[1]:
            raise UserError(f"a {self.shape} matrix cannot multiply {tuple(x.shape)}")
        return aggregate_blocks(x, self._rows, self._columns)

    def multiply_transpose(self, x: Tensor) -> Tensor:
        """The product with the transpose, ``(R, F) -> (C, F)``."""
        return aggregate_blocks(x, self._columns, self._rows)

    def row_mask(self, like: Tensor) -> Tensor:
        """0 for padding rows, else 1, ``(R,)`` in the type of ``like``, any tensor of the same
        members."""
        return _Mask.apply(like, self.row)

    def column_mask(self, like: Tensor) -> Tensor:
        """As :meth:`row_mask`, of the columns, ``(C,)``."""
        return _Mask.apply(like, self.t_row)

    @cached_property
    def joined(self) -> Adjacency:
        """The blocks of all members as one block-diagonal :class:`Adjacency`, for products with own
        values of its entries; on a GPU with ``max_entries`` positions for each member, so that the
        host never waits for the device."""
        if self.row.device.type == "cpu":
            return self.join()
        members = self.row[..., 0].numel()
        if self.max_entries is None or members * self.max_entries >= 1 << 31:
            raise UserError(
                "entries of blocks on a GPU need Blocks(max_entries=...), less than 2^31 in all; "
                f"got {self.max_entries} for each of {members} members"
            )
        return self.join(members * self.max_entries)

    def join(self, positions: int | None = None) -> Adjacency:
        """As :attr:`joined`, with so many positions: those behind the entries are padding of weight
        0, in no row or column."""
        whole, (rows, columns) = self.whole, self.shape
        ends, shift, row, entry = _concat(whole.rowptr, self.row, positions)
        t_ends, _, t_row, t_entry = _concat(whole.t_rowptr, self.t_row, positions)
        is_entry, t_is_entry = entry >= 0, t_entry >= 0
        entry, t_entry = entry.clamp(min=0), t_entry.clamp(min=0)
        col = whole.col[entry] + flatten_index(self.shift, columns)[row]
        t_col = whole.t_col[t_entry] + flatten_index(self.t_shift, rows)[t_row]
        t_col = torch.where(t_is_entry, t_col, 0)
        t_perm = whole.t_perm[t_entry] + shift[t_col.long()]
        return Adjacency(
            rowptr=F.pad(ends, (1, 0)),
            col=torch.where(is_entry, col, 0),
            weight=torch.where(is_entry, whole.weight[entry], 0),
            t_rowptr=F.pad(t_ends, (1, 0)),
            t_col=t_col,
            t_perm=torch.where(t_is_entry, t_perm, 0),
        )

    @cached_property
    def entry_places(self) -> tuple[Tensor, int]:
        """The place of each entry of :attr:`joined` in a tensor with equally many for each member,
        flattened, and how many these are."""
        joined, rows = self.joined, self.shape[0]
        begin = joined.rowptr[:-1:rows]
        most = self.max_entries
        if joined.device.type == "cpu":
            most = int(joined.rowptr[::rows].diff().max())
        assert most is not None
        member = (joined.receiver // rows).long()
        position = torch.arange(joined.num_edges, device=begin.device)
        place = member * most + position - begin[member]
        return place.clamp(max=len(begin) * most - 1), most


def _concat(
    ptr: Tensor, row: Tensor, positions: int | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Concatenates rows of all members, as :func:`concat_padded`: the ends and the shifts of rows,
    and the row and the entry of each position; by default, there are as many as entries."""
    row = row.flatten()
    if positions is not None:
        ends, shift, row, _, entry = concat_padded(ptr, row, positions)
        return ends, shift, row, entry
    known = row.clamp(min=0)
    begin = ptr.index_select(0, known)
    size = torch.where(row >= 0, ptr.index_select(0, known + 1) - begin, 0)
    ends = size.cumsum(0, dtype=ptr.dtype)
    return ends, ends - size - begin, *concat_rows(begin, size)


class _Mask(torch.autograd.Function):
    """Under vmap the mask of each member, of rows that vmap does not split."""

    @staticmethod
    def forward(like: Tensor, row: Tensor) -> Tensor:
        return (row >= 0).to(like.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None], like: Tensor, row: Tensor
    ) -> tuple[Tensor, int]:
        return _Mask.apply(like, row), 0


def row_ids(matrix: Adjacency | Blocks) -> Tensor | None:
    """The indices of rows of the whole matrix, ``(R,)``; None for an :class:`Adjacency`."""
    return matrix.row if isinstance(matrix, Blocks) else None


def column_ids(matrix: Adjacency | Blocks) -> Tensor | None:
    """As :func:`row_ids`, for columns, ``(C,)``."""
    return matrix.t_row if isinstance(matrix, Blocks) else None


def padding_masks(pool: Adjacency | Blocks, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """0 for padding rows and columns, else 1, ``(R,)`` and ``(C,)``; None without padding.

    Args:
        like: Any tensor of the same members.
    """
    if isinstance(pool, Adjacency):
        return None, None
    return pool.row_mask(like), pool.column_mask(like)


def spread(pool: Adjacency | Blocks, x: Tensor) -> Tensor:
    """The vector of each node's graph, ``(G, F) -> (N, F)``, zero for padding: the product with the
    transpose of a pooling matrix."""
    if isinstance(pool, Blocks):
        return pool.multiply_transpose(x)
    return pool.transpose() @ x


def boundaries(pool: Adjacency | Blocks) -> Tensor:
    """Where the nodes of each graph begin, and the number of nodes, ``(G + 1,)``, for a pooling
    matrix whose nodes are sorted by graph; of several members ``(M, G + 1)``."""
    if isinstance(pool, Adjacency):
        return pool.rowptr
    known = pool.row.clamp(min=0)
    size = torch.where(pool.row >= 0, pool.whole.rowptr.diff()[known], 0)
    return F.pad(size.cumsum(dim=-1), (1, 0))


def max_row(pool: Adjacency | Blocks) -> int:
    """A bound on the entries of a row, the nodes of a graph for a pooling matrix: that of blocks
    does not wait for the device."""
    if isinstance(pool, Adjacency):
        return int(pool.rowptr.diff().max())
    if pool.max_row is None:
        raise UserError(
            "a dense batch needs the size of its largest graph: use Blocks(max_row=...)"
        )
    return pool.max_row
