"""Gradients of a tile of scores: a program reads a span of one row once, then loops over the row's
positives, in one order, without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.kernels.aggregate import _wide, _wide_dtype
from quatgraph.ops.one_vs_all import Positives

_BLOCK, _SPAN, _POSITIVES = 512, 4096, 128
"""Scores that a program reads at once, and in total; positives that it reads at once."""


@triton.jit
def _sigmoid(s, FLOOR: tl.constexpr):
    """The gradient of a score s, its term of the loss, and a factor whose log is added to it."""
    u = tl.exp(-tl.abs(s))  # cannot overflow
    w = 1.0 + u
    share = 1.0 / w
    # log(1 + u) is log(w) plus what rounding w lost of a small u.
    value = tl.maximum(s, 0.0) - FLOOR * s + (u - (w - 1.0)) * share
    return tl.where(s >= 0.0, share, u * share) - FLOOR, value, w


@triton.jit
def _write_grads(
    scores, grads, first, count, width, shift_value, floor_value, total, product,
    SOFTMAX: tl.constexpr, FLOOR: tl.constexpr, WIDE: tl.constexpr,
    BLOCK: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a block of scores, unmasked if ``WHOLE``, and returns the updated sum
    and product of the loss."""
    at = first + tl.arange(0, BLOCK)
    valid = None if WHOLE else at < width
    s = tl.load(scores + at, mask=valid).to(WIDE)
    if SOFTMAX:
        grad = tl.exp(s - shift_value)
        if FLOOR != 0.0:
            grad -= floor_value
            total -= s if WHOLE else tl.where(at < count, s, 0.0)  # times the floor in the end
    else:
        grad, value, w = _sigmoid(s, FLOOR)
        total += value if WHOLE else tl.where(at < count, value, 0.0)
        product *= w if WHOLE else tl.where(at < count, w, 1.0)
    tl.store(grads + at, grad if WHOLE else tl.where(at < count, grad, 0.0), mask=valid)
    return total, product


@triton.jit
def _score_grads_kernel(
    scores, ptr, tails, query, shift, share, values, grads, offset, count, width,
    SOFTMAX: tl.constexpr, SHARES: tl.constexpr, POSITIVE_WEIGHT: tl.constexpr,
    FLOOR: tl.constexpr, WIDE: tl.constexpr, SPAN: tl.constexpr, BLOCK: tl.constexpr,
    POSITIVES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    left = tl.program_id(1) * SPAN
    right = tl.minimum(left + SPAN, count)
    scores += row * width
    grads += row * width
    shift_value = tl.load(shift + row) if SOFTMAX else 0.0
    # Not in float32, which a variable that holds a constant would be.
    share_value = tl.load(share + row) if SHARES else tl.full((), 1.0, WIDE)
    floor_value = FLOOR * share_value
    weight = POSITIVE_WEIGHT * share_value
    total = tl.zeros((BLOCK,), dtype=WIDE)
    product = total + 1.0  # of few factors up to 2: no overflow
    whole = left + (right - left) // BLOCK * BLOCK
    for first in range(left, whole, BLOCK):
        total, product = _write_grads(
            scores, grads, first, count, width, shift_value, floor_value, total, product,
            SOFTMAX, FLOOR, WIDE, BLOCK, True,
        )  # fmt: skip
    if whole < tl.minimum(left + SPAN, width):
        total, product = _write_grads(
            scores, grads, whole, count, width, shift_value, floor_value, total, product,
            SOFTMAX, FLOOR, WIDE, BLOCK, False,
        )  # fmt: skip
    value = tl.sum(floor_value * total if SOFTMAX else total + tl.log(product), axis=0)

    tl.debug_barrier()  # positives overwrite what other threads wrote
    query_id = tl.load(query + row).to(tl.int64)
    start = tl.load(ptr + query_id)
    end = tl.load(ptr + query_id + 1)
    known = tl.zeros((POSITIVES,), dtype=WIDE)
    for first in range(start, end, POSITIVES):
        entry = first + tl.arange(0, POSITIVES)
        at = tl.load(tails + entry, mask=entry < end, other=-1).to(tl.int64) - offset
        here = (at >= left) & (at < right)
        s = tl.load(scores + at, mask=here, other=0.0).to(WIDE)
        grad = tl.exp(s - shift_value) - floor_value if SOFTMAX else _sigmoid(s, FLOOR)[0]
        known += s
        tl.store(grads + at, grad - weight, mask=here)
    value -= weight * tl.sum(known, axis=0)
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
    shift_value = tl.max(high, axis=0)
    total = tl.where(high > -float("inf"), total * tl.exp(high - shift_value), 0.0)
    tl.store(out + row, shift_value + tl.log(tl.sum(total, axis=0)))


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
    """Matrices ``(M, N, D)`` with contiguous rows, times two scalars each ``(M,)``."""
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
    """Casts matrices ``(M, N, D)`` and pads them with zeros to ``rows`` rows."""
    members, own, width = x.shape
    out = x.new_empty(members, rows, width, dtype=dtype)
    if out.numel():
        x = x if x.stride()[1:] == (width, 1) else x.contiguous()
        with torch.cuda.device(x.device):
            _padded_kernel[(triton.cdiv(rows * width, 4 * _BLOCK), members)](
                x, out, own * width, rows * width, x.stride(0), BLOCK=4 * _BLOCK
            )
    return out


def score_grads(
    scores: Tensor,
    batch: Positives,
    shift: Tensor | None,
    share: Tensor | None,
    offset: int,
    count: int,
    targets: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """The terms of the loss of each row ``(M, B, parts)``, and the gradients of the scores
    ``(M, B, T)`` of ``count`` candidates from ``offset`` on, 0 beyond them; of the softmax if
    there is a shift. See :mod:`quatgraph.ops.one_vs_all`.

    Args:
        shift, share: Of each row ``(M, B)``: the scores' shift and the targets' factor.
        targets: What positives add to the target of a candidate, and what all have.
    """
    members, rows, width = scores.shape
    grid = members * rows, triton.cdiv(width, _SPAN)
    values = scores.new_empty(members, rows, grid[1], dtype=_wide_dtype(scores))
    grads_out = torch.empty_like(scores)
    if values.numel() == 0:
        return values, grads_out
    with torch.cuda.device(scores.device):
        _score_grads_kernel[grid](
            scores, batch.ptr, batch.tails, batch.row, values if shift is None else shift,
            values if share is None else share, values, grads_out, offset, count, width,
            SOFTMAX=shift is not None, SHARES=share is not None, POSITIVE_WEIGHT=targets[0],
            FLOOR=targets[1], WIDE=_wide(scores), SPAN=_SPAN, BLOCK=_BLOCK, POSITIVES=_POSITIVES,
        )  # fmt: skip
    return values, grads_out


def log_sum_exp(scores: Tensor, count: int) -> Tensor:
    """The log-sum-exp of the first ``count`` scores of each row, ``(M, B, T) -> (M, B)``."""
    out = scores.new_empty(scores.shape[:2], dtype=_wide_dtype(scores))
    if out.numel():
        with torch.cuda.device(scores.device):
            width = scores.size(2)
            _log_sum_exp_kernel[(out.numel(),)](
                scores, out, count, width, WIDE=_wide(scores), BLOCK=_BLOCK
            )
    return out
