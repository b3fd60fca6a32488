"""Batch normalisation without padding: one program has some features of one member, and goes over
all rows, in one order, without atomics.

A tile adds up row by row as it moves on, and is summed once at the end: in the loop no thread waits
for another. Its size depends on a member's rows and features alone, so that a member's numbers are
the same in any ensemble.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activated, before

_BLOCK_F, _BLOCK_K = 32, 256
"""Features and rows of a tile, at most."""


@triton.jit
def _real(present, row, rows, HAS_PRESENT: tl.constexpr):
    """Which rows there are and are no padding."""
    real = row < rows
    if HAS_PRESENT:
        real = real & (tl.load(present + row, mask=real, other=0.0) != 0.0)
    return real


@triton.jit
def moments(
    x, present, begin, length, rows, width, feature,
    HAS_PRESENT: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """How many of some rows are no padding, their mean, and their squares off that mean."""
    inside = feature < width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None] * width + feature[None, :]
        total += tl.load(x + at, mask=real[:, None] & inside[None, :], other=0.0)
        count += tl.where(real, 1.0, 0.0)
    number = tl.sum(count, axis=0)
    middle = tl.sum(total, axis=0) / tl.maximum(number, 1.0)

    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None] * width + feature[None, :]
        value = tl.load(x + at, mask=real[:, None] & inside[None, :], other=0.0)
        off = tl.where(real[:, None], value - middle[None, :], 0.0)
        total += off * off
    return number, middle, tl.sum(total, axis=0)


@triton.jit
def keep(
    mean, var, running_mean, running_var, own, inside, number, middle, spread,
    MOMENTUM: tl.constexpr,
):  # fmt: skip
    """Stores the statistics of so many rows, and brings the running ones a step closer to them."""
    tl.store(mean + own, middle, mask=inside)
    tl.store(var + own, spread, mask=inside)
    if number > 1.0:
        old = tl.load(running_mean + own, mask=inside, other=0.0)
        tl.store(running_mean + own, old + (middle - old) * MOMENTUM, mask=inside)
        unbiased = spread * (number / (number - 1.0))
        old = tl.load(running_var + own, mask=inside, other=0.0)
        tl.store(running_var + own, old + (unbiased - old) * MOMENTUM, mask=inside)


@triton.jit
def write_rows(
    x, y, begin, length, rows, width, feature, middle, scale, moved,
    ACTIVATION: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    inside = feature < width
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
        off = tl.load(x + at, mask=known, other=0.0) - middle[None, :]
        value = activated(off * scale[None, :] + moved[None, :], ACTIVATION)
        tl.store(y + at, value, mask=known)


@triton.jit
def kept(
    mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS: tl.constexpr
):
    """A member's mean, one over the deviation, that times the weight, and the bias."""
    inside = feature < width
    middle = tl.load(mean + member * width + feature, mask=inside, other=0.0)
    spread = tl.load(var + member * width + feature, mask=inside, other=0.0)
    inverse = tl.rsqrt(spread + EPS)
    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0) * inverse
    moved = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    return middle, inverse, scale, moved


@triton.jit
def _loaded(grad, x, at, known, middle, scale, moved, ACTIVATION: tl.constexpr):
    """Gradients before the activation, and how far the rows are off the mean."""
    g = tl.load(grad + at, mask=known, other=0.0)
    off = tl.load(x + at, mask=known, other=0.0) - middle[None, :]
    value = activated(off * scale[None, :] + moved[None, :], ACTIVATION)
    return before(g, value, ACTIVATION), off


