r"""Rows of a table by their number: the product of a one-hot matrix, kept as integers, and a table.

.. math:: \mathbf{y}_n = \mathbf{T}_{c_n}, \qquad
    \bar{\mathbf{T}}_t = \sum_{n : c_n = t} \bar{\mathbf{y}}_n

On a GPU torch's own gradient adds with atomics, in an order that changes. There it is a sum over
the codes that are equal, found by a kernel, which adds it to a gradient that the table has from
elsewhere in the same pass; of many codes it is a product with the one-hot matrix itself, block by
block, or for a large table a sum after sorting: all repeat bit for bit. Rows that are multiplied by
those of another table are read, multiplied and written by one kernel, and what that makes of the
gradient is no matrix of its own.

Shapes: ``table`` ``(T, F)`` with ``code`` ``(N,)``, or ``(M, T, F)`` with ``(M, N)``.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.csr import index2ptr, sum_rows
from quatgraph.ops.members import batch_first, flatten_index
from quatgraph.ops.transforms import grad_depth, once_differentiable

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
    if table.is_cuda and not grad_depth():
        return _lookup(table, code)
    if table.dim() == 2:
        return table.index_select(0, code)
    flat = table.flatten(0, 1).index_select(0, flatten_index(code, table.size(1)))
    return flat.unflatten(0, code.shape)


def table_and_rows(
    table: Tensor, code: Tensor, times: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """The table as it is, and the rows ``code`` of it: for those who need both, so that on a GPU
    the gradients of both become one without a matrix of zeros between them.

    Args:
        times: Another table and numbers of its rows, by which the rows are multiplied; a GPU then
            does so while it reads them.

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
        from quatgraph.ops.kernels.lookup import rows_of

        one = code.dim() == 1
        return rows_of(table[None], code[None])[0] if one else rows_of(table, code)
    rows = code.flatten() if len(code) == 1 else flatten_index(code, table.size(-2))
    flat = table.reshape(-1, table.size(-1)).index_select(0, rows)
    return flat.view(*code.shape, table.size(-1))


def _products(
    table: Tensor, code: Tensor, times: Tensor, times_code: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of a table times those of another, and both by themselves."""
    if use_triton(table):
        from quatgraph.ops.kernels.lookup import products_of

        if code.dim() == 2:
            return products_of(table, code, times, times_code)
        out, own, other = products_of(table[None], code[None], times[None], times_code[None])
        return out[0], own[0], other[0]
    own, other = _lookup(table, code), _lookup(times, times_code)
    return own * other, own, other


@torch.library.custom_op("quatgraph::lookup_gradient", mutates_args=())
def _lookup_gradient(
    grad: Tensor,
    code: Tensor,
    rows: int,
    base: Tensor | None = None,
    times: Tensor | None = None,
) -> Tensor:
    """Of ``grad``, multiplied by ``times`` of its shape if there is that, added to ``base``."""
    if 0 < code.size(-1) <= _FEW and grad.dtype in KERNEL_TYPES and use_triton(grad):
        from quatgraph.ops.kernels.lookup import gradient

        large = rows >= _LARGE
        if code.dim() == 2:
            return gradient(grad, code, base, times, rows=rows, large=large)
        one = (None if value is None else value[None] for value in (base, times))
        return gradient(grad[None], code[None], *one, rows=rows, large=large)[0]
    if times is not None:
        grad = grad * times
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
    order, place = flatten_index(code, rows).sort(stable=True)
    pointers = index2ptr(order, tables * rows)
    total = sum_rows(pointers, place.int(), None, grad.new_ones(place.numel()), grad.flatten(0, -2))
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


class _TableAndRows(torch.autograd.Function):
    """The table, the rows or products and, not for the caller, both factors of these.

    Not an operation of torch's library: that may not return what it is given.
    """

    @staticmethod
    def forward(
        table: Tensor, code: Tensor, times: Tensor | None, times_code: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        if times is None or times_code is None:
            return table, _lookup(table, code), None, None
        return table, *_products(table, code, times, times_code)

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
        ctx: Any, by_table: Tensor | None, by_rows: Tensor | None, *_: None
    ) -> tuple[Tensor | None, ...]:
        if by_rows is None:
            return by_table, None, None, None
        code, times_code, own, other = ctx.saved_tensors
        (rows, times_rows), by_rows, by_times = ctx.rows, by_rows.contiguous(), None
        if times_code is not None:
            by_times = _lookup_gradient(by_rows, times_code, times_rows, None, own)
        return _lookup_gradient(by_rows, code, rows, by_table, other), None, by_times, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor | None
    ) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
        dims = (0, 0, None, None) if inputs[2] is None else (0, 0, 0, 0)
        return _TableAndRows.apply(*batch_first(info.batch_size, in_dims, inputs)), dims
