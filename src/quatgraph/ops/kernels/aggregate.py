"""Row-split kernels: one program sums one row, in one order, without atomics.

The row of a hub may be a thousand times as long as the others, which would all wait for it. So in a
matrix with many entries long rows are summed in pieces: entries are cut at regular intervals,
regardless of rows, and one program sums the part of a long row between two cuts. At most two long
rows share an interval: one that continues from before, and one that starts there and continues
beyond. Pieces and short rows are summed in parallel, then the pieces of each long row.

The rows may end before the last entry: what follows is padding, which no program reads.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _sum_entries(
    begin, end, column_shift, col, perm, weight, x, feature, width, x_row,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """The sum over the entries of one row, in order."""
    inside = feature < width
    total = tl.zeros((BLOCK_F,), dtype=WIDE)
    for first in range(begin, end, BLOCK_E):
        entry = first + tl.arange(0, BLOCK_E)
        present = entry < end
        source = (tl.load(col + entry, mask=present, other=0) + column_shift).to(tl.int64)
        at = tl.load(perm + entry, mask=present, other=0) if HAS_PERM else entry
        value = tl.load(weight + at, mask=present, other=0.0).to(WIDE)
        tile = tl.load(
            x + source[:, None] * x_row + feature[None, :],
            mask=present[:, None] & inside[None, :],
            other=0.0,
        ).to(WIDE)
        total += tl.sum(tile * value[:, None], axis=0)
    return total


@triton.jit
def _row_of(rowptr, entry, rows, STEPS: tl.constexpr, FAN: tl.constexpr):
    """The row of an entry: the last one that starts at or before it."""
    row = tl.full((), 0, tl.int64)
    for step in tl.static_range(STEPS):
        apart = FAN ** (STEPS - 1 - step)
        tried = row + tl.arange(0, FAN).to(tl.int64) * apart
        begin = tl.load(rowptr + tried, mask=tried < rows, other=entry + 1)
        row += (tl.sum((begin <= entry).to(tl.int32), axis=0) - 1) * apart
    return row


@triton.jit
def _piece(
    program, rowptr, rows,
    PIECE: tl.constexpr, STEPS: tl.constexpr, FAN: tl.constexpr,
):  # fmt: skip
    """Start and end of the piece that a program sums; the end is not behind the start if there is
    none.

    Each interval has two programs: one for a long row that continues from before, and one for a
    long row that starts there.
    """
    cut = program // 2 * PIECE
    next_cut = cut + tl.minimum(tl.load(rowptr + rows) - cut, PIECE)
    is_start = program % 2 == 1
    entry = tl.where(is_start, tl.maximum(next_cut - 1, 0), cut)
    row = _row_of(rowptr, entry, rows, STEPS, FAN)
    row_begin = tl.load(rowptr + row)
    row_end = tl.load(rowptr + row + 1)
    begin = tl.maximum(row_begin, cut)
    found = (row_end - row_begin > PIECE) & ((row_begin >= cut) == is_start)
    return begin, tl.where(found, tl.minimum(row_end, next_cut), begin)


@triton.jit
def _sum_rows_and_pieces_kernel(
    rowptr, col, perm, weight, x, out, pieces, rows, entries, width, x_member, x_row,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
    PIECE: tl.constexpr, STEPS: tl.constexpr, FAN: tl.constexpr,
):  # fmt: skip
    """The first programs sum the pieces of long rows, which take longest; the others sum short
    rows."""
    program = tl.program_id(0)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    slots = 2 * tl.cdiv(entries, PIECE)
    weight += member * entries
    x += member * x_member
    if program < slots:
        begin, end = _piece(program, rowptr, rows, PIECE, STEPS, FAN)
        if begin < end:
            total = _sum_entries(
                begin, end, 0, col, perm, weight, x, feature, width, x_row,
                HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
            )  # fmt: skip
            tl.store(pieces + (member * slots + program) * width + feature, total, mask=inside)
    else:
        row = program - slots
        begin = tl.load(rowptr + row)
        end = tl.load(rowptr + row + 1)
        if end - begin <= PIECE:
            total = _sum_entries(
                begin, end, 0, col, perm, weight, x, feature, width, x_row,
                HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
            )  # fmt: skip
            tl.store(out + (member * rows + row) * width + feature, total, mask=inside)


@triton.jit
def _join_pieces_kernel(
    rowptr, pieces, out, rows, entries, width,
    WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
    PIECE: tl.constexpr, STEPS: tl.constexpr, FAN: tl.constexpr,
):  # fmt: skip
    """Sums the pieces of the long row that starts within an interval, if there is one: it is the
    row of the last entry there."""
    first = tl.program_id(0)
    member = tl.program_id(2).to(tl.int64)
    cut = first * PIECE
    next_cut = cut + tl.minimum(tl.load(rowptr + rows) - cut, PIECE)
    row = _row_of(rowptr, tl.maximum(next_cut - 1, 0), rows, STEPS, FAN)
    begin = tl.load(rowptr + row)
    end = tl.load(rowptr + row + 1)
    if (begin >= cut) & (end - begin > PIECE):
        feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
        inside = feature < width
        pieces += member * 2 * tl.cdiv(entries, PIECE) * width
        total = tl.zeros((BLOCK_F,), dtype=WIDE)
        last = (end - 1) // PIECE
        for start in range(first, last + 1, BLOCK_E):
            piece = start + tl.arange(0, BLOCK_E)
            slot = 2 * piece.to(tl.int64) + tl.where(piece == first, 1, 0)
            total += tl.sum(
                tl.load(
                    pieces + slot[:, None] * width + feature[None, :],
                    mask=(piece <= last)[:, None] & inside[None, :],
                    other=0.0,
                ),
                axis=0,
            )
        tl.store(out + (member * rows + row) * width + feature, total, mask=inside)


@triton.jit
def _sum_rows_kernel(
    rowptr, col, perm, weight, x, out, selected, shift, rows, entries, width, x_member, x_row,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
    SELECTED: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    if SELECTED:  # the index of a row of the whole matrix, negative for padding
        whole = tl.load(selected + member * rows + row)
        column_shift = tl.load(shift + member * rows + row)
        begin = tl.load(rowptr + whole, mask=whole >= 0, other=0)
        end = tl.load(rowptr + whole + 1, mask=whole >= 0, other=0)
        entries = 0  # all members share the weights
    else:
        column_shift = 0
        begin = tl.load(rowptr + row)
        end = tl.load(rowptr + row + 1)
    total = _sum_entries(
        begin, end, column_shift, col, perm, weight + member * entries, x + member * x_member,
        feature, width, x_row, HAS_PERM, WIDE, BLOCK_F, BLOCK_E,
    )  # fmt: skip
    tl.store(out + (member * rows + row) * width + feature, total, mask=feature < width)


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
"""One warp per row: rows are short, and a single warp never waits for another."""

_FEW_ROWS = 4096
"""Fewer rows, as in a batch of graphs, do not fill a GPU: their features are split."""


def _tile(x: Tensor, rows: int) -> dict[str, int]:
    """Features and entries of a tile of at most 4 KiB, and its warps."""
    widest = 32 if rows < _FEW_ROWS else 256
    block_f = min(widest, max(4, triton.next_power_of_2(x.size(-1))))
    block_e = min(32, 4096 // min(4, x.element_size()) // block_f)
    return {"BLOCK_F": block_f, "BLOCK_E": block_e, "num_warps": _WARPS}


_PIECE = 128
"""The least entries of an interval; a row with more is long."""

_MANY_ROWS = 1 << 15
"""So many rows, of all members, fill a GPU: then only rows far beyond the mean are cut."""

_MANY_ENTRIES = 1 << 14
"""With fewer entries cutting costs more than it saves: it needs a second kernel, and without it
training on Cora and Citeseer is one to two percent faster."""

_FAN = 32
"""Row pointers that a warp compares at once in the search for an entry's row."""


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
    selected: tuple[Tensor, Tensor] | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """See :mod:`quatgraph.ops.aggregate`; ``selected`` rows and their shifts as in
    :mod:`quatgraph.ops.aggregate_blocks`, of several members ``(M, R)`` for x ``(M, C, F)``. The
    sums have the type of the weights by default; x may have another type, and strided members and
    rows."""
    weight, x = weight.contiguous(), x if x.stride(-1) == 1 else x.contiguous()
    rows, width = rowptr.numel() - 1 if selected is None else selected[0].size(-1), x.size(-1)
    members, entries = x.size(0) if x.dim() == 3 else 1, col.numel()
    out = weight.new_empty(*x.shape[:-2], rows, width, dtype=out_dtype)
    if out.numel() == 0:
        return out
    tile = _tile(x, rows * members)
    columns = triton.cdiv(width, tile["BLOCK_F"])
    arrays = rowptr, col, col if perm is None else perm, weight, x, out
    sizes, strides = (rows, entries, width), (x.stride(0), x.stride(-2))
    how = {"WIDE": _wide(weight), **tile}
    with torch.cuda.device(x.device):
        if selected is not None or entries < _MANY_ENTRIES:
            _sum_rows_kernel[(rows, columns, members)](
                *arrays, *(selected or (rowptr, rowptr)), *sizes, *strides,
                HAS_PERM=perm is not None, SELECTED=selected is not None, **how,
            )  # fmt: skip
            return out
        piece = _piece_size(entries, rows, members * columns)
        parts = triton.cdiv(entries, piece)
        pieces = weight.new_empty(members * 2 * parts * width, dtype=_wide_dtype(weight))
        how |= {"PIECE": piece, "STEPS": _steps(rows), "FAN": _FAN}
        _sum_rows_and_pieces_kernel[(2 * parts + rows, columns, members)](
            *arrays, pieces, *sizes, *strides, HAS_PERM=perm is not None, **how
        )
        _join_pieces_kernel[(parts, columns, members)](rowptr, pieces, out, *sizes, **how)
    return out


def _piece_size(entries: int, rows: int, times: int) -> int:
    """Entries of an interval. Most intervals have no long row: where rows are many, the programs of
    intervals are at most an eighth of those for rows."""
    if rows * times < _MANY_ROWS:
        return _PIECE
    return max(_PIECE, triton.next_power_of_2(triton.cdiv(16 * entries, rows)))


def _steps(rows: int) -> int:
    """Steps of the search for a row."""
    steps = 1
    while _FAN**steps < rows:
        steps += 1
    return steps


def entry_products(rowptr: Tensor, col: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """See :mod:`quatgraph.ops.aggregate`."""
    y, x = y.contiguous(), x.contiguous()
    rows, width = rowptr.numel() - 1, x.size(-1)
    members = x.size(0) if x.dim() == 3 else 1
    out = x.new_zeros(*x.shape[:-2], col.numel())
    if out.numel() == 0 or width == 0:
        return out
    tile = _tile(x, rows * members)
    with torch.cuda.device(x.device):
        _entry_products_kernel[(rows, members)](
            rowptr, col, y, x, out, width, rows * width, x.size(-2) * width, col.numel(),
            WIDE=_wide(x), **tile,
        )  # fmt: skip
    return out
