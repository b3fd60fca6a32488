r"""Sums over incoming edges: the sparse half of every graph convolution.

.. math:: \mathbf{y}_v = \sum_{e \in \mathrm{row}(v)} w_e \, \mathbf{x}_{\mathrm{col}(e)}

The matrix is given as CSR, with the CSR of its transpose. Its gradients are

.. math::
    \bar{\mathbf{x}}_u = \sum_{e : \mathrm{col}(e) = u} w_e \, \bar{\mathbf{y}}_{\mathrm{row}(e)},
    \qquad
    \bar w_e = \langle \bar{\mathbf{y}}_{\mathrm{row}(e)}, \mathbf{x}_{\mathrm{col}(e)} \rangle

so the first is the same sum over the transpose's rows, and the second a product per entry. Each
output number is written by one thread in one order, without atomics, and repeats bit for bit.
Higher and forward-mode derivatives are such sums and products again.

Rows are read many times, so half as many bytes make a GPU's sums faster: ``x``, and
:math:`\bar{\mathbf{y}}` in the sum for its gradient, may be rounded before they are read.

The sum exists twice. ``_Aggregate`` is an autograd function with rules for ``torch.func``, which
``torch.compile`` cannot trace. The library operation ``quatgraph::aggregate`` is for tracing:
in eager mode its dispatch takes longer than a small sum.

Shapes: R rows, C columns, E entries, F features; ``weight`` ``(E,)`` with ``x`` ``(C, F)``, or
``(M, E)`` with ``(M, C, F)`` for M sets of values on one structure. Indices are int32.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from quatgraph.errors import UserError
from quatgraph.ops.csr import entry_products, sum_rows
from quatgraph.ops.members import batch_first, vmap_product
from quatgraph.ops.transforms import active_transforms, is_tracing, jvp_depth, operation


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
        rowptr: ``(R + 1,)``, the row pointers; the last one is ``E``.
        col: ``(E,)``, the column of each entry.
        weight: ``(E,)``, the entries' values; padding entries have the value 0.
        x: ``(C, F)``.
        t_rowptr: ``(C + 1,)``, the transpose's row pointers.
        t_col: ``(E,)``, the transpose's columns.
        t_perm: ``(E,)``, the position in ``weight`` of each of the transpose's entries.
        product_dtype: bfloat16 to round x and its output gradient to it before they are summed;
            weights and sums are not rounded.

    Shape:
        - output: ``(R, F)``, in the weights' type, summed in float32 (float64 for float64)
    """
    if x.dtype != product_dtype:
        weight = weight.to(x.dtype)
    matrix = rowptr, col, None, weight, x, t_rowptr, t_col, t_perm
    if torch.compiler.is_compiling() or (is_tracing(weight, x) and not active_transforms()):
        if jvp_depth():
            raise UserError("forward-mode derivatives are not supported within torch.compile")
        return _aggregate_op(*matrix, product_dtype, weight.dtype)
    return _aggregate(*matrix, product_dtype, weight.dtype)


