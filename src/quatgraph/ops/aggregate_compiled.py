"""The sums of :mod:`quatgraph.ops.aggregate` as operations of torch's library.

``torch.compile`` takes them whole, where it cannot look into functions that have rules for
``torch.func``; so do traces and fake tensors. These have gradients, without gradients of their own,
and a rule for vmap.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.members import product_of_members
from quatgraph.ops.row_sums import entry_products, rounded_sums


@torch.library.custom_op("quatgraph::aggregate", mutates_args=())
def aggregate_compiled(
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor,
    product_dtype: torch.dtype | None,
) -> Tensor:
    return rounded_sums(rowptr, col, None, weight, x, product_dtype, weight.dtype)


@torch.library.custom_op("quatgraph::sum_rows", mutates_args=())
def _sum_rows(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor,
    weight: Tensor,
    x: Tensor,
    product_dtype: torch.dtype | None,
    out_dtype: torch.dtype,
) -> Tensor:
    return rounded_sums(rowptr, col, perm, weight, x, product_dtype, out_dtype)


@torch.library.custom_op("quatgraph::entry_products", mutates_args=())
def _entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return entry_products(rowptr, col, y, x)


@aggregate_compiled.register_fake
def _(rowptr: Tensor, col: Tensor, weight: Tensor, x: Tensor, *_: Any) -> Tensor:
    return weight.new_empty(*x.shape[:-2], rowptr.size(0) - 1, x.size(-1))


@_sum_rows.register_fake
def _(rowptr: Tensor, col: Tensor, perm: Tensor, weight: Tensor, x: Tensor, *dtypes: Any) -> Tensor:
    return x.new_empty(*x.shape[:-2], rowptr.size(0) - 1, x.size(-1), dtype=dtypes[1])


@_entry_products.register_fake
def _(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-2], col.size(0))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rowptr, col, weight, x, *transpose, ctx.product_dtype = inputs
    ctx.dtype = x.dtype
    kept = x if ctx.needs_input_grad[2] else None
    ctx.save_for_backward(rowptr, col, weight, kept, *transpose)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    rowptr, col, weight, x, t_rowptr, t_col, t_perm = ctx.saved_tensors
    grad = grad.contiguous()
    grad_weight = grad_x = None
    if ctx.needs_input_grad[2]:
        grad_weight = _entry_products(rowptr, col, grad, x.to(grad.dtype))
    if ctx.needs_input_grad[3]:
        dtypes = ctx.product_dtype, ctx.dtype
        grad_x = _sum_rows(t_rowptr, t_col, t_perm, weight, grad, *dtypes)
    return None, None, grad_weight, grad_x, None, None, None, None


aggregate_compiled.register_autograd(_backward, setup_context=_setup_context)


@aggregate_compiled.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
    *tensors, product_dtype = inputs

    def product(rowptr: Tensor, col: Tensor, perm: None, *others: Tensor) -> Tensor:
        return aggregate_compiled(rowptr, col, *others, product_dtype)

    # A matrix as it is has no perm of its own.
    dims = (*in_dims[:2], None, *in_dims[2:7])
    return product_of_members(product, info.batch_size, dims, (*tensors[:2], None, *tensors[2:]))
