"""Batch normalisation that ignores padding: a program holds some features of one member and loops
over all rows, in one order, without atomics.

A tile accumulates rows and is summed once at the end, so that no thread waits for another in the
loop. Its size depends on a member's rows and features only, so a member's numbers are the same in
every ensemble.

With thousands of rows, such as the entities of a knowledge graph, one program for all rows would
leave most of the GPU idle. Such rows are cut into parts: a program per part sums its rows, then a
program per part combines the sums of all parts, in one order, and writes its rows.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activate, activation_grad

_BLOCK_F, _BLOCK_K = 32, 256
"""The most features and rows of a tile."""
_MANY_ROWS = 512
"""With more rows several programs share a feature."""
_PARTS, _PART_BLOCK_K = 128, 64
"""The most parts of many rows, and the rows of their tiles."""


@triton.jit
def _rows(row_mask, first, rows, width, feature, HAS_MASK: tl.constexpr, BLOCK_K: tl.constexpr):
    """Which rows of a tile are not padding, where its elements are, and which of them exist."""
    row = first + tl.arange(0, BLOCK_K)
    exists = row < rows
    valid = exists
    if HAS_MASK:
        valid = valid & (tl.load(row_mask + row, mask=valid, other=0.0) != 0.0)
    at = row[:, None] * width + feature[None, :]
    return valid, at, exists[:, None] & (feature < width)[None, :]


@triton.jit
def _moments(
    x, row_mask, begin, length, rows, width, feature,
    HAS_MASK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """The count of rows that are not padding, their mean, and their sum of squared deviations."""
    inside = feature < width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        valid, at, _ = _rows(row_mask, begin + first, rows, width, feature, HAS_MASK, BLOCK_K)
        total += tl.load(x + at, mask=valid[:, None] & inside[None, :], other=0.0)
        count += tl.where(valid, 1.0, 0.0)
    number = tl.sum(count, axis=0)
    average = tl.sum(total, axis=0) / tl.maximum(number, 1.0)

    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        valid, at, _ = _rows(row_mask, begin + first, rows, width, feature, HAS_MASK, BLOCK_K)
        value = tl.load(x + at, mask=valid[:, None] & inside[None, :], other=0.0)
        centred = tl.where(valid[:, None], value - average[None, :], 0.0)
        total += centred * centred
    return number, average, tl.sum(total, axis=0)


@triton.jit
def _load_stats(
    mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS: tl.constexpr
):
    """A member's mean, inverse deviation, scale and bias."""
    inside = feature < width
    average = tl.load(mean + member * width + feature, mask=inside, other=0.0)
    variance = tl.load(var + member * width + feature, mask=inside, other=0.0)
    inverse = tl.rsqrt(variance + EPS)
    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0) * inverse
    shift = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    return average, inverse, scale, shift


@triton.jit
def _load_rows(grad, x, at, known, average, scale, shift, ACTIVATION: tl.constexpr):
    """The gradients at the pre-activations, and the centred rows."""
    g = tl.load(grad + at, mask=known, other=0.0)
    centred = tl.load(x + at, mask=known, other=0.0) - average[None, :]
    value = activate(centred * scale[None, :] + shift[None, :], ACTIVATION)
    return activation_grad(g, value, ACTIVATION), centred


@triton.jit
def _sums(
    grad, x, row_mask, begin, length, rows, width, feature, average, scale, shift,
    HAS_MASK: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """Sums over some rows that all gradients need: the count and the residual of those that are not
    padding, the gradients, and the gradients times the centred rows."""
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    residual = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    product = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        valid, at, known = _rows(row_mask, begin + first, rows, width, feature, HAS_MASK, BLOCK_K)
        g, centred = _load_rows(grad, x, at, known, average, scale, shift, ACTIVATION)
        count += tl.where(valid, 1.0, 0.0)
        residual += tl.where(valid[:, None], centred, 0.0)
        total += g
        product += g * centred
    return (
        tl.sum(count, axis=0),
        tl.sum(residual, axis=0),
        tl.sum(total, axis=0),
        tl.sum(product, axis=0),
    )


@triton.jit
def _locate(BLOCK_F: tl.constexpr):
    """The part, the member and the features of a program."""
    part = tl.program_id(1).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    return part, member, tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)


@triton.jit
def _all_parts(member, parts, width, feature, PARTS: tl.constexpr):
    """Positions and masks of the counts and the sums of all parts of a member."""
    part = tl.arange(0, PARTS)
    part_id = member * parts + part
    valid = part < parts
    at = part_id[:, None] * width + feature[None, :]
    return part_id, valid, at, valid[:, None] & (feature < width)[None, :]


@triton.jit
def _combine_moments(counts, means, squares, member, parts, width, feature, PARTS: tl.constexpr):
    """The count, the mean and the variance of all parts."""
    part_id, valid, at, known = _all_parts(member, parts, width, feature, PARTS)
    count = tl.load(counts + part_id, mask=valid, other=0.0)
    number = tl.sum(count, axis=0)
    divisor = tl.maximum(number, 1.0)
    averages = tl.load(means + at, mask=known, other=0.0)
    average = tl.sum(count[:, None] * averages, axis=0) / divisor
    centred = averages - average[None, :]
    variance = tl.load(squares + at, mask=known, other=0.0) + count[:, None] * centred * centred
    return number, average, tl.sum(variance, axis=0) / divisor


