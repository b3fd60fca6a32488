"""Row sums and products of entries of CSR matrices, by a kernel on a GPU, else by torch.

They have no gradient; :mod:`quatgraph.ops.aggregate` defines it.
"""

import warnings
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import is_batched, is_eager_on_cpu

_EDGE_BLOCK = 1 << 18  # edge products to hold at once, as many as fit into a cache


def index2ptr(sorted_index: Tensor, size: int) -> Tensor:
    """The row pointers of sorted row indices, int32 ``(size + 1,)``."""
    if is_eager_on_cpu(sorted_index):
        counts = torch.bincount(sorted_index, minlength=size)
        return F.pad(counts.cumsum(dim=0, dtype=torch.int32), (1, 0))
    bounds = torch.arange(size + 1, device=sorted_index.device, dtype=sorted_index.dtype)
    return torch.searchsorted(sorted_index, bounds, out_int32=True)


def concat_rows(begin: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """The row and the position of each entry, once rows of these sizes are concatenated.

    On a GPU it synchronises with the host, as the output's size depends on the values.
    """
    row_ids = torch.repeat_interleave(size)
    entry = torch.arange(row_ids.numel(), device=size.device, dtype=size.dtype)
    entry += (begin - size.cumsum(0, dtype=size.dtype) + size).index_select(0, row_ids)
    return row_ids, entry


def concat_padded(
    ptr: Tensor, row: Tensor, capacity: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Concatenates rows, negative ones being empty, and pads them, without a host synchronisation.

    Shape:
        - ptr: the row pointers
        - row: the rows, ``(..., R)``
        - output: the end of each row and the shift of its entries, ``(..., R)``; for each position
          its row, R - 1 for padding, its shift, and its entry, -1 for padding, ``(..., capacity)``
    """
    known = row.clamp(min=0)
    begin = ptr[known]
    size = torch.where(row >= 0, ptr[known + 1] - begin, 0)
    ends = size.cumsum(dim=-1, dtype=ptr.dtype)
    shift = ends - size - begin
    position = torch.arange(capacity, device=row.device, dtype=ptr.dtype)
    slot = torch.searchsorted(ends, position.expand(*row.shape[:-1], -1).contiguous(), right=True)
    present = slot < row.size(-1)
    slot = slot.clamp(max=row.size(-1) - 1)
    own_shift = shift.gather(-1, slot)
    return ends, shift, slot, own_shift, torch.where(present, position - own_shift, -1)


def sum_rows(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    product_dtype: torch.dtype | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """Sums the rows of ``x`` over each row's entries.

    Args:
        perm: The e-th entry has the value ``weight[perm[e]]``; ``weight[e]`` if None.
        product_dtype: The type that x is rounded to; its own if None.
        out_dtype: The type of the sums; that of the weights if None.
    """
    out_dtype = out_dtype or weight.dtype
    x = x if product_dtype is None else x.to(product_dtype)
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


def sum_rows_torch(rowptr: Tensor, col: Tensor, weight: Tensor, x: Tensor) -> Tensor:
    if col.numel() == 0 or x.numel() == 0:
        return x.new_zeros(rowptr.numel() - 1, x.size(-1))
    # On a CPU the embedding bag is faster than torch's CSR product, or about equal, at every size
    # on record (benchmarks/records/aggregate.jsonl).
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
    """Casts to the type in which sums are accumulated."""
    return x if x.dtype == torch.float64 else x.float()


def entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The inner product of ``y``'s row and ``x``'s row for each entry."""
    if use_triton(y, x):
        from quatgraph.ops.kernels.aggregate import entry_products as kernel

        return kernel(rowptr, col, y, x)
    # torch takes as many entries as the matrix has places: not each of many duplicates.
    fits = x.size(-1) > 0 and col.numel() <= y.size(-2) * x.size(-2)
    if fits and is_eager_on_cpu(y) and not is_batched(y):
        return _sampled_product(rowptr, col, wide(y), wide(x)).to(x.dtype)
    row = torch.repeat_interleave(rowptr.diff(), output_size=col.numel())
    per_entry = max(1, y.size(-1)) * (y.size(0) if y.dim() == 3 else 1)
    block = max(1, _EDGE_BLOCK // per_entry)
    wide_y, wide_x = wide(y), wide(x)
    parts = [
        (wide_y.index_select(-2, r) * wide_x.index_select(-2, c)).sum(dim=-1)
        for r, c in zip(row.split(block), col.split(block), strict=True)
    ]
    return torch.cat(parts, dim=-1).to(x.dtype) if parts else y.new_zeros(*y.shape[:-2], 0)


def _sampled_product(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """The entries of a dense product that a sparse matrix has, without a row per entry."""
    if y.dim() == 3:
        each = [_sampled_product(rowptr, col, *one) for one in zip(y, x, strict=True)]
        return torch.stack(each) if each else y.new_zeros(0, col.numel())
    _silence_warning()
    pattern = torch.sparse_csr_tensor(
        rowptr, col, y.new_zeros(col.numel()), (len(y), len(x)), check_invariants=False
    )
    return torch.sparse.sampled_addmm(pattern, y, x.mT, beta=0.0).values()


@cache
def _silence_warning() -> None:
    """Takes the only warning of torch that its CSR matrices may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        none = torch.zeros(1, dtype=torch.int32)
        torch.sparse_csr_tensor(none, none[:0], torch.zeros(0), (0, 0))
