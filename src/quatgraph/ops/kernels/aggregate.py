"""Row-split kernels: one program sums one row, in one order, without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _sum_rows_kernel(
    rowptr, col, perm, weight, x, out, chosen, shift, width, weight_stride, x_stride, out_stride,
    HAS_PERM: tl.constexpr, CHOSEN: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    if CHOSEN:  # row of the whole matrix that this row is, none if negative
        whole = tl.load(chosen + row)
        moved = tl.load(shift + row)
        begin = tl.load(rowptr + whole, mask=whole >= 0, other=0)
        end = tl.load(rowptr + whole + 1, mask=whole >= 0, other=0)
    else:
        moved = 0
        begin = tl.load(rowptr + row)
        end = tl.load(rowptr + row + 1)
    weight += member * weight_stride
    x += member * x_stride
    total = tl.zeros((BLOCK_F,), dtype=WIDE)
    for first in range(begin, end, BLOCK_E):
        entry = first + tl.arange(0, BLOCK_E)
        present = entry < end
        source = (tl.load(col + entry, mask=present, other=0) + moved).to(tl.int64)
        at = tl.load(perm + entry, mask=present, other=0) if HAS_PERM else entry
        value = tl.load(weight + at, mask=present, other=0.0).to(WIDE)
        tile = tl.load(
            x + source[:, None] * width + feature[None, :],
            mask=present[:, None] & inside[None, :],
            other=0.0,
        ).to(WIDE)
        total += tl.sum(tile * value[:, None], axis=0)
    tl.store(out + member * out_stride + row * width + feature, total, mask=inside)


@triton.jit
def _entry_products_kernel(
    rowptr, col, y, x, out, width, y_stride, x_stride, out_stride,
    WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    member = tl.program_id(1).to(tl.int64)
    begin = tl.load(rowptr + row)
    end = tl.load(rowptr + row + 1)
    y += member * y_stride + row * width
    x += member * x_stride
    for first in range(begin, end, BLOCK_E):
        entry = first + tl.arange(0, BLOCK_E)
        present = entry < end
        source = tl.load(col + entry, mask=present, other=0).to(tl.int64)
        total = tl.zeros((BLOCK_E,), dtype=WIDE)
        for start in range(0, width, BLOCK_F):
            feature = start + tl.arange(0, BLOCK_F)
            inside = feature < width
            left = tl.load(y + feature, mask=inside, other=0.0).to(WIDE)
            right = tl.load(
                x + source[:, None] * width + feature[None, :],
                mask=present[:, None] & inside[None, :],
                other=0.0,
            ).to(WIDE)
            total += tl.sum(right * left[None, :], axis=1)
        tl.store(out + member * out_stride + entry, total, mask=present)


_WARPS = 1
"""One warp a row: rows are short, and a warp alone never waits for another."""


_FEW_ROWS = 4096
"""Fewer rows, as the graphs of a batch are, do not fill a GPU: their features are shared out."""


def _blocks(width: int, rows: int) -> tuple[int, int]:
    """Features and entries per tile."""
    widest = 32 if rows < _FEW_ROWS else 256
    block_f = min(widest, max(4, triton.next_power_of_2(width)))
    return block_f, min(32, 1024 // block_f)


def _wide(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def sum_rows(
    rowptr: Tensor,
    col: Tensor,
    perm: Tensor | None,
    weight: Tensor,
    x: Tensor,
    chosen: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """See :mod:`quatgraph.ops.aggregate`; ``chosen`` rows and their shifts as in
    :mod:`quatgraph.ops.aggregate_blocks`."""
    weight, x = weight.contiguous(), x.contiguous()
    rows, width = rowptr.numel() - 1 if chosen is None else chosen[0].numel(), x.size(-1)
    members = x.size(0) if x.dim() == 3 else 1
    out = x.new_empty(*x.shape[:-2], rows, width)
    if out.numel() == 0:
        return out
    block_f, block_e = _blocks(width, rows * members)
    with torch.cuda.device(x.device):
        _sum_rows_kernel[(rows, triton.cdiv(width, block_f), members)](
            rowptr, col, col if perm is None else perm, weight, x, out,
            *(chosen or (rowptr, rowptr)),
            width, weight.size(-1), x.size(-2) * width, rows * width,
            HAS_PERM=perm is not None, CHOSEN=chosen is not None, WIDE=_wide(x),
            BLOCK_F=block_f, BLOCK_E=block_e, num_warps=_WARPS,
        )  # fmt: skip
    return out


def entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """See :mod:`quatgraph.ops.aggregate`."""
    y, x = y.contiguous(), x.contiguous()
    rows, width = rowptr.numel() - 1, x.size(-1)
    members = x.size(0) if x.dim() == 3 else 1
    out = x.new_zeros(*x.shape[:-2], col.numel())
    if out.numel() == 0 or width == 0:
        return out
    block_f, block_e = _blocks(width, rows * members)
    with torch.cuda.device(x.device):
        _entry_products_kernel[(rows, members)](
            rowptr, col, y, x, out, width, rows * width, x.size(-2) * width, col.numel(),
            WIDE=_wide(x), BLOCK_F=block_f, BLOCK_E=block_e, num_warps=_WARPS,
        )  # fmt: skip
    return out
