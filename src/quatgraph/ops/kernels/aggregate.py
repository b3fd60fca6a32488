"""Row-split kernels: one program sums one row, in one order, without atomics.

A row may be a thousand times as long as the others, as that of a hub is, and all would wait for it.
So where a matrix has room for such rows, they are summed in pieces: its entries are cut every so
many, wherever rows begin, and one program sums what of a long row lies within two cuts. At most two
long rows do: one that goes on from before, and one that begins and goes on beyond. Pieces and short
rows are summed side by side, then the pieces of each long row.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _sum_entries(
    begin, end, moved, col, perm, weight, x, feature, width, x_row,
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
            x + source[:, None] * x_row + feature[None, :],
            mask=present[:, None] & inside[None, :],
            other=0.0,
        ).to(WIDE)
        total += tl.sum(tile * value[:, None], axis=0)
    return total


@triton.jit
def _row_of(rowptr, entry, rows, STEPS: tl.constexpr, FAN: tl.constexpr):
    """The row that has an entry: the last one that begins at or before it."""
    row = tl.full((), 0, tl.int64)
    for step in tl.static_range(STEPS):
        apart = FAN ** (STEPS - 1 - step)
        tried = row + tl.arange(0, FAN).to(tl.int64) * apart
        begin = tl.load(rowptr + tried, mask=tried < rows, other=entry + 1)
        row += (tl.sum((begin <= entry).to(tl.int32), axis=0) - 1) * apart
    return row


@triton.jit
def _piece(
    program, rowptr, rows, entries,
    PIECE: tl.constexpr, STEPS: tl.constexpr, FAN: tl.constexpr,
):  # fmt: skip
    """Where the piece that a program sums begins and ends; the same place where there is none.

    Each two cuts have two programs: one for a long row that goes on from before, and one for a long
    row that begins there.
    """
    cut = program // 2 * PIECE
    next_cut = cut + tl.minimum(entries - cut, PIECE)
    begins = program % 2 == 1
    row = _row_of(rowptr, tl.where(begins, next_cut - 1, cut), rows, STEPS, FAN)
    row_begin = tl.load(rowptr + row)
    row_end = tl.load(rowptr + row + 1)
    begin = tl.maximum(row_begin, cut)
    found = (row_end - row_begin > PIECE) & ((row_begin >= cut) == begins)
    return begin, tl.where(found, tl.minimum(row_end, next_cut), begin)


@triton.jit
def _sum_rows_and_pieces_kernel(
    rowptr, col, perm, weight, x, out, pieces, rows, entries, width, x_member, x_row,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
    PIECE: tl.constexpr, STEPS: tl.constexpr, FAN: tl.constexpr,
):  # fmt: skip
    """The pieces of long rows, which take longest, by the first programs; the other rows by the
    rest."""
    program = tl.program_id(0)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    slots = 2 * tl.cdiv(entries, PIECE)
    weight += member * entries
    x += member * x_member
    if program < slots:
        begin, end = _piece(program, rowptr, rows, entries, PIECE, STEPS, FAN)
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
    """The sum over the pieces of the long row that begins within two cuts, if one does: it is that
    of the last entry there."""
    first = tl.program_id(0)
    member = tl.program_id(2).to(tl.int64)
    cut = first * PIECE
    row = _row_of(rowptr, cut + tl.minimum(entries - cut, PIECE) - 1, rows, STEPS, FAN)
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
    rowptr, col, perm, weight, x, out, chosen, shift, rows, entries, width, x_member, x_row,
    HAS_PERM: tl.constexpr, WIDE: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_E: tl.constexpr,
    CHOSEN: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    if CHOSEN:  # row of the whole matrix that this row is, none if negative
        whole = tl.load(chosen + member * rows + row)
        moved = tl.load(shift + member * rows + row)
        begin = tl.load(rowptr + whole, mask=whole >= 0, other=0)
        end = tl.load(rowptr + whole + 1, mask=whole >= 0, other=0)
        entries = 0  # whose weights all members share
    else:
        moved = 0
        begin = tl.load(rowptr + row)
        end = tl.load(rowptr + row + 1)
    total = _sum_entries(
        begin, end, moved, col, perm, weight + member * entries, x + member * x_member,
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
"""One warp a row: rows are short, and a warp alone never waits for another."""

_FEW_ROWS = 4096
"""Fewer rows, as the graphs of a batch are, do not fill a GPU: their features are shared out."""


def _tile(x: Tensor, rows: int) -> dict[str, int]:
    """Features and entries of a tile, of 4 KiB if there is as much, and its warps."""
    widest = 32 if rows < _FEW_ROWS else 256
    block_f = min(widest, max(4, triton.next_power_of_2(x.size(-1))))
    block_e = min(32, 4096 // min(4, x.element_size()) // block_f)
    return {"BLOCK_F": block_f, "BLOCK_E": block_e, "num_warps": _WARPS}


_PIECE = 128
"""Entries from one cut to the next, at least; a row with more is long."""

_MANY_ROWS = 1 << 15
"""As many rows, of all members, fill a GPU: there only rows far beyond the mean are cut."""

_MANY_ENTRIES = 1 << 14
"""With fewer entries cutting costs more than it saves: it takes a second kernel, and without it
training on Cora and Citeseer is one to two percent faster. (A graph that is one row waits.)"""

_FAN = 32
"""Row pointers that a warp looks at together in the search for an entry's row."""


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
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """See :mod:`quatgraph.ops.aggregate`; ``chosen`` rows and their shifts as in
    :mod:`quatgraph.ops.aggregate_blocks`, of several members ``(M, R)`` for x ``(M, C, F)``. The
    sums have the type of the weights unless told otherwise; x may have another, and members and
    rows that lie apart in memory."""
    weight, x = weight.contiguous(), x if x.stride(-1) == 1 else x.contiguous()
    rows, width = rowptr.numel() - 1 if chosen is None else chosen[0].size(-1), x.size(-1)
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
        if chosen is not None or entries < _MANY_ENTRIES:
            _sum_rows_kernel[(rows, columns, members)](
                *arrays, *(chosen or (rowptr, rowptr)), *sizes, *strides,
                HAS_PERM=perm is not None, CHOSEN=chosen is not None, **how,
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
    """Entries from one cut to the next. Each two cuts have two programs, which find most often that
    no long row is there: where rows are many, they are an eighth of those for rows, at most."""
    if rows * times < _MANY_ROWS:
        return _PIECE
    return max(_PIECE, triton.next_power_of_2(triton.cdiv(16 * entries, rows)))


def _steps(rows: int) -> int:
    """Looks that the search for a row takes."""
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
