"""Slopes of a tile of scores: one program has one row, reads its scores once, and then goes over
its positives, in one order, without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.positives import Positives

_BLOCK = 1024


@triton.jit
def _log1p(u):
    # Of numbers up to 1; of small ones 1 + u has lost what the series keeps.
    series = u * (1.0 - u * (0.5 - u * (1.0 / 3.0 - 0.25 * u)))
    return tl.where(u < 1e-3, series, tl.log(1.0 + u))


@triton.jit
def _sigmoid(s, u):
    """With u the exponential of minus the absolute value, which cannot overflow."""
    return tl.where(s >= 0.0, 1.0, u) / (1.0 + u)


@triton.jit
def _slopes_kernel(
    scores, pointers, tails, query, level, values, slopes, begin, count, width,
    SOFTMAX: tl.constexpr, KEEP: tl.constexpr, FLOOR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    scores += row * width
    slopes += row * width
    top = tl.load(level + row) if SOFTMAX else 0.0
    total = tl.zeros((BLOCK,), dtype=scores.dtype.element_ty)
    for first in range(0, width, BLOCK):
        at = first + tl.arange(0, BLOCK)
        real = at < count
        s = tl.load(scores + at, mask=real, other=0.0)
        if SOFTMAX:
            slope = tl.exp(s - top)
        else:
            u = tl.exp(-tl.abs(s))
            slope = _sigmoid(s, u) - FLOOR
            total += tl.where(real, tl.maximum(s, 0.0) + _log1p(u) - FLOOR * s, 0.0)
        tl.store(slopes + at, tl.where(real, slope, 0.0), mask=at < width)

    tl.debug_barrier()  # what other threads wrote of a positive is to be overwritten, not overwrite
    whole = tl.load(query + row).to(tl.int64)
    start = tl.load(pointers + whole, mask=whole >= 0, other=0)
    end = tl.load(pointers + whole + 1, mask=whole >= 0, other=0)
    for first in range(start, end, BLOCK):
        entry = first + tl.arange(0, BLOCK)
        at = tl.load(tails + entry, mask=entry < end, other=-1).to(tl.int64) - begin
        here = (at >= 0) & (at < count)
        s = tl.load(scores + at, mask=here, other=0.0)
        slope = tl.exp(s - top) if SOFTMAX else _sigmoid(s, tl.exp(-tl.abs(s))) - FLOOR
        total -= KEEP * s
        tl.store(slopes + at, slope - KEEP, mask=here)
    tl.store(values + row, tl.sum(total, axis=0))


@triton.jit
def _log_sum_exp_kernel(scores, out, count, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    scores += row * width
    high = tl.full((BLOCK,), -float("inf"), dtype=scores.dtype.element_ty)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        high = tl.maximum(high, tl.load(scores + at, mask=at < count, other=-float("inf")))
    top = tl.max(high, axis=0)
    total = tl.zeros((BLOCK,), dtype=scores.dtype.element_ty)
    for first in range(0, count, BLOCK):
        at = first + tl.arange(0, BLOCK)
        total += tl.exp(tl.load(scores + at, mask=at < count, other=-float("inf")) - top)
    tl.store(out + row, top + tl.log(tl.sum(total, axis=0)))


def slopes(
    scores: Tensor,
    batch: Positives,
    level: Tensor | None,
    begin: int,
    count: int,
    keep: float,
    floor: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Of the scores ``(M, B, T)`` of ``count`` candidates from ``begin`` on, 0 beyond them; those
    of the softmax where there is a level. See :mod:`quatgraph.ops.one_vs_all`."""
    values, found = scores.new_empty(scores.shape[:2]), torch.empty_like(scores, dtype=dtype)
    if values.numel() == 0:
        return values, found
    with torch.cuda.device(scores.device):
        _slopes_kernel[(values.numel(),)](
            scores, batch.pointers, batch.tails, batch.row, values if level is None else level,
            values, found, begin, count, scores.size(2),
            SOFTMAX=level is not None, KEEP=keep, FLOOR=floor, BLOCK=_BLOCK,
        )  # fmt: skip
    return values, found


def log_sum_exp(scores: Tensor, count: int) -> Tensor:
    """Of the first ``count`` numbers of each row, ``(M, B, T) -> (M, B)``."""
    out = scores.new_empty(scores.shape[:2])
    if out.numel():
        with torch.cuda.device(scores.device):
            width = scores.size(2)
            _log_sum_exp_kernel[(out.numel(),)](scores, out, count, width, BLOCK=_BLOCK)
    return out
