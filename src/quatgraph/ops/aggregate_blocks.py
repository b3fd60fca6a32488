r"""Sums over the edges of a few graphs out of many, without building their batch.

A collection of graphs is one block-diagonal matrix. A batch takes some of its blocks, one after the
other: row v of the batch is row :math:`r_v` of the whole matrix, and a column c of that row stands
:math:`s_v` places further on,

.. math:: \mathbf{y}_v = \sum_{e \in \mathrm{row}(r_v)} w_e \, \mathbf{x}_{\mathrm{col}(e) + s_v}

so a batch is two numbers per row, whatever its edges; a row :math:`r_v < 0` is padding and gives
zero. The gradient is the same sum over the transpose, whose rows are the batch's columns. It
reaches ``x`` only: the weights of a collection are fixed.

The rows of all members of an ensemble are in one :class:`BlockRows`, which is no tensor to vmap:
within it the members' products are one product.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.csr import sum_rows_torch
from quatgraph.ops.members import flatten_index
from quatgraph.ops.transforms import eager_form


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Chosen rows of a CSR matrix with moved columns, for one member or for several.

    Attributes:
        rowptr, col, weight: The whole matrix.
        perm: Where the value of each entry stands in ``weight``; None for where the entry does.
        row: The row of the whole matrix that each row is, negative for padding, int32 ``(R,)``; of
            several members ``(M, R)``.
        shift: What to add to a column of the whole matrix in that row, int32, as row.
        columns: Columns C of a member.
    """

    rowptr: Tensor
    col: Tensor
    weight: Tensor
    perm: Tensor | None
    row: Tensor
    shift: Tensor
    columns: int

    def times(self, x: Tensor) -> Tensor:
        """The sums of all rows, ``(C, F) -> (R, F)``, of several members with a leading ``M``."""
        if use_triton(x):
            from quatgraph.ops.kernels.aggregate import sum_rows

            chosen = self.row.contiguous(), self.shift.contiguous()
            return sum_rows(self.rowptr, self.col, self.perm, self.weight.to(x.dtype), x, chosen)
        rowptr, col, weight = self._built
        y = sum_rows_torch(rowptr, col, weight.to(x.dtype), x.flatten(0, -2))
        return y.view(*x.shape[:-2], self.row.size(-1), x.size(-1))

    @cached_property
    def _built(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of all members, laid end to end as a matrix of its own: for torch, and once for
        all products of a step."""
        row, shift = self.row.flatten(), flatten_index(self.shift, self.columns)
        known = row.clamp(min=0)
        begin = self.rowptr.index_select(0, known)
        size = self.rowptr.index_select(0, known + 1) - begin
        size = torch.where(row >= 0, size, 0)
        pointers = torch.zeros(size.numel() + 1, dtype=torch.int32, device=size.device)
        torch.cumsum(size, 0, out=pointers[1:])
        owner = torch.repeat_interleave(size)
        entry = torch.arange(owner.numel(), device=size.device, dtype=torch.int32)
        entry += (begin - pointers[:-1]).index_select(0, owner)
        col = self.col.index_select(0, entry) + shift.index_select(0, owner)
        place = entry if self.perm is None else self.perm.index_select(0, entry)
        return pointers, col, self.weight.index_select(0, place)


def aggregate_blocks(x: Tensor, rows: BlockRows, columns: BlockRows) -> Tensor:
    """Multiplies chosen blocks of a sparse matrix by a dense one.

    Args:
        x: ``(C, F)``, or of several members ``(M, C, F)``; within vmap ``(C, F)`` of each.
        rows: The rows of all members.
        columns: The rows of the transpose, likewise.

    Shape:
        - output: as x, with R for C
    """
    return (_Product if x.dim() == 2 else _Members).apply(x, rows, columns)


class _Product(torch.autograd.Function):
    """One member's product, which vmap makes that of all."""

    @staticmethod
    def forward(x: Tensor, rows: BlockRows, columns: BlockRows) -> Tensor:
        return rows.times(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.rows, ctx.columns = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return aggregate_blocks(grads[0], ctx.columns, ctx.rows), None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, None, None],
        x: Tensor,
        rows: BlockRows,
        columns: BlockRows,
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        if x.dim() != 3:
            raise NotImplementedError("aggregate_blocks does not support nested vmap")
        return _Members.apply(x.movedim(in_dims[0], 0), rows, columns), 0


_Members = eager_form(_Product)
"""The members' products, which vmap need not take."""
