"""Rows by index, and their gradient for few indices, each row written once, without atomics.

For a small table each program sums the gradients of one row, in one order. For a large table some
programs hold one position of the index list each, and the first position of an index sums for all
others; the remaining programs hold some rows each, and write those that no index selects.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.members import flatten_members

_BLOCK_F, _TILE = 128, 512
"""The most features of a tile; elements of a tile that is copied."""
_SMALL_N, _SMALL_F, _SMALL_WARPS, _LARGE_N = 1024, 16, 8, 32
"""Positions, features and warps of a tile that is summed for a small table; positions for a large
one."""
_BLOCK_R, _BLOCK_C = 32, 128
"""Rows that may not be selected, and indices that they are compared with."""


@triton.jit
def _rows(of, member, position, count, feature, inside):
    """The rows at some positions; ``of`` comes from :func:`_table_args`."""
    table, code, rows, table_member, table_row, code_member, code_step = of
    row = tl.load(
        code + member * code_member + position * code_step, mask=position < count, other=0
    )
    valid = inside & ((row >= 0) & (row < rows))[:, None]
    start = member * table_member + row.to(tl.int64) * table_row
    return tl.load(table + start[:, None] + feature[None, :], mask=valid, other=0.0)


@triton.jit
def _table_rows_kernel(
    of, times, out, own, other, count, width,
    HAS_TIMES: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(2).to(tl.int64)
    position = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = (position < count)[:, None] & (feature < width)[None, :]
    at = (member * count + position)[:, None] * width + feature[None, :]
    value = _rows(of, member, position, count, feature, inside)
    if HAS_TIMES:
        factor = _rows(times, member, position, count, feature, inside)
        tl.store(own + at, value, mask=inside)
        tl.store(other + at, factor, mask=inside)
        value *= factor
    tl.store(out + at, value, mask=inside)


@triton.jit
def _codes(code, position, count, step):
    """The indices at some positions, negative beyond the last."""
    return tl.load(code + position.to(tl.int64) * step, mask=position < count, other=-1).to(
        tl.int32
    )


@triton.jit
def _first(same, each, least, SCAN: tl.constexpr):
    """The first position from ``least`` on with the same index; SCAN if there is none."""
    return tl.min(tl.where(same & (each >= least), each, SCAN), axis=0)


@triton.jit
def _small_table_kernel(
    grad, code, base, times, out, count, rows, width, code_member, code_step,
    HAS_BASE: tl.constexpr, HAS_TIMES: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    row = tl.program_id(0)
    code += member * code_member
    grad += member * count * width
    times += member * count * width
    total = tl.zeros((BLOCK_N, BLOCK_F), dtype=grad.dtype.element_ty)
    for first in range(0, count, BLOCK_N):
        position = first + tl.arange(0, BLOCK_N)
        matches = (_codes(code, position, count, code_step) == row)[:, None] & inside[None, :]
        offset = position[:, None].to(tl.int64) * width + feature[None, :]
        value = tl.load(grad + offset, mask=matches, other=0.0)
        if HAS_TIMES:
            value *= tl.load(times + offset, mask=matches, other=0.0)
        total += value
    value = tl.sum(total, axis=0)
    at = (member * rows + row) * width + feature
    if HAS_BASE:
        value += tl.load(base + at, mask=inside)
    tl.store(out + at, value, mask=inside)


@triton.jit
def _large_table_kernel(
    grad, code, base, times, out, count, rows, width, code_member, code_step,
    HAS_BASE: tl.constexpr, HAS_TIMES: tl.constexpr, SCAN: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    code += member * code_member
    grad += member * count * width
    times += member * count * width
    base += member * rows * width
    out += member * rows * width
    position = tl.program_id(0)
    if position < count:
        own = _codes(code, position, count, code_step)
        own = tl.where(own < rows, own, -1)
        row = tl.maximum(own, 0).to(tl.int64) * width + feature
        value = tl.zeros((BLOCK_F,), dtype=grad.dtype.element_ty)
        if HAS_BASE:
            value = tl.load(base + row, mask=inside)
        each = tl.arange(0, SCAN)
        same = _codes(code, each, count, code_step) == own
        first = _first(same, each, 0, SCAN)
        if (first == position) & (own >= 0):
            total = tl.zeros((BLOCK_N, BLOCK_F), dtype=grad.dtype.element_ty)
            while first < SCAN:  # skips positions with other indices
                some = first + tl.arange(0, BLOCK_N)
                mask = (_codes(code, some, count, code_step) == own)[:, None] & inside[None, :]
                at = some[:, None].to(tl.int64) * width + feature[None, :]
                given = tl.load(grad + at, mask=mask, other=0.0)
                if HAS_TIMES:
                    given *= tl.load(times + at, mask=mask, other=0.0)
                total += given
                first = _first(same, each, first + BLOCK_N, SCAN)
            tl.store(out + row, value + tl.sum(total, axis=0), mask=inside)
    else:
        others = (position - count) * BLOCK_R + tl.arange(0, BLOCK_R)
        offset = others[:, None].to(tl.int64) * width + feature[None, :]
        known = (others < rows)[:, None] & inside[None, :]
        base_rows = tl.zeros((BLOCK_R, BLOCK_F), dtype=grad.dtype.element_ty)
        if HAS_BASE:
            base_rows = tl.load(base + offset, mask=known)
        matches = tl.zeros((BLOCK_R, BLOCK_C), dtype=tl.int32)
        for start in range(0, count, BLOCK_C):
            other = _codes(code, start + tl.arange(0, BLOCK_C), count, code_step)
            matches |= (others[:, None] == other[None, :]).to(tl.int32)
        tl.store(out + offset, base_rows, mask=known & (tl.max(matches, axis=1) == 0)[:, None])


def gather_rows(table: Tensor, code: Tensor) -> Tensor:
    """See :func:`quatgraph.ops.lookup`; members and rows may be strided."""
    out = table.new_empty(*code.shape, table.size(-1))
    _write_rows(_table_args(table, code), None, out, out, out)
    return out


def gather_products(
    table: Tensor, code: Tensor, times: Tensor, times_code: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The products of the rows of two tables, and both factors."""
    out, own, other = (table.new_empty(*code.shape, table.size(-1)) for _ in range(3))
    _write_rows(_table_args(table, code), _table_args(times, times_code), out, own, other)
    return out, own, other


