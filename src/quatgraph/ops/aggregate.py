r"""Sums over incoming edges: the sparse half of every graph convolution.

.. math:: \mathbf{y}_v = \sum_{e \in \mathrm{row}(v)} w_e \, \mathbf{x}_{\mathrm{col}(e)}

The matrix comes as CSR together with the CSR of its transpose. Its gradients are

.. math::
    \bar{\mathbf{x}}_u = \sum_{e : \mathrm{col}(e) = u} w_e \, \bar{\mathbf{y}}_{\mathrm{row}(e)},
    \qquad
    \bar w_e = \langle \bar{\mathbf{y}}_{\mathrm{row}(e)}, \mathbf{x}_{\mathrm{col}(e)} \rangle

so the first is the same sum over the transpose's rows and the second a row of products: each output
number is written by one thread in one order, without atomics, and repeats bit for bit.

Rows are read many times over: half as many bytes of them make a GPU's sums faster. So ``x``, and
:math:`\bar{\mathbf{y}}` in the sum for its gradient, may be rounded before they are read.

Shapes: R rows, C columns, E entries, F features; ``weight`` ``(E,)`` with ``x`` ``(C, F)``, or
``(M, E)`` with ``(M, C, F)`` for M sets of values on one structure. Indices are int32.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.errors import Mistake
from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import end_to_end, members_first

_EDGE_BLOCK = 1 << 22  # numbers a block of edge products may hold at once


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
    return _aggregate(rowptr, col, weight, x, t_rowptr, t_col, t_perm, product_dtype)


@torch.library.custom_op("quatgraph::aggregate", mutates_args=())
def _aggregate(
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor,
    product_dtype: torch.dtype | None,
) -> Tensor:
    return _sum_rows_forward(rowptr, col, None, weight, _rounded(x, product_dtype))


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
    """The sum over rows whose e-th entry has the value ``weight[perm[e]]``."""
    rounded = _rounded(x, product_dtype)
    return _sum_rows_forward(rowptr, col, perm, weight, rounded, out_dtype)


def _rounded(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    return x if dtype is None else x.to(dtype)


@torch.library.custom_op("quatgraph::entry_products", mutates_args=())
def _entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The inner product of ``y``'s row and ``x``'s row for each entry."""
    if use_triton(x):
        from quatgraph.ops.kernels.aggregate import entry_products

        return entry_products(rowptr, col, y, x)
    row = torch.repeat_interleave(rowptr.diff(), output_size=col.numel())
    per_entry = max(1, y.size(-1)) * (y.size(0) if y.dim() == 3 else 1)
    block = max(1, _EDGE_BLOCK // per_entry)
    parts = [
        (_wide(y).index_select(-2, r) * _wide(x).index_select(-2, c)).sum(dim=-1)
        for r, c in zip(row.split(block), col.split(block), strict=True)
    ]
    return torch.cat(parts, dim=-1).to(x.dtype) if parts else y.new_zeros(*y.shape[:-2], 0)


def _sum_rows_forward(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The sums, in the weights' type unless told otherwise."""
    out_dtype = out_dtype or weight.dtype
    if use_triton(x):
        from quatgraph.ops.kernels.aggregate import sum_rows

        return sum_rows(rowptr, col, perm, weight, x, out_dtype=out_dtype)
    x = x.to(weight.dtype)
    if perm is not None and weight.dim() == 2 and weight.stride(0) == 0:
        weight = weight[0].index_select(0, perm).expand_as(weight)
    elif perm is not None:
        weight = weight.index_select(-1, perm)
    if x.dim() == 3:
        each = [_sum_rows_torch(rowptr, col, *one) for one in zip(weight, x, strict=True)]
        return torch.stack(each).to(out_dtype)
    return _sum_rows_torch(rowptr, col, weight, x).to(out_dtype)


def _sum_rows_torch(rowptr: Tensor, col: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    if col.numel() == 0 or x.numel() == 0:
        return x.new_zeros(rowptr.numel() - 1, x.size(-1))
    # On a CPU the embedding bag is ahead of torch's CSR product, or about level with it, at every
    # size on record (benchmarks/records/aggregate.jsonl).
    y = F.embedding_bag(
        col,
        _wide(x).contiguous(),
        rowptr,
        mode="sum",
        per_sample_weights=_wide(weight).contiguous(),
        include_last_offset=True,
    )
    return y.to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """The type sums are taken in."""
    return x if x.dtype == torch.float64 else x.float()


@_aggregate.register_fake
def _(
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor,
    product_dtype: torch.dtype | None,
) -> Tensor:
    return weight.new_empty(*x.shape[:-2], rowptr.size(0) - 1, x.size(-1))


@_sum_rows.register_fake
def _(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor,
    weight: Tensor,
    x: Tensor,
    product_dtype: torch.dtype | None,
    out_dtype: torch.dtype,
) -> Tensor:
    return x.new_empty(*x.shape[:-2], rowptr.size(0) - 1, x.size(-1), dtype=out_dtype)


@_entry_products.register_fake
def _(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:-2], col.size(0))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rowptr, col, weight, x, *transpose, ctx.product_dtype = inputs
    ctx.dtype = x.dtype
    # x is kept only for the weights' gradient: a layer on a fixed graph holds no copy of it.
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


_aggregate.register_autograd(_backward, setup_context=_setup_context)


@_aggregate.register_vmap
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    rowptr: Tensor,
    col: Tensor,
    weight: Tensor,
    x: Tensor,
    t_rowptr: Tensor,
    t_col: Tensor,
    t_perm: Tensor,
    product_dtype: torch.dtype | None,
) -> tuple[Tensor, int]:
    members, in_dims = info.batch_size, in_dims[:7]
    graph_dims = (*in_dims[:2], *in_dims[4:])
    if any(dim is not None for dim in graph_dims):
        # Each member has its own graph: together they are one block-diagonal graph, on which the
        # members of an inner vmap, if there is one, have values of their own.
        rowptr, col, weight, x, t_rowptr, t_col, t_perm = (
            members_first(value, dim, members)
            for value, dim in zip(
                (rowptr, col, weight, x, t_rowptr, t_col, t_perm), in_dims, strict=True
            )
        )
        rows, entries, columns = rowptr.size(1) - 1, col.size(1), x.size(-2)
        y = _aggregate(
            _block_pointers(rowptr, entries),
            end_to_end(col, columns),
            weight.movedim(0, -2).flatten(-2),
            x.movedim(0, -3).flatten(-3, -2),
            _block_pointers(t_rowptr, entries),
            end_to_end(t_col, rows),
            end_to_end(t_perm, entries),
            product_dtype,
        )
        return y.unflatten(-2, (members, rows)), y.dim() - 2
    if in_dims[2] is None and x.is_cuda:
        # Members share graph and weights: they ride along as extra columns of one product. (A CPU's
        # cache holds one member's rows better than all members', so there each goes by itself.)
        assert in_dims[3] is not None
        x = x.movedim(in_dims[3], -2)  # (..., C, M, F)
        y = _aggregate(rowptr, col, weight, x.flatten(-2), t_rowptr, t_col, t_perm, product_dtype)
        return y.unflatten(-1, x.shape[-2:]), y.dim() - 1
    # Each member has its values on the shared graph; an outer vmap's members join them.
    weight = members_first(weight, in_dims[2], members)
    x = members_first(x, in_dims[3], members)
    lead = x.shape[:-2]
    if len(lead) > 1:
        weight = weight.reshape(-1, weight.size(-1))
        x = x.reshape(-1, *x.shape[-2:])
    y = _aggregate(rowptr, col, weight, x, t_rowptr, t_col, t_perm, product_dtype)
    return y.unflatten(0, lead), 0


def _block_pointers(rowptr: Tensor, entries: int) -> Tensor:
    """Row pointers of the block-diagonal matrix of M matrices with equally many entries."""
    if rowptr.size(0) * entries >= 1 << 31:
        raise Mistake(f"{rowptr.size(0)} graphs of {entries} edges are too many for one product")
    start = torch.arange(rowptr.size(0), device=rowptr.device, dtype=rowptr.dtype) * entries
    inner = rowptr[:, :-1] + start[:, None]
    last = torch.full((1,), rowptr.size(0) * entries, device=rowptr.device, dtype=rowptr.dtype)
    return torch.cat((inner.flatten(), last))