class _Aggregate(torch.autograd.Function):
    """The product of a matrix and x, or of a transpose, whose ``perm`` gives each entry's weight.

    Inputs are rowptr, col, perm, weight, x, the first three of the transpose, the type that x is
    rounded to, and that of the output.
    """

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        return sum_rows(*inputs[:5], *inputs[8:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_forward(*inputs[:8])
        _setup_context(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return _gradients(ctx, grad, _aggregate, _entry_products)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        rowptr, col, perm, weight, x, *transpose = ctx.saved_tensors

        def product(weight: Tensor, x: Tensor) -> Tensor:
            types = ctx.product_dtype, ctx.out_dtype
            return _aggregate(rowptr, col, perm, weight, x, *transpose, *types)

        return _product_rule(product, weight, x, tangents[3:5])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return vmap_product(_aggregate, info.batch_size, in_dims, inputs)


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
        grad_y = grad_x = None
        if ctx.needs_input_grad[2]:
            matrix = rowptr, col, None, grad, x, t_rowptr, t_col, t_perm
            grad_y = _aggregate(*matrix, None, y.dtype)
        if ctx.needs_input_grad[3]:
            matrix = t_rowptr, t_col, t_perm, grad, y, rowptr, col, None
            grad_x = _aggregate(*matrix, None, x.dtype)
        return None, None, grad_y, grad_x, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        rowptr, col, y, x, *transpose = ctx.saved_tensors

        def product(y: Tensor, x: Tensor) -> Tensor:
            return _entry_products(rowptr, col, y, x, *transpose)

        return _product_rule(product, y, x, tangents[2:4])

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Tensor) -> tuple[Tensor, int]:
        each = zip(*batch_first(info.batch_size, in_dims, inputs), strict=True)
        return torch.stack([_entry_products(*member) for member in each]), 0


_aggregate, _entry_products = operation(_Aggregate, 3, 4), operation(_EntryProducts, 2, 3)


def _product_rule(
    product: Callable[[Tensor, Tensor], Tensor],
    left: Tensor,
    right: Tensor,
    tangents: Sequence[Tensor | None],
) -> Tensor | None:
    """The tangent of a product, from those of its factors."""
    if jvp_depth() > 1:  # torch would lose the tangents of saved tensors
        raise UserError(
            "forward-over-forward derivatives are not supported: take one of them backward, as "
            "torch.func.hessian does"
        )
    pairs = (tangents[0], right), (left, tangents[1])
    terms = [product(a, b) for a, b in pairs if a is not None and b is not None]
    return sum(terms[1:], terms[0]) if terms else None


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.product_dtype, ctx.out_dtype = inputs
    ctx.x_dtype = tensors[4].dtype
    if not ctx.needs_input_grad[3]:  # a layer on a fixed graph saves no copy of x
        tensors[4] = None
    ctx.save_for_backward(*tensors)


def _gradients(
    ctx: Any, grad: Tensor, aggregate: Any, entry_products: Any
) -> tuple[Tensor | None, ...]:
    rowptr, col, perm, weight, x, t_rowptr, t_col, t_perm = ctx.saved_tensors
    grad, grad_weight, grad_x = grad.contiguous(), None, None
    if ctx.needs_input_grad[3]:
        y, x = grad.to(weight.dtype), x.to(weight.dtype)
        if perm is None:
            grad_weight = entry_products(rowptr, col, y, x, t_rowptr, t_col, t_perm)
        else:
            grad_weight = entry_products(t_rowptr, t_col, x, y, rowptr, col, perm)
    if ctx.needs_input_grad[4]:
        transposed = t_rowptr, t_col, t_perm, weight, grad, rowptr, col, perm
        grad_x = aggregate(*transposed, ctx.product_dtype, ctx.x_dtype)
    return None, None, None, grad_weight, grad_x, None, None, None, None, None


@torch.library.custom_op("quatgraph::aggregate", mutates_args=())
def _aggregate_op(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor | None,
    product_dtype: torch.dtype | None,
    out_dtype: torch.dtype,
) -> Tensor:
    return sum_rows(rowptr, col, perm, weight, x, product_dtype, out_dtype)


@_aggregate_op.register_fake
def _(rowptr: Tensor, col: Tensor, perm: Any, weight: Tensor, x: Tensor, *others: Any) -> Tensor:
    return x.new_empty(*x.shape[:-2], rowptr.size(0) - 1, x.size(-1), dtype=others[-1])


@torch.library.custom_op("quatgraph::entry_products", mutates_args=())
def _entry_products_op(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return entry_products(rowptr, col, y, x)


@_entry_products_op.register_fake
def _(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-2], col.size(0))


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    def entry_products(*inputs: Tensor) -> Tensor:
        return _entry_products_op(*inputs[:4])

    return _gradients(ctx, grad, _aggregate_op, entry_products)


_aggregate_op.register_autograd(_backward, setup_context=_setup_context)


@_aggregate_op.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
    return vmap_product(_aggregate_op, info.batch_size, in_dims, inputs)
