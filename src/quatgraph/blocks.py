"""A batch of graphs: diagonal blocks of one prepared matrix, selected without copying."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError
from quatgraph.ops.aggregate_blocks import BlockRows, aggregate_blocks
from quatgraph.ops.csr import concat_padded


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
    ) -> None:
        self.whole, self.max_row = whole, max_row
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
        ends, shift, row, _, entry = concat_padded(whole.rowptr, self.row, entries)
        t_ends, _, t_row, _, t_entry = concat_padded(whole.t_rowptr, self.t_row, entries)
        rowptr, t_rowptr = _rowptr(ends, entries), _rowptr(t_ends, entries)
        is_entry, t_is_entry = entry >= 0, t_entry >= 0
        entry, t_entry = entry.clamp(min=0), t_entry.clamp(min=0)
        col = whole.col[entry] + self.shift.gather(-1, row)
        t_col = whole.t_col[t_entry] + self.t_shift.gather(-1, t_row)
        t_col = torch.where(t_is_entry, t_col, rows - 1)
        t_perm = whole.t_perm[t_entry] + shift.gather(-1, t_col.long())
        position = torch.arange(entries, device=t_perm.device, dtype=t_perm.dtype)
        return Adjacency(
            rowptr=rowptr,
            col=torch.where(is_entry, col, columns - 1),
            weight=torch.where(is_entry, whole.weight[entry], 0),
            t_rowptr=t_rowptr,
            t_col=t_col,
            t_perm=torch.where(t_is_entry, t_perm, position),
        )


def _rowptr(ends: Tensor, entries: int) -> Tensor:
    """The row pointers of rows that end there, ``(..., R + 1)``; the last row has the padding."""
    if ends.device.type == "cpu" and (largest := int(ends[..., -1].max())) > entries:
        raise UserError(f"blocks of {largest} entries do not fit into {entries}")
    full = torch.full_like(ends[..., -1:], entries)
    return torch.cat((torch.zeros_like(full), ends[..., :-1], full), dim=-1)


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
