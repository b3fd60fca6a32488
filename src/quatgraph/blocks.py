"""Some graphs out of many: diagonal blocks of one prepared matrix, taken without copying."""

from typing import Any

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import Mistake
from quatgraph.ops.aggregate_blocks import BlockRows, aggregate_blocks


class Blocks:
    r"""Blocks of a block-diagonal matrix, standing one after the other as a matrix of their own.

    The whole matrix is prepared once; a batch is two numbers per row and column, so that its shape
    depends on its nodes alone. It may have rows and columns that are padding: they are zero. Like
    :class:`Adjacency` it multiplies by ``@``.

    The blocks of all members of an ensemble are one ``Blocks``, ``(M, ...)``. It is given to the
    ensemble as it is, undivided: within it, ``@`` multiplies each member's vectors by its blocks.

    Args:
        whole: The matrix the blocks are taken from.
        row: Row of the whole matrix that each row is, negative for padding, int32 ``(R,)``.
        shift: What to add to a column of the whole matrix in that row, int32 ``(R,)``.
        t_row: Column of the whole matrix that each column is, int32 ``(C,)``.
        t_shift: What to add to a row of the whole matrix in that column, int32 ``(C,)``.
        symmetric: Whether the blocks are known to equal their transpose.

    Example:
        The second of two graphs, an edge between its two nodes::

            Blocks(whole, row=[3, 4], shift=[-3, -3], t_row=[3, 4], t_shift=[-3, -3])
    """

    product_dtype: torch.dtype | None = None
    """That of :class:`Adjacency`: blocks sum what they are given as it is."""

    def __init__(
        self,
        whole: Adjacency,
        row: Tensor,
        shift: Tensor,
        t_row: Tensor,
        t_shift: Tensor,
        *,
        symmetric: bool = False,
    ) -> None:
        self.whole = whole
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
            raise Mistake(f"a {self.shape} matrix cannot multiply {tuple(x.shape)}")
        return aggregate_blocks(x, self._rows, self._columns)

    def row_mask(self, like: Tensor) -> Tensor:
        """1 for each row, 0 for those that are padding, ``(R,)`` in the type of ``like``, which is
        any tensor of the same members."""
        return _Mask.apply(like, self.row)

    def column_mask(self, like: Tensor) -> Tensor:
        """As :meth:`row_mask`, of the columns, ``(C,)``."""
        return _Mask.apply(like, self.t_row)

    def expanded(self, entries: int) -> Adjacency:
        """The blocks as a matrix of its own, for products that need numbers of its entries.

        Nothing waits for the device. Stacked blocks ``(M, ...)`` give stacked matrices.

        Args:
            entries: Entries of the result, E: no member's blocks may have more. Those that are
                left are padding, of weight 0 and in the last row and column.
        """
        whole, (rows, columns) = self.whole, self.shape
        rowptr, entry, owner, moved = _laid_out(whole.rowptr, self.row, entries)
        t_rowptr, t_entry, t_owner, _ = _laid_out(whole.t_rowptr, self.t_row, entries)
        present, t_present = entry >= 0, t_entry >= 0
        entry, t_entry = entry.clamp(min=0), t_entry.clamp(min=0)
        col = torch.where(present, whole.col[entry] + self.shift.gather(-1, owner), columns - 1)
        t_col = whole.t_col[t_entry] + self.t_shift.gather(-1, t_owner)
        t_col = torch.where(t_present, t_col, rows - 1)
        t_perm = whole.t_perm[t_entry] + moved.gather(-1, t_col.long())
        place = torch.arange(entries, device=t_perm.device, dtype=t_perm.dtype)
        return Adjacency(
            rowptr=rowptr,
            col=col,
            weight=torch.where(present, whole.weight[entry], 0),
            t_rowptr=t_rowptr,
            t_col=t_col,
            t_perm=torch.where(t_present, t_perm, place),
        )


def _laid_out(pointers: Tensor, row: Tensor, entries: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Where the entries of chosen rows are once these rows stand one after the other.

    Shape:
        - pointers: row pointers of the whole matrix
        - row: the chosen rows, negative for none, ``(..., R)``
        - output: the new row pointers ``(..., R + 1)``; the place of each entry in the whole
          matrix, -1 for padding, and its row, ``(..., E)``; how far each row's entries moved,
          ``(..., R)``
    """
    known = row.clamp(min=0)
    begin = pointers[known]
    size = torch.where(row >= 0, pointers[known + 1] - begin, 0)
    ends = size.cumsum(dim=-1, dtype=pointers.dtype)
    if ends.device.type == "cpu" and (largest := int(ends[..., -1].max())) > entries:
        raise Mistake(f"blocks of {largest} entries do not fit into {entries}")
    moved = ends - size - begin
    place = torch.arange(entries, device=row.device, dtype=pointers.dtype)
    owner = torch.searchsorted(ends, place.expand(*row.shape[:-1], -1).contiguous(), right=True)
    present = owner < row.size(-1)
    owner = owner.clamp(max=row.size(-1) - 1)
    entry = torch.where(present, place - moved.gather(-1, owner), -1)
    full = torch.full_like(ends[..., -1:], entries)
    rowptr = torch.cat((torch.zeros_like(full), ends[..., :-1], full), dim=-1)
    return rowptr, entry, owner, moved


class _Mask(torch.autograd.Function):
    """Gives each member of an ensemble its own row of what it holds undivided."""

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
    """Which row of the whole matrix each row is, ``(R,)``; None of a matrix that is whole."""
    return matrix.row if isinstance(matrix, Blocks) else None


def column_ids(matrix: Adjacency | Blocks) -> Tensor | None:
    """As :func:`row_ids`, of the columns, ``(C,)``."""
    return matrix.t_row if isinstance(matrix, Blocks) else None


def present(pool: Adjacency | Blocks, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Which rows and which columns of a matrix are no padding, ``(R,)`` and ``(C,)``; None where
    nothing is padding.

    Args:
        like: Any tensor of the same members.
    """
    if isinstance(pool, Adjacency):
        return None, None
    return pool.row_mask(like), pool.column_mask(like)
