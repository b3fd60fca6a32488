"""A batch of graphs: diagonal blocks of one prepared matrix, selected without copying."""

from typing import Any

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import Mistake
from quatgraph.ops.aggregate_blocks import BlockRows, aggregate_blocks


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
        """0 for padding rows, else 1, ``(R,)`` in the type of ``like``, any tensor of the same
        members."""
        return _Mask.apply(like, self.row)

    def column_mask(self, like: Tensor) -> Tensor:
        """As :meth:`row_mask`, of the columns, ``(C,)``."""
        return _Mask.apply(like, self.t_row)

    def expanded(self, entries: int) -> Adjacency:
        """The blocks as an :class:`Adjacency`, for products with own values of its entries.

        The host never waits for the device. Stacked blocks ``(M, ...)`` give stacked matrices.

        Args:
            entries: Entries E of the result; no member's blocks may have more. The remaining ones
                are padding, of weight 0 and in the last row and column.
        """
        whole, (rows, columns) = self.whole, self.shape
        rowptr, entry, entry_row, shift = _concat_rows(whole.rowptr, self.row, entries)
        t_rowptr, t_entry, t_entry_row, _ = _concat_rows(whole.t_rowptr, self.t_row, entries)
        is_entry, t_is_entry = entry >= 0, t_entry >= 0
        entry, t_entry = entry.clamp(min=0), t_entry.clamp(min=0)
        col = torch.where(
            is_entry, whole.col[entry] + self.shift.gather(-1, entry_row), columns - 1
        )
        t_col = whole.t_col[t_entry] + self.t_shift.gather(-1, t_entry_row)
        t_col = torch.where(t_is_entry, t_col, rows - 1)
        t_perm = whole.t_perm[t_entry] + shift.gather(-1, t_col.long())
        position = torch.arange(entries, device=t_perm.device, dtype=t_perm.dtype)
        return Adjacency(
            rowptr=rowptr,
            col=col,
            weight=torch.where(is_entry, whole.weight[entry], 0),
            t_rowptr=t_rowptr,
            t_col=t_col,
            t_perm=torch.where(t_is_entry, t_perm, position),
        )


def _concat_rows(
    rowptr: Tensor, row: Tensor, entries: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The entries of selected rows after these rows are concatenated.

    Shape:
        - rowptr: row pointers of the whole matrix
        - row: the selected rows, negative for padding, ``(..., R)``
        - output: the new row pointers ``(..., R + 1)``; the position of each entry in the whole
          matrix, -1 for padding, and its row, ``(..., E)``; the shift of each row's entries,
          ``(..., R)``
    """
    clamped = row.clamp(min=0)
    begin = rowptr[clamped]
    size = torch.where(row >= 0, rowptr[clamped + 1] - begin, 0)
    ends = size.cumsum(dim=-1, dtype=rowptr.dtype)
    if ends.device.type == "cpu" and (largest := int(ends[..., -1].max())) > entries:
        raise Mistake(f"blocks of {largest} entries do not fit into {entries}")
    shift = ends - size - begin
    position = torch.arange(entries, device=row.device, dtype=rowptr.dtype)
    entry_row = torch.searchsorted(
        ends, position.expand(*row.shape[:-1], -1).contiguous(), right=True
    )
    is_entry = entry_row < row.size(-1)
    entry_row = entry_row.clamp(max=row.size(-1) - 1)
    entry = torch.where(is_entry, position - shift.gather(-1, entry_row), -1)
    full = torch.full_like(ends[..., -1:], entries)
    rowptr = torch.cat((torch.zeros_like(full), ends[..., :-1], full), dim=-1)
    return rowptr, entry, entry_row, shift


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
