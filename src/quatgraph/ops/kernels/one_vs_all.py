"""Slopes of a tile of scores: one program has a stretch of one row, reads its scores once, and then
goes over the row's positives, in one order, without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.kernels.aggregate import _wide, _wide_dtype
from quatgraph.ops.positives import Positives

_BLOCK, _STRETCH, _FEW = 512, 4096, 128
"""Scores that a program reads at once, and in all; positives that it takes at once."""


@triton.jit
def _sigmoid(s, FLOOR: tl.constexpr):
    """The slope of a score s, and what it adds to the loss, but for the logarithm of the third."""
    u = tl.exp(-tl.abs(s))  # which cannot overflow
    w = 1.0 + u
    share = 1.0 / w
    # The logarithm of 1 + u is that of w, and of what w has lost of a small u.
    value = tl.maximum(s, 0.0) - FLOOR * s + (u - (w - 1.0)) * share
    return tl.where(s >= 0.0, share, u * share) - FLOOR, value, w


@triton.jit
def _slopes_of(
    scores, slopes, first, count, width, top, total, product,
    SOFTMAX: tl.constexpr, FLOOR: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Writes the slopes of some scores, all of them candidates' if ``WHOLE``, and gives the sum and
    the product that the loss is made of with their parts in it."""
    at = first + tl.arange(0, BLOCK)
    there = None if WHOLE else at < width
    s = tl.load(scores + at, mask=there).to(WIDE)
    if SOFTMAX:
        slope = tl.exp(s - top)
    else:
        slope, value, w = _sigmoid(s, FLOOR)
        total += value if WHOLE else tl.where(at < count, value, 0.0)
        product *= w if WHOLE else tl.where(at < count, w, 1.0)
    tl.store(slopes + at, slope if WHOLE else tl.where(at < count, slope, 0.0), mask=there)
    return total, product


