r"""Rows of a table by index: the product of a one-hot matrix and a table.

.. math:: \mathbf{y}_n = \mathbf{T}_{c_n}, \qquad
    \bar{\mathbf{T}}_t = \sum_{n : c_n = t} \bar{\mathbf{y}}_n

On a GPU torch's own gradient uses atomics, whose order changes from run to run. Ours repeats bit
for bit: a kernel sums over equal codes, and adds the table's gradient from elsewhere in the same
pass; many codes are a product with the one-hot matrix, block by block, or, for a large table, a sum
after sorting. One kernel multiplies the rows of two tables, and the gradient needs no extra matrix.

Shapes: ``table`` ``(T, F)`` with ``code`` ``(N,)``, or ``(M, T, F)`` with ``(M, N)``.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.csr import index2ptr, sum_rows
from quatgraph.ops.members import MemberFunction, batch_first, flatten_index
from quatgraph.ops.transforms import grad_depth, once_differentiable

_ONE_HOT_BLOCK = 1 << 25  # elements of the one-hot matrix to hold at once
_LARGE_TABLE = 1024  # rows from which on scanning the codes is cheaper than scanning the rows
_FEW_CODES = 4096  # codes up to which comparing all pairs is faster than sorting


def lookup(table: Tensor, code: Tensor) -> Tensor:
    """The rows ``code`` of ``table``.

    Shape:
        - table: ``(T, F)``; of several members ``(M, T, F)``
        - code: ``(N,)``, row indices; of several members ``(M, N)``. On a GPU indices out of range
          give zeros: an error would need a host synchronisation.
        - output: ``(N, F)``; of several members ``(M, N, F)``
    """
    return _lookup(table, code) if table.is_cuda and not grad_depth() else _select(table, code)


def table_and_rows(
    table: Tensor, code: Tensor, times: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The table and its rows ``code``: on a GPU the gradients of both are summed in one pass,
    without a matrix of zeros.

    Args:
        times: Another table and row indices; its rows multiply the first ones, on a GPU in the same
            kernel.

    Shapes are those of :func:`lookup`.
    """
    if table.is_cuda and not grad_depth():
        table, rows, *_ = _TableAndRows.apply(table, code, *(times or (None, None)))
        return table, rows
    rows = lookup(table, code)
    return table, rows if times is None else rows * lookup(*times)


@torch.library.custom_op("quatgraph::lookup", mutates_args=())
def _lookup(table: Tensor, code: Tensor) -> Tensor:
    if use_triton(table):
        from quatgraph.ops.kernels.lookup import gather_rows

        return gather_rows(table, code)
    return _select(table, code)


def _select(table: Tensor, code: Tensor) -> Tensor:
    rows = table.flatten(0, -2).index_select(0, flatten_index(code, table.size(-2)))
    return rows.unflatten(0, code.shape)


@torch.library.custom_op("quatgraph::lookup_gradient", mutates_args=())
def _lookup_gradient(
    grad: Tensor,
    code: Tensor,
    rows: int,
    base: Tensor | None = None,
    times: Tensor | None = None,
) -> Tensor:
    """The table's gradient; ``grad`` is scaled by ``times`` and the result added to ``base``."""
    if 0 < code.size(-1) <= _FEW_CODES and grad.dtype in KERNEL_TYPES and use_triton(grad):
        from quatgraph.ops.kernels.lookup import lookup_backward

        return lookup_backward(grad, code, base, times, rows=rows, large=rows >= _LARGE_TABLE)
    if times is not None:
        grad = grad * times
    sum_by_code = _sum_sorted if rows >= _LARGE_TABLE else _sum_one_hot
    total = sum_by_code(grad, code, rows)
    return total if base is None else base + total


def _sum_one_hot(grad: Tensor, code: Tensor, rows: int) -> Tensor:
    """The product with the one-hot matrix, block by block."""
    index = torch.arange(rows, device=code.device, dtype=code.dtype)
    block = max(1, _ONE_HOT_BLOCK // (rows * (code.numel() // max(1, code.size(-1)) or 1)))
    parts = [
        (index[:, None] == c[..., None, :]).to(g.dtype) @ g
        for c, g in zip(code.split(block, -1), grad.split(block, -2), strict=True)
    ]
    return sum(parts[1:], parts[0])


def _sum_sorted(grad: Tensor, code: Tensor, rows: int) -> Tensor:
    """Sums the gradients of each row in the order of their positions."""
    tables = code.size(0) if code.dim() == 2 else 1
    order, position = flatten_index(code, rows).sort(stable=True)
    rowptr = index2ptr(order, tables * rows)
    total = sum_rows(
        rowptr, position.int(), None, grad.new_ones(position.numel()), grad.flatten(0, -2)
    )
    return total.view(*grad.shape[:-2], rows, grad.size(-1))


@_lookup.register_fake
def _(table: Tensor, code: Tensor) -> Tensor:
    return table.new_empty(*code.shape, table.size(-1))


@_lookup_gradient.register_fake
def _(grad: Tensor, code: Tensor, rows: int, *_: Tensor | None) -> Tensor:
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
    return _lookup(*batch_first(info.batch_size, in_dims, (table, code))), 0


class _TableAndRows(MemberFunction):
    """Returns the table, the rows or products and, for the backward pass, the two factors.

    Not a library operation, which may not return its inputs.
    """

    @staticmethod
    def forward(
        table: Tensor, code: Tensor, times: Tensor | None, times_code: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if times is None or times_code is None:
            return table, _lookup(table, code), None, None
        if use_triton(table):
            from quatgraph.ops.kernels.lookup import gather_products

            return table, *gather_products(table, code, times, times_code)
        own, other = _lookup(table, code), _lookup(times, times_code)
        return table, own * other, own, other

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        table, code, times, times_code = inputs
        factors = output[2:]
        ctx.rows = table.size(-2), 0 if times is None else times.size(-2)
        ctx.mark_non_differentiable(*(value for value in factors if value is not None))
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(code, times_code, *factors)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_table: Tensor | None, grad_rows: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        if grad_rows is None:
            return grad_table, None, None, None
        code, times_code, own, other = ctx.saved_tensors
        (rows, times_rows), grad_rows, grad_times = ctx.rows, grad_rows.contiguous(), None
        if times_code is not None:
            grad_times = _lookup_gradient(grad_rows, times_code, times_rows, None, own)
        return _lookup_gradient(grad_rows, code, rows, grad_table, other), None, grad_times, None