def _table_args(table: Tensor, code: Tensor) -> tuple[Any, ...]:
    """The kernel arguments of a table and its row indices."""
    table, code = flatten_members(table, 2), flatten_members(code)
    table = table if table.stride(-1) == 1 else table.contiguous()
    return table, code, table.size(1), *table.stride()[:2], *code.stride()


def _write_rows(
    of: tuple[Any, ...], times: tuple[Any, ...] | None, out: Tensor, own: Tensor, other: Tensor
) -> None:
    members, count, width = flatten_members(out, 2).shape
    if out.numel():
        block = min(_BLOCK_F, triton.next_power_of_2(width))
        step = _TILE // block
        with torch.cuda.device(out.device):
            _table_rows_kernel[(triton.cdiv(count, step), triton.cdiv(width, block), members)](
                of, of if times is None else times, out, own, other, count, width,
                HAS_TIMES=times is not None, BLOCK_N=step, BLOCK_F=block,
            )  # fmt: skip


def lookup_backward(
    grad: Tensor, code: Tensor, base: Tensor | None, times: Tensor | None, *, rows: int, large: bool
) -> Tensor:
    """The table's gradient; ``grad`` is scaled by ``times`` and the result added to ``base``, where
    given."""
    grad, code = grad.contiguous(), flatten_members(code)
    members, count, width = flatten_members(grad, 2).shape
    out = grad.new_empty(*grad.shape[:-2], rows, width)
    if out.numel() == 0:
        return out
    block = min(_BLOCK_F if large else _SMALL_F, triton.next_power_of_2(width))
    programs = count + triton.cdiv(rows, _BLOCK_R) if large else rows
    grid = programs, triton.cdiv(width, block), members
    given = (
        grad, code, out if base is None else base.contiguous(),
        grad if times is None else times.contiguous(), out,
        count, rows, width, *code.stride(), base is not None, times is not None,
    )  # fmt: skip
    scan = triton.next_power_of_2(count)
    with torch.cuda.device(grad.device):
        if large:
            _large_table_kernel[grid](
                *given, SCAN=scan, BLOCK_N=_LARGE_N, BLOCK_R=_BLOCK_R, BLOCK_C=_BLOCK_C,
                BLOCK_F=block,
            )  # fmt: skip
        else:
            positions = min(_SMALL_N, scan)
            _small_table_kernel[grid](
                *given, BLOCK_N=positions, BLOCK_F=block, num_warps=_SMALL_WARPS
            )
    return out
