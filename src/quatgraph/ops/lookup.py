r"""Rows of a table by their number: the product of a one-hot matrix, kept as integers, and a table.

.. math:: \mathbf{y}_n = \mathbf{T}_{c_n}, \qquad
    \bar{\mathbf{T}}_t = \sum_{n : c_n = t} \bar{\mathbf{y}}_n

On a GPU torch's own gradient adds with atomics, in an order that changes. There it is a sum over
the codes that are equal, found by a kernel, which adds it to a gradient that the table has from
elsewhere in the same pass; of many codes it is a product with the one-hot matrix itself, block by
block, or for a large table a sum after sorting: all repeat bit for bit.

Shapes: ``table`` ``(T, F)`` with ``code`` ``(N,)``, or ``(M, T, F)`` with ``(M, N)``.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.aggregate import _sum_rows_forward
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import end_to_end, members_first

_ONE_HOT_BLOCK = 1 << 25  # numbers of the one-hot matrix that may exist at once
_LARGE = 1024  # rows of a table for which looking at the codes is less than looking at the rows
_FEW = 4096  # codes that are compared each with each faster than they are sorted


def lookup(table: Tensor, code: Tensor) -> Tensor:
    """The rows ``code`` of ``table``.

    Shape:
        - table: ``(T, F)``; of several members ``(M, T, F)``
        - code: ``(N,)``, whole numbers below T; of several members ``(M, N)``. A GPU, which nobody
          may wait for, does not say so of others, but gives zeros.
        - output: ``(N, F)``; of several members ``(M, N, F)``
    """
    if table.is_cuda:
        return _lookup(table, code)
    if table.dim() == 2:
        return table.index_select(0, code)
    flat = table.flatten(0, 1).index_select(0, end_to_end(code, table.size(1)))
    return flat.unflatten(0, code.shape)


def table_and_rows(table: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """The table as it is, and the rows ``code`` of it: for those who need both, so that on a GPU
    the gradients of both become one without a matrix of zeros between them.

    Shapes are those of :func:`lookup`.
    """
    return _TableAndRows.apply(table, code) if table.is_cuda else (table, lookup(table, code))


@torch.library.custom_op("quatgraph::lookup", mutates_args=())
def _lookup(table: Tensor, code: Tensor) -> Tensor:
    if use_triton(table):
        from quatgraph.ops.kernels.lookup import rows_of

        one = code.dim() == 1
        return rows_of(table[None], code[None])[0] if one else rows_of(table, code)
    rows = code.flatten() if len(code) == 1 else end_to_end(code, table.size(-2))
    flat = table.reshape(-1, table.size(-1)).index_select(0, rows)
    return flat.view(*code.shape, table.size(-1))


@torch.library.custom_op("quatgraph::lookup_gradient", mutates_args=())
def _lookup_gradient(grad: Tensor, code: Tensor, rows: int, base: Tensor | None = None) -> Tensor:
    if 0 < code.size(-1) <= _FEW and grad.dtype in KERNEL_TYPES and use_triton(grad):
        from quatgraph.ops.kernels.lookup import gradient

        large = rows >= _LARGE
        if code.dim() == 2:
            return gradient(grad, code, rows, base, large=large)
        one = None if base is None else base[None]
        return gradient(grad[None], code[None], rows, one, large=large)[0]
    total = _in_order(grad, code, rows) if rows >= _LARGE else _by_one_hot(grad, code, rows)
    return total if base is None else base + total


def _by_one_hot(grad: Tensor, code: Tensor, rows: int) -> Tensor:
    """The product with the one-hot matrix, block by block."""
    numbers = torch.arange(rows, device=code.device, dtype=code.dtype)
    block = max(1, _ONE_HOT_BLOCK // (rows * (code.numel() // max(1, code.size(-1)) or 1)))
    parts = [
        (numbers[:, None] == c[..., None, :]).to(g.dtype) @ g
        for c, g in zip(code.split(block, -1), grad.split(block, -2), strict=True)
    ]
    return sum(parts[1:], parts[0])


def _in_order(grad: Tensor, code: Tensor, rows: int) -> Tensor:
    """The sum of each row's gradients, those of one row in the order of their places."""
    tables = code.size(0) if code.dim() == 2 else 1
    order, place = end_to_end(code, rows).sort(stable=True)
    bounds = torch.arange(tables * rows + 1, device=code.device, dtype=order.dtype)
    pointers = torch.searchsorted(order, bounds, out_int32=True)
    total = _sum_rows_forward(
        pointers, place.int(), None, grad.new_ones(place.numel()), grad.flatten(0, -2)
    )
    return total.view(*grad.shape[:-2], rows, grad.size(-1))


@_lookup.register_fake
def _(table: Tensor, code: Tensor) -> Tensor:
    return table.new_empty(*code.shape, table.size(-1))


@_lookup_gradient.register_fake
def _(grad: Tensor, code: Tensor, rows: int, base: Tensor | None = None) -> Tensor:
    return grad.new_empty(*grad.shape[:-2], rows, grad.size(-1))


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    table, code = inputs
    ctx.rows = table.size(-2)
    ctx.save_for_backward(code)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (code,) = ctx.saved_tensors
    return _lookup_gradient(grad.contiguous(), code, ctx.rows), None


_lookup.register_autograd(_backward, setup_context=_setup_context)


@_lookup.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, int | None], table: Tensor, code: Tensor
) -> tuple[Tensor, int]:
    table, code = (
        members_first(value, dim, info.batch_size)
        for value, dim in zip((table, code), in_dims, strict=True)
    )
    return _lookup(table, code), 0


class _TableAndRows(torch.autograd.Function):
    """Not an operation of torch's library: that may not return what it is given."""

    @staticmethod
    def forward(table: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
        return table, _lookup(table, code)

    @staticmethod
    def setup_context(
        ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]
    ) -> None:
        table, code = inputs
        ctx.rows = table.size(-2)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(code)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(
        ctx: Any, by_table: Tensor | None, by_rows: Tensor | None
    ) -> tuple[Tensor | None, None]:
        if by_rows is None:
            return by_table, None
        (code,) = ctx.saved_tensors
        return _lookup_gradient(by_rows.contiguous(), code, ctx.rows, by_table), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int | None], table: Tensor, code: Tensor
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        table, code = (
            members_first(value, dim, info.batch_size)
            for value, dim in zip((table, code), in_dims, strict=True)
        )
        return _TableAndRows.apply(table, code), (0, 0)
