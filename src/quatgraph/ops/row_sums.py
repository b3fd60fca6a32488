"""Sums over the rows of a CSR matrix, and products for its entries: a kernel on a GPU, else torch.

Nothing here has a gradient; :mod:`quatgraph.ops.aggregate` says what they are.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import eager_on_cpu

_EDGE_BLOCK = 1 << 18  # numbers a block of edge products may hold at once: a cache holds as many


def sum_rows(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """The sum over rows whose e-th entry has the value ``weight[e]``, or ``weight[perm[e]]``; in
    the weights' type unless told otherwise."""
    out_dtype = out_dtype or weight.dtype
    if use_triton(x, weight):
        from quatgraph.ops.kernels.aggregate import sum_rows as kernel

        return kernel(rowptr, col, perm, weight, x, out_dtype=out_dtype)
    x = x.to(weight.dtype)
    if perm is not None and weight.dim() == 2 and weight.stride(0) == 0:
        weight = weight[0].index_select(0, perm).expand_as(weight)
    elif perm is not None:
        weight = weight.index_select(-1, perm)
    if x.dim() == 3:
        each = [sum_rows_torch(rowptr, col, *one) for one in zip(weight, x, strict=True)]
        return torch.stack(each).to(out_dtype)
    return sum_rows_torch(rowptr, col, weight, x).to(out_dtype)


def row_pointers(sorted_index: Tensor, size: int) -> Tensor:
    """Where the entries of each of ``size`` rows begin and the last ones end, int32."""
    if eager_on_cpu(sorted_index):
        counts = torch.bincount(sorted_index, minlength=size)
        return F.pad(counts.cumsum(dim=0, dtype=torch.int32), (1, 0))
    bounds = torch.arange(size + 1, device=sorted_index.device, dtype=sorted_index.dtype)
    return torch.searchsorted(sorted_index, bounds, out_int32=True)


def rounded_sums(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    product_dtype: torch.dtype | None,
    out_dtype: torch.dtype,
) -> Tensor:
    """The sums of numbers of x that are rounded first, if a type is given for it."""
    rounded = x if product_dtype is None else x.to(product_dtype)
    return sum_rows(rowptr, col, perm, weight, rounded, out_dtype)


def sum_rows_torch(rowptr: Tensor, col: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    if col.numel() == 0 or x.numel() == 0:
        return x.new_zeros(rowptr.numel() - 1, x.size(-1))
    # On a CPU the embedding bag is ahead of torch's CSR product, or about level with it, at every
    # size on record (benchmarks/records/aggregate.jsonl).
    y = F.embedding_bag(
        col,
        wide(x).contiguous(),
        rowptr,
        mode="sum",
        per_sample_weights=wide(weight).contiguous(),
        include_last_offset=True,
    )
    return y.to(x.dtype)


def wide(x: Tensor) -> Tensor:
    """The type sums are taken in."""
    return x if x.dtype == torch.float64 else x.float()


def entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The inner product of ``y``'s row and ``x``'s row for each entry."""
    if use_triton(y, x):
        from quatgraph.ops.kernels.aggregate import entry_products as kernel

        return kernel(rowptr, col, y, x)
    row = torch.repeat_interleave(rowptr.diff(), output_size=col.numel())
    per_entry = max(1, y.size(-1)) * (y.size(0) if y.dim() == 3 else 1)
    block = max(1, _EDGE_BLOCK // per_entry)
    wide_y, wide_x = wide(y), wide(x)
    parts = [
        (wide_y.index_select(-2, r) * wide_x.index_select(-2, c)).sum(dim=-1)
        for r, c in zip(row.split(block), col.split(block), strict=True)
    ]
    return torch.cat(parts, dim=-1).to(x.dtype) if parts else y.new_zeros(*y.shape[:-2], 0)