@triton.jit
def _slopes_kernel(
    scores, pointers, tails, query, level, values, slopes, begin, count, width,
    SOFTMAX: tl.constexpr, KEEP: tl.constexpr, FLOOR: tl.constexpr, WIDE: tl.constexpr,
    STRETCH: tl.constexpr, BLOCK: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    left = tl.program_id(1) * STRETCH
    right = tl.minimum(left + STRETCH, count)
    scores += row * width
    slopes += row * width
    top = tl.load(level + row) if SOFTMAX else 0.0
    total = tl.zeros((BLOCK,), dtype=WIDE)
    product = total + 1.0  # of numbers up to 2, few enough
    whole = left + (right - left) // BLOCK * BLOCK
    for first in range(left, whole, BLOCK):
        total, product = _slopes_of(
            scores, slopes, first, count, width, top, total, product,
            SOFTMAX, FLOOR, WIDE, BLOCK, True,
        )  # fmt: skip
    if whole < tl.minimum(left + STRETCH, width):
        total, product = _slopes_of(
            scores, slopes, whole, count, width, top, total, product,
            SOFTMAX, FLOOR, WIDE, BLOCK, False,
        )  # fmt: skip
    value = tl.sum(total if SOFTMAX else total + tl.log(product), axis=0)

    tl.debug_barrier()  # what other threads wrote of a positive is to be overwritten, not overwrite
    asked = tl.load(query + row).to(tl.int64)
    start = tl.load(pointers + asked)
    end = tl.load(pointers + asked + 1)
    known = tl.zeros((FEW,), dtype=WIDE)
    for first in range(start, end, FEW):
        entry = first + tl.arange(0, FEW)
        at = tl.load(tails + entry, mask=entry < end, other=-1).to(tl.int64) - begin
        here = (at >= left) & (at < right)
        s = tl.load(scores + at, mask=here, other=0.0).to(WIDE)
        slope = tl.exp(s - top) if SOFTMAX else _sigmoid(s, FLOOR)[0]
        known += s
        tl.store(slopes + at, slope - KEEP, mask=here)
    value -= KEEP * tl.sum(known, axis=0)
    tl.store(values + row * tl.num_programs(1) + tl.program_id(1), value)


@triton.jit
def _log_sum_exp_kernel(scores, out, count, width, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores += row * width
    high = tl.full((BLOCK,), -float("inf"), dtype=WIDE)
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        s = tl.load(scores + at, mask=at < count, other=-float("inf")).to(WIDE)
        higher = tl.maximum(high, s)
        shift = tl.where(higher > -float("inf"), higher, 0.0)
        total = total * tl.exp(high - shift) + tl.exp(s - shift)
        high = higher
    top = tl.max(high, axis=0)
    total = tl.where(high > -float("inf"), total * tl.exp(high - top), 0.0)
    tl.store(out + row, top + tl.log(tl.sum(total, axis=0)))


@triton.jit
def _scaled_kernel(x, factor, scale, out, size, stride, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + member * stride + at, mask=at < size)
    value *= tl.load(factor + member) * tl.load(scale + member)
    tl.store(out + member * size + at, value, mask=at < size)


@triton.jit
def _padded_kernel(x, out, size, whole, stride, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + member * stride + at, mask=at < size, other=0.0)
    tl.store(out + member * whole + at, value, mask=at < whole)


def scaled(x: Tensor, factor: Tensor, scale: Tensor) -> Tensor:
    """Matrices ``(M, N, D)``, each with its rows side by side, times two numbers each ``(M,)``."""
    members, rows, width = x.shape
    out = x.new_empty(x.shape)
    if out.numel():
        with torch.cuda.device(x.device):
            _scaled_kernel[(triton.cdiv(rows * width, 4 * _BLOCK), members)](
                x, factor.contiguous(), scale.contiguous(), out, rows * width, x.stride(0),
                BLOCK=4 * _BLOCK,
            )  # fmt: skip
    return out


def padded(x: Tensor, rows: int, dtype: torch.dtype) -> Tensor:
    """Matrices ``(M, N, D)`` in another type, with rows of zeros after their own, so that they have
    so many."""
    members, own, width = x.shape
    out = x.new_empty(members, rows, width, dtype=dtype)
    if out.numel():
        x = x if x.stride()[1:] == (width, 1) else x.contiguous()
        with torch.cuda.device(x.device):
            _padded_kernel[(triton.cdiv(rows * width, 4 * _BLOCK), members)](
                x, out, own * width, rows * width, x.stride(0), BLOCK=4 * _BLOCK
            )
    return out


def slopes(
    scores: Tensor,
    batch: Positives,
    level: Tensor | None,
    begin: int,
    count: int,
    keep: float,
    floor: float,
) -> tuple[Tensor, Tensor]:
    """Of the scores ``(M, B, T)`` of ``count`` candidates from ``begin`` on, 0 beyond them; those
    of the softmax where there is a level. And what each row adds to the loss, ``(M, B, parts)``.
    See :mod:`quatgraph.ops.one_vs_all`."""
    members, rows, width = scores.shape
    grid = members * rows, triton.cdiv(width, _STRETCH)
    values = scores.new_empty(members, rows, grid[1], dtype=_wide_dtype(scores))
    found = torch.empty_like(scores)
    if values.numel() == 0:
        return values, found
    with torch.cuda.device(scores.device):
        _slopes_kernel[grid](
            scores, batch.pointers, batch.tails, batch.row, values if level is None else level,
            values, found, begin, count, width,
            SOFTMAX=level is not None, KEEP=keep, FLOOR=floor, WIDE=_wide(scores),
            STRETCH=_STRETCH, BLOCK=_BLOCK, FEW=_FEW,
        )  # fmt: skip
    return values, found


def log_sum_exp(scores: Tensor, count: int) -> Tensor:
    """Of the first ``count`` numbers of each row, ``(M, B, T) -> (M, B)``."""
    out = scores.new_empty(scores.shape[:2], dtype=_wide_dtype(scores))
    if out.numel():
        with torch.cuda.device(scores.device):
            width = scores.size(2)
            _log_sum_exp_kernel[(out.numel(),)](
                scores, out, count, width, WIDE=_wide(scores), BLOCK=_BLOCK
            )
    return out
