"""Row-split kernels: one program sums one row, in one order, without atomics.

A row may be a thousand times as long as the others, as that of a hub is, and all would wait for it.
So where a matrix has room for such rows, they are summed in pieces: its entries are cut every so
many, wherever rows begin, and one program sums what of a long row lies within two cuts. At most two
long rows do: one that goes on from before, and one that begins and goes on beyond.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _sum_entries(
    begin, end, moved, col, perm, weight, x, feature, width,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """The sum over entries of one row, in their order."""
    inside = feature < width
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
    return total


@triton.jit
def _row_of(rowptr, entry, rows, STEPS: tl.constexpr):
    """The row that has an entry: the last one that begins at or before it."""
    low = tl.full((), 0, tl.int32)
    high = low + rows
    for _ in range(STEPS):
        middle = (low + high) // 2
        before = tl.load(rowptr + middle) <= entry
        low = tl.where((high - low > 1) & before, middle, low)
        high = tl.where((high - low > 1) & (before == 0), middle, high)
    return low


@triton.jit
def _sum_pieces_kernel(
    rowptr, col, perm, weight, x, pieces, rows, entries, width,
    weight_stride, x_stride, pieces_stride,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, STEPS: tl.constexpr, PIECE: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    piece = tl.program_id(0).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    begin = (piece * PIECE).to(tl.int32)
    end = tl.minimum(begin + PIECE, entries)
    first = _row_of(rowptr, begin, rows, STEPS)
    last = _row_of(rowptr, end - 1, rows, STEPS)
    weight += member * weight_stride
    x += member * x_stride
    pieces += member * pieces_stride + 2 * piece * width
    inside = feature < width
    first_begin = tl.load(rowptr + first)
    first_end = tl.load(rowptr + first + 1)
    if first_end - first_begin > PIECE:
        total = _sum_entries(
            begin, tl.minimum(first_end, end), 0, col, perm, weight, x, feature, width,
            HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
        )  # fmt: skip
        tl.store(pieces + feature, total, mask=inside)
    last_begin = tl.load(rowptr + last)
    last_end = tl.load(rowptr + last + 1)
    if (last != first) & (last_end - last_begin > PIECE):
        total = _sum_entries(
            last_begin, end, 0, col, perm, weight, x, feature, width,
            HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
        )  # fmt: skip
        tl.store(pieces + width + feature, total, mask=inside)


@triton.jit
def _sum_pieces(
    begin, end, pieces, feature, width,
    PIECE: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """The sum over the pieces of a long row."""
    total = tl.zeros((BLOCK_F,), dtype=WIDE)
    last = (end - 1) // PIECE + 1
    for start in range(begin // PIECE, last, BLOCK_E):
        piece = start + tl.arange(0, BLOCK_E)
        # The row's first piece is the second of two there, unless both begin together.
        place = 2 * piece.to(tl.int64) + tl.where(piece * PIECE < begin, 1, 0)
        tile = tl.load(
            pieces + place[:, None] * width + feature[None, :],
            mask=(piece < last)[:, None] & (feature < width)[None, :],
            other=0.0,
        )
        total += tl.sum(tile, axis=0)
    return total


@triton.jit
def _sum_rows_kernel(
    rowptr, col, perm, weight, x, out, chosen, shift, pieces, width,
    weight_stride, x_stride, out_stride, pieces_stride,
    HAS_PERM: tl.constexpr, CHOSEN: tl.constexpr, PIECE: tl.constexpr, WIDE: tl.constexpr,
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
    out += member * out_stride + row * width
    if PIECE == 0:
        total = _sum_entries(
            begin, end, moved, col, perm, weight, x, feature, width,
            HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
        )  # fmt: skip
    elif end - begin > PIECE:
        pieces += member * pieces_stride
        total = _sum_pieces(begin, end, pieces, feature, width, PIECE, WIDE, BLOCK_F, BLOCK_E)
    else:
        total = _sum_entries(
            begin, end, moved, col, perm, weight, x, feature, width,
            HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
        )  # fmt: skip
    tl.store(out + feature, total, mask=inside)


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


_PIECE = 128
"""Entries from one cut to the next; a row with more is long."""

_MANY_ENTRIES = 1 << 13
"""A matrix with fewer entries has no row worth cutting."""


def _wide(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def _wide_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


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
    columns, entries = triton.cdiv(width, block_f), col.numel()
    arrays = rowptr, col, col if perm is None else perm, weight, x
    strides = weight.size(-1), x.size(-2) * width
    how = {
        "HAS_PERM": perm is not None, "WIDE": _wide(x),
        "BLOCK_F": block_f, "BLOCK_E": block_e, "num_warps": _WARPS,
    }  # fmt: skip
    cut = chosen is None and entries >= _MANY_ENTRIES
    parts = triton.cdiv(entries, _PIECE) if cut else 0
    pieces = torch.empty(members * 2 * parts * width, dtype=_wide_dtype(x), device=x.device)
    with torch.cuda.device(x.device):
        if cut:
            _sum_pieces_kernel[(parts, columns, members)](
                *arrays, pieces, rows, entries, width, *strides, 2 * parts * width,
                STEPS=max(1, rows.bit_length()), PIECE=_PIECE, **how,
            )  # fmt: skip
        _sum_rows_kernel[(rows, columns, members)](
            *arrays, out, *(chosen or (rowptr, rowptr)), pieces,
            width, *strides, rows * width, 2 * parts * width,
            CHOSEN=chosen is not None, PIECE=_PIECE if cut else 0, **how,
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