@triton.jit
def sums(
    grad, x, present, begin, length, rows, width, feature, middle, scale, moved,
    HAS_PRESENT: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """What some rows add to the sums that all gradients need: how many are no padding, how far
    those are off the mean, the gradients, and these times how far their rows are off the mean."""
    inside = feature < width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    rest = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    product = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
        g, off = _loaded(grad, x, at, known, middle, scale, moved, ACTIVATION)
        count += tl.where(real, 1.0, 0.0)
        rest += tl.where(real[:, None], off, 0.0)
        total += g
        product += g * off
    return (
        tl.sum(count, axis=0),
        tl.sum(rest, axis=0),
        tl.sum(total, axis=0),
        tl.sum(product, axis=0),
    )


@triton.jit
def write_gradients(
    grad, x, present, by_x, begin, length, rows, width, feature, middle, inverse, scale, moved,
    number, rest, sum_g, sum_gx,
    HAS_PRESENT: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    inside = feature < width
    divisor = tl.maximum(number, 1.0)
    slope = sum_gx * inverse / divisor
    # The mean is rounded, so that the differences from it do not add up to 0 (rest): the gradients
    # do once that is taken off, also where few rows are close to each other.
    level = (sum_g - slope * rest) / divisor
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
        g, off = _loaded(grad, x, at, known, middle, scale, moved, ACTIVATION)
        shared = tl.where(real[:, None], level[None, :] + off * slope[None, :], 0.0)
        tl.store(by_x + at, (g - shared) * scale[None, :], mask=known)


@triton.jit
def _norm_kernel(
    x, present, weight, bias, running_mean, running_var, y, mean, var, rows, width,
    present_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, ACTIVATION: tl.constexpr,
    HAS_PRESENT: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    x += member * rows * width
    y += member * rows * width
    present += member * present_stride
    number, middle, squares = moments(
        x, present, 0, rows, rows, width, feature, HAS_PRESENT, BLOCK_K, BLOCK_F
    )
    spread = squares / tl.maximum(number, 1.0)
    own = member * width + feature
    keep(mean, var, running_mean, running_var, own, inside, number, middle, spread, MOMENTUM)
    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(spread + EPS)
    moved = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    write_rows(x, y, 0, rows, rows, width, feature, middle, scale, moved, ACTIVATION, BLOCK_K)


@triton.jit
def _norm_gradients_kernel(
    grad, x, present, weight, bias, mean, var, by_x, by_weight, by_bias, rows, width,
    present_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr,
    HAS_PRESENT: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    grad += member * rows * width
    x += member * rows * width
    by_x += member * rows * width
    present += member * present_stride
    middle, inverse, scale, moved = kept(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    number, rest, sum_g, product = sums(
        grad, x, present, 0, rows, rows, width, feature, middle, scale, moved,
        HAS_PRESENT, ACTIVATION, BLOCK_K, BLOCK_F,
    )  # fmt: skip
    sum_gx = product * inverse
    own = member * width + feature
    tl.store(by_bias + own, sum_g, mask=inside)
    tl.store(by_weight + own, sum_gx, mask=inside)
    write_gradients(
        grad, x, present, by_x, 0, rows, rows, width, feature, middle, inverse, scale, moved,
        number, rest, sum_g, sum_gx, HAS_PRESENT, ACTIVATION, BLOCK_K,
    )  # fmt: skip


def normalised(
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows ``(M, K, F)``, present ``(M, K)``, the others ``(M, F)``; members may lie apart in
    memory, but for the running statistics, which change in place. See
    :mod:`quatgraph.ops.masked_norm`."""
    x = x.contiguous()
    weight, bias = _dense(weight), _dense(bias)
    y, mean, var = torch.empty_like(x), _vectors(x), _vectors(x)
    if x.numel() == 0:
        return y, mean.zero_(), var.zero_()
    mask = x if present is None else _dense(present)
    members, rows, width = x.shape
    tile = _tile(rows, width)
    with torch.cuda.device(x.device):
        _norm_kernel[(triton.cdiv(width, tile["BLOCK_F"]), members)](
            x, mask, weight, bias, running_mean, running_var, y, mean, var, rows, width,
            mask.stride(0), weight.stride(0), bias.stride(0),
            EPS=eps, MOMENTUM=momentum, ACTIVATION=CODES[activation],
            HAS_PRESENT=present is not None, **tile,
        )  # fmt: skip
    return y, mean, var


def gradients(
    grad: Tensor,
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """Of :func:`normalised`, by x, weight and bias."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, bias = _dense(weight), _dense(bias)
    by_x, by_weight, by_bias = torch.empty_like(x), _vectors(x), _vectors(x)
    if x.numel() == 0:
        return by_x, by_weight.zero_(), by_bias.zero_()
    mask = x if present is None else _dense(present)
    members, rows, width = x.shape
    tile = _tile(rows, width)
    with torch.cuda.device(x.device):
        _norm_gradients_kernel[(triton.cdiv(width, tile["BLOCK_F"]), members)](
            grad, x, mask, weight, bias, mean, var, by_x, by_weight, by_bias, rows, width,
            mask.stride(0), weight.stride(0), bias.stride(0),
            EPS=eps, ACTIVATION=CODES[activation], HAS_PRESENT=present is not None, **tile,
        )  # fmt: skip
    return by_x, by_weight, by_bias


def _dense(vectors: Tensor) -> Tensor:
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()


def _vectors(x: Tensor) -> Tensor:
    return x.new_empty(x.size(0), x.size(2))


def _tile(rows: int, width: int) -> dict[str, int]:
    block_k = min(_BLOCK_K, max(16, triton.next_power_of_2(rows)))
    block_f = min(_BLOCK_F, max(4, triton.next_power_of_2(width)))
    return {
        "BLOCK_K": block_k,
        "BLOCK_F": block_f,
        "num_warps": min(16, max(1, block_k * block_f // 512)),
    }
