r"""Sums over the edges of a few graphs out of many, without building their batch.

A collection of graphs is one block-diagonal matrix, and a batch is some of its blocks: row v of the
batch is row :math:`r_v` of the whole matrix, whose columns are shifted by :math:`s_v`,

.. math:: \mathbf{y}_v = \sum_{e \in \mathrm{row}(r_v)} w_e \, \mathbf{x}_{\mathrm{col}(e) + s_v}

so a batch is two numbers per row, whatever its edges; a row :math:`r_v < 0` is padding, and its sum
is zero. The gradient is the same sum over the transpose, whose rows are the batch's columns. Only
``x`` has a gradient: the weights of a collection are fixed.

The rows of all members of an ensemble are one :class:`BlockRows`, which vmap does not split: the
members' products are one product.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.csr import concat_rows, sum_rows_torch
from quatgraph.ops.members import flatten_index
from quatgraph.ops.transforms import operation


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Selected rows of a CSR matrix with shifted columns, for one member or for several.

    Attributes:
        rowptr, col, weight: The whole matrix.
        perm: The position of each entry's value in ``weight``; that of the entry if None.
        row: Indices of rows of the whole matrix, negative for padding, int32 ``(R,)``; of several
            members ``(M, R)``.
        shift: Added to the columns of that row, int32, shaped as row.
        columns: Columns C of a member.
    """

    rowptr: Tensor
    col: Tensor
    weight: Tensor
    perm: Tensor | None
    row: Tensor
    shift: Tensor
    columns: int

    def matmul(self, x: Tensor) -> Tensor:
        """The sums of all rows, ``(C, F) -> (R, F)``, of several members with a leading ``M``."""
        if use_triton(x):
            from quatgraph.ops.kernels.aggregate import sum_rows

            chosen = self.row.contiguous(), self.shift.contiguous()
            return sum_rows(self.rowptr, self.col, self.perm, self.weight.to(x.dtype), x, chosen)
        rowptr, col, weight = self._csr
        y = sum_rows_torch(rowptr, col, weight.to(x.dtype), x.flatten(0, -2))
        return y.view(*x.shape[:-2], self.row.size(-1), x.size(-1))

    @cached_property
    def _csr(self) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of all members as one CSR matrix, built once for all products of a step."""
        row, shift = self.row.flatten(), flatten_index(self.shift, self.columns)
        known = row.clamp(min=0)
        begin = self.rowptr.index_select(0, known)
        size = self.rowptr.index_select(0, known + 1) - begin
        size = torch.where(row >= 0, size, 0)
        ptr = F.pad(size.cumsum(0, dtype=torch.int32), (1, 0))
        row_ids, entry = concat_rows(begin, size)
        col = self.col.index_select(0, entry) + shift.index_select(0, row_ids)
        position = entry if self.perm is None else self.perm.index_select(0, entry)
        return ptr, col, self.weight.index_select(0, position)


def aggregate_blocks(x: Tensor, rows: BlockRows, columns: BlockRows) -> Tensor:
    """Multiplies selected blocks of a sparse matrix by a dense one.

    Args:
        x: ``(C, F)``, or of several members ``(M, C, F)``; within vmap ``(C, F)`` of each.
        rows: The rows of all members.
        columns: The rows of the transpose of all members.

    Shape:
        - output: as x, with R for C
    """
    return _product(x, rows, columns)


class _Product(torch.autograd.Function):
    """One member's product, which vmap turns into that of all."""

    @staticmethod
    def forward(x: Tensor, rows: BlockRows, columns: BlockRows) -> Tensor:
        return rows.matmul(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.rows, ctx.columns = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return aggregate_blocks(grads[0], ctx.columns, ctx.rows), None, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor, *rows: BlockRows) -> tuple[Tensor, int]:
        if x.dim() != 3:
            raise NotImplementedError("aggregate_blocks does not support nested vmap")
        return _product(x.movedim(in_dims[0], 0), *rows), 0


_product = operation(_Product, 0)