@triton.jit
def _combine_sums(
    counts, residuals, totals, products, member, parts, width, feature, PARTS: tl.constexpr
):
    part_id, valid, at, known = _all_parts(member, parts, width, feature, PARTS)
    return (
        tl.sum(tl.load(counts + part_id, mask=valid, other=0.0), axis=0),
        tl.sum(tl.load(residuals + at, mask=known, other=0.0), axis=0),
        tl.sum(tl.load(totals + at, mask=known, other=0.0), axis=0),
        tl.sum(tl.load(products + at, mask=known, other=0.0), axis=0),
    )


@triton.jit
def _norm_part_moments_kernel(
    x, row_mask, counts, means, squares, rows, width, parts, mask_stride,
    HAS_MASK: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    part, member, feature = _locate(BLOCK_F)
    inside = feature < width
    row_mask += member * mask_stride
    x += member * rows * width
    number, average, square = _moments(
        x, row_mask, part * PART, PART, rows, width, feature, HAS_MASK, BLOCK_K, BLOCK_F
    )
    part_id = member * parts + part
    tl.store(counts + part_id, number)  # the same for all features
    tl.store(means + part_id * width + feature, average, mask=inside)
    tl.store(squares + part_id * width + feature, square, mask=inside)


@triton.jit
def _norm_kernel(
    x, row_mask, counts, means, squares, weight, bias, running_mean, running_var, y, mean, var,
    rows, width, parts, mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, ACTIVATION: tl.constexpr, HAS_MASK: tl.constexpr,
    PARTS: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    part, member, feature = _locate(BLOCK_F)
    inside = feature < width
    x += member * rows * width
    y += member * rows * width
    if PART:
        begin, length = part * PART, PART
        number, average, variance = _combine_moments(
            counts, means, squares, member, parts, width, feature, PARTS
        )
    else:
        begin, length = 0, rows
        row_mask += member * mask_stride
        number, average, variance = _moments(
            x, row_mask, 0, rows, rows, width, feature, HAS_MASK, BLOCK_K, BLOCK_F
        )
        variance /= tl.maximum(number, 1.0)
    if begin == 0:
        own = member * width + feature
        tl.store(mean + own, average, mask=inside)
        tl.store(var + own, variance, mask=inside)
        if number > 1.0:
            old = tl.load(running_mean + own, mask=inside, other=0.0)
            tl.store(running_mean + own, old + (average - old) * MOMENTUM, mask=inside)
            unbiased = variance * (number / (number - 1.0))
            old = tl.load(running_var + own, mask=inside, other=0.0)
            tl.store(running_var + own, old + (unbiased - old) * MOMENTUM, mask=inside)
    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(variance + EPS)
    shift = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    for first in range(0, length, BLOCK_K):
        _, at, known = _rows(row_mask, begin + first, rows, width, feature, False, BLOCK_K)
        centred = tl.load(x + at, mask=known, other=0.0) - average[None, :]
        value = activate(centred * scale[None, :] + shift[None, :], ACTIVATION)
        tl.store(y + at, value, mask=known)


@triton.jit
def _norm_part_sums_kernel(
    grad, x, row_mask, weight, bias, mean, var, counts, residuals, totals, products,
    rows, width, parts, mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_MASK: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    part, member, feature = _locate(BLOCK_F)
    inside = feature < width
    row_mask += member * mask_stride
    grad += member * rows * width
    x += member * rows * width
    average, _, scale, shift = _load_stats(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    number, residual, total, product = _sums(
        grad, x, row_mask, part * PART, PART, rows, width, feature, average, scale, shift,
        HAS_MASK, ACTIVATION, BLOCK_K, BLOCK_F,
    )  # fmt: skip
    part_id = member * parts + part
    tl.store(counts + part_id, number)  # the same for all features
    tl.store(residuals + part_id * width + feature, residual, mask=inside)
    tl.store(totals + part_id * width + feature, total, mask=inside)
    tl.store(products + part_id * width + feature, product, mask=inside)


@triton.jit
def _norm_gradients_kernel(
    grad, x, row_mask, weight, bias, mean, var, counts, residuals, totals, products,
    grad_x, grad_weight, grad_bias, rows, width, parts, mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_MASK: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    part, member, feature = _locate(BLOCK_F)
    inside = feature < width
    row_mask += member * mask_stride
    grad += member * rows * width
    x += member * rows * width
    grad_x += member * rows * width
    average, inverse, scale, shift = _load_stats(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    if PART:
        begin, length = part * PART, PART
        number, residual, sum_g, product = _combine_sums(
            counts, residuals, totals, products, member, parts, width, feature, PARTS
        )
    else:
        begin, length = 0, rows
        number, residual, sum_g, product = _sums(
            grad, x, row_mask, 0, rows, rows, width, feature, average, scale, shift,
            HAS_MASK, ACTIVATION, BLOCK_K, BLOCK_F,
        )  # fmt: skip
    sum_gx = product * inverse
    if begin == 0:
        tl.store(grad_bias + member * width + feature, sum_g, mask=inside)
        tl.store(grad_weight + member * width + feature, sum_gx, mask=inside)
    divisor = tl.maximum(number, 1.0)
    scaled_sum = sum_gx * inverse / divisor
    # The mean is rounded, so the centred rows do not sum to 0 (residual). Subtracting that makes
    # the gradients sum to 0, even if a few rows are close to each other.
    level = (sum_g - scaled_sum * residual) / divisor
    for first in range(0, length, BLOCK_K):
        valid, at, known = _rows(row_mask, begin + first, rows, width, feature, HAS_MASK, BLOCK_K)
        g, centred = _load_rows(grad, x, at, known, average, scale, shift, ACTIVATION)
        shared = tl.where(valid[:, None], level[None, :] + centred * scaled_sum[None, :], 0.0)
        tl.store(grad_x + at, (g - shared) * scale[None, :], mask=known)


def normalize(
    x: Tensor,
    row_mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    eps: float,
    momentum: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows ``(M, K, F)``, row_mask ``(M, K)``, the others ``(M, F)``; members may be strided,
    except for the running statistics, which change in place. See
    :mod:`quatgraph.ops.masked_norm`."""
    x, weight, bias = x.contiguous(), _inner_contiguous(weight), _inner_contiguous(bias)
    y, mean, var = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    if x.numel() == 0:
        return y, mean.zero_(), var.zero_()
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    grid, sizes, tile = _cut(x)
    sums = _part_sums(x, grid[1], 2)
    tile["HAS_MASK"] = row_mask is not None
    with torch.cuda.device(x.device):
        if tile["PART"]:
            _norm_part_moments_kernel[grid](
                x, mask_or_x, *sums, *sizes, mask_or_x.stride(0), **tile
            )
        _norm_kernel[grid](
            x, mask_or_x, *sums, weight, bias, running_mean, running_var, y, mean, var,
            *sizes, mask_or_x.stride(0), weight.stride(0), bias.stride(0),
            EPS=eps, MOMENTUM=momentum, ACTIVATION=CODES[activation],
            PARTS=triton.next_power_of_2(grid[1]), **tile,
        )  # fmt: skip
    return y, mean, var


def normalize_backward(
    grad: Tensor,
    x: Tensor,
    row_mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    eps: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, weight and bias."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, bias = _inner_contiguous(weight), _inner_contiguous(bias)
    grads = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    if x.numel() == 0:
        return grads[0], grads[1].zero_(), grads[2].zero_()
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    grid, sizes, tile = _cut(x)
    arrays = grad, x, mask_or_x, weight, bias, mean, var, *_part_sums(x, grid[1], 3)
    sizes = *sizes, mask_or_x.stride(0), weight.stride(0), bias.stride(0)
    tile |= {"EPS": eps, "ACTIVATION": CODES[activation], "HAS_MASK": row_mask is not None}
    with torch.cuda.device(x.device):
        if tile["PART"]:
            _norm_part_sums_kernel[grid](*arrays, *sizes, **tile)
        _norm_gradients_kernel[grid](
            *arrays, *grads, *sizes, PARTS=triton.next_power_of_2(grid[1]), **tile
        )
    return grads


def _inner_contiguous(vectors: Tensor) -> Tensor:
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()


def _empty_vectors(x: Tensor) -> Tensor:
    return x.new_empty(x.size(0), x.size(2))


def _part_sums(x: Tensor, parts: int, kinds: int) -> tuple[Tensor, ...]:
    """Buffers for the row count of each part, and for ``kinds`` sums of its features; without
    parts x, which is not used."""
    if parts == 1:
        return (x,) * (1 + kinds)
    members, _, width = x.shape
    return x.new_empty(members, parts), *x.new_empty(kinds, members, parts, width)


def _cut(x: Tensor) -> tuple[tuple[int, int, int], tuple[int, ...], dict[str, Any]]:
    """The grid, the sizes that kernels take, and the tile; the PART of few rows is 0."""
    members, rows, width = x.shape
    if rows > _MANY_ROWS:
        part = _PART_BLOCK_K * triton.cdiv(triton.cdiv(rows, _PART_BLOCK_K), _PARTS)
        parts, block_k, block_f, warps = triton.cdiv(rows, part), _PART_BLOCK_K, _BLOCK_F, 4
    else:
        part, parts = 0, 1
        block_k = min(_BLOCK_K, max(16, triton.next_power_of_2(rows)))
        block_f = min(_BLOCK_F, max(4, triton.next_power_of_2(width)))
        warps = min(16, max(1, block_k * block_f // 512))
    grid = triton.cdiv(width, block_f), parts, members
    tile = {"PART": part, "BLOCK_K": block_k, "BLOCK_F": block_f, "num_warps": warps}
    return grid, (rows, width, parts), tile
