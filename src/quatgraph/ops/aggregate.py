r"""Sums over incoming edges: the sparse half of every graph convolution.

.. math:: \mathbf{y}_v = \sum_{e \in \mathrm{row}(v)} w_e \, \mathbf{x}_{\mathrm{col}(e)}

The matrix comes as CSR together with the CSR of its transpose. Its gradients are

.. math::
    \bar{\mathbf{x}}_u = \sum_{e : \mathrm{col}(e) = u} w_e \, \bar{\mathbf{y}}_{\mathrm{row}(e)},
    \qquad
    \bar w_e = \langle \bar{\mathbf{y}}_{\mathrm{row}(e)}, \mathbf{x}_{\mathrm{col}(e)} \rangle

so the first is the same sum over the transpose's rows and the second a row of products: each output
number is written by one thread in one order, without atomics, and repeats bit for bit. Gradients of
these are such sums and products again, and so is what goes forward along a direction.

Rows are read many times over: half as many bytes of them make a GPU's sums faster. So ``x``, and
:math:`\bar{\mathbf{y}}` in the sum for its gradient, may be rounded before they are read.

Shapes: R rows, C columns, E entries, F features; ``weight`` ``(E,)`` with ``x`` ``(C, F)``, or
``(M, E)`` with ``(M, C, F)`` for M sets of values on one structure. Indices are int32.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import Mistake
from quatgraph.ops.aggregate_compiled import aggregate_compiled
from quatgraph.ops.members import members_first, product_of_members
from quatgraph.ops.row_sums import entry_products, rounded_sums
from quatgraph.ops.transforms import (
    differentiated,
    eager_form,
    forward_derivatives,
    recorded,
    transforms,
)


def aggregate(
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor,
    *,
    product_dtype: torch.dtype | None = None,
) -> Tensor:
    """Multiplies a sparse matrix by a dense one.

    Weights are cast to the type of x, unless that is ``product_dtype``.

    Args:
        rowptr: ``(R + 1,)``, where each row's entries begin; the last number is ``E``.
        col: ``(E,)``, the column of each entry.
        weight: ``(E,)``, the entries' values; padding entries have the value 0.
        x: ``(C, F)``.
        t_rowptr: ``(C + 1,)``, the transpose's row pointers.
        t_col: ``(E,)``, the transpose's columns.
        t_perm: ``(E,)``, the position in ``weight`` of each of the transpose's entries.
        product_dtype: bfloat16 for sums of numbers of x rounded to it, if it is not, and of its
            gradient likewise; weights and sums are not rounded.

    Shape:
        - output: ``(R, F)``, in the weights' type, summed in float32 (float64 for float64)
    """
    if x.dtype != product_dtype:
        weight = weight.to(x.dtype)
    if torch.compiler.is_compiling() or (recorded(weight, x) and not transforms()):
        if forward_derivatives():
            raise Mistake("forward derivatives are not had within torch.compile: leave it out")
        tensors = rowptr, col, weight, x, t_rowptr, t_col, t_perm
        return aggregate_compiled(*tensors, product_dtype)
    return _product(
        rowptr, col, None, weight, x, t_rowptr, t_col, t_perm, product_dtype, weight.dtype
    )


class _Product(torch.autograd.Function):
    """A matrix times x, or the transpose of one: ``perm`` then says which weight an entry has.

    Inputs are rowptr, col, perm, weight, x, the same three of the transpose, the type that x is
    rounded to, and that of the output.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return rounded_sums(*inputs[:5], *inputs[8:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.product_dtype, ctx.out_dtype = inputs
        ctx.x_dtype = tensors[4].dtype
        ctx.save_for_forward(*tensors)
        if not ctx.needs_input_grad[3]:  # then a layer on a fixed graph holds no copy of x
            tensors[4] = None
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rowptr, col, perm, weight, x, t_rowptr, t_col, t_perm = ctx.saved_tensors
        grad, by_weight, by_x = grad.contiguous(), None, None
        if ctx.needs_input_grad[3]:
            y, x = grad.to(weight.dtype), x.to(weight.dtype)
            if perm is None:
                by_weight = _entry_products(rowptr, col, y, x, t_rowptr, t_col, t_perm)
            else:
                by_weight = _entry_products(t_rowptr, t_col, x, y, rowptr, col, perm)
        if ctx.needs_input_grad[4]:
            transposed = t_rowptr, t_col, t_perm, weight, grad, rowptr, col, perm
            by_x = _product(*transposed, ctx.product_dtype, ctx.x_dtype)
        return None, None, None, by_weight, by_x, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *along: Tensor | None) -> Tensor | None:
        _only_once_forward()
        rowptr, col, perm, weight, x, *transpose = ctx.saved_tensors
        pairs = (along[3], x), (weight, along[4])
        return _total(
            _product(rowptr, col, perm, w, one, *transpose, ctx.product_dtype, ctx.out_dtype)
            for w, one in pairs
            if w is not None and one is not None
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        tensors, dtypes = inputs[:8], inputs[8:]
        return product_of_members(
            lambda *each: _product(*each, *dtypes), info.batch_size, in_dims[:8], tensors
        )


class _EntryProducts(torch.autograd.Function):
    """Inputs are rowptr, col, y, x, and rowptr, col and perm of the transpose."""

    @staticmethod
    def forward(*inputs: Tensor) -> Tensor:
        return entry_products(*inputs[:4])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_forward(*inputs)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rowptr, col, y, x, t_rowptr, t_col, t_perm = ctx.saved_tensors
        by_y = by_x = None
        if ctx.needs_input_grad[2]:
            matrix = rowptr, col, None, grad, x, t_rowptr, t_col, t_perm
            by_y = _product(*matrix, None, y.dtype)
        if ctx.needs_input_grad[3]:
            matrix = t_rowptr, t_col, t_perm, grad, y, rowptr, col, None
            by_x = _product(*matrix, None, x.dtype)
        return None, None, by_y, by_x, None, None, None

    @staticmethod
    def jvp(ctx: Any, *along: Tensor | None) -> Tensor | None:
        _only_once_forward()
        rowptr, col, y, x, *transpose = ctx.saved_tensors
        pairs = (along[2], x), (y, along[3])
        return _total(
            _entry_products(rowptr, col, left, right, *transpose)
            for left, right in pairs
            if left is not None and right is not None
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        by_member = (
            members_first(*pair, info.batch_size) for pair in zip(inputs, in_dims, strict=True)
        )
        each = [_entry_products(*one) for one in zip(*by_member, strict=True)]
        return torch.stack(each), 0


_EagerProduct, _EagerEntryProducts = eager_form(_Product), eager_form(_EntryProducts)


def _product(*inputs: Any) -> Tensor:
    if not differentiated(inputs[3], inputs[4]):
        return _Product.forward(*inputs)
    y: Tensor = (_Product if transforms() else _EagerProduct).apply(*inputs)
    return y


def _entry_products(*inputs: Tensor) -> Tensor:
    if not differentiated(inputs[2], inputs[3]):
        return _EntryProducts.forward(*inputs)
    products: Tensor = (_EntryProducts if transforms() else _EagerEntryProducts).apply(*inputs)
    return products


def _only_once_forward() -> None:
    """Refuses what torch would get wrong: it loses the derivative of what a function has kept."""
    if forward_derivatives() > 1:
        raise Mistake(
            "a forward derivative of a forward derivative is not had: take one of them backward, "
            "as torch.func.hessian does"
        )


def _total(parts: Iterable[Tensor]) -> Tensor | None:
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total
