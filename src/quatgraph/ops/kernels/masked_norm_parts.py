"""Batch normalisation of thousands of rows, such as the entities of a knowledge graph.

One program for all rows would leave most of the GPU idle. So rows are cut into parts: a program per
part sums its rows, then a program per part combines the sums of all parts, in one order, and writes
its rows.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES
from quatgraph.ops.kernels.masked_norm import (
    _empty_vectors,
    _inner_contiguous,
    load_stats,
    moments,
    store_stats,
    sums,
    write_grads,
    write_rows,
)

_BLOCK_F, _BLOCK_K = 32, 64
"""Features and rows of a tile."""

_PARTS = 128
"""The most parts."""


@triton.jit
def _locate(parts, PART: tl.constexpr, BLOCK_F: tl.constexpr):
    """A program's first row, its part's position among all parts, its member and features."""
    part = tl.program_id(1).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    return part * PART, member * parts + part, member, feature


@triton.jit
def _all_parts(member, parts, width, feature, PARTS: tl.constexpr):
    """Positions and masks of the counts and the sums of all parts of a member."""
    part = tl.arange(0, PARTS)
    part_id = member * parts + part
    valid = part < parts
    at = part_id[:, None] * width + feature[None, :]
    return part_id, valid, at, valid[:, None] & (feature < width)[None, :]


@triton.jit
def _norm_part_moments_kernel(
    x, row_mask, counts, means, squares, rows, width, parts, mask_stride,
    HAS_MASK: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, part_id, member, feature = _locate(parts, PART, BLOCK_F)
    inside = feature < width
    row_mask += member * mask_stride
    x += member * rows * width
    number, average, square = moments(
        x, row_mask, begin, PART, rows, width, feature, HAS_MASK, BLOCK_K, BLOCK_F
    )
    tl.store(counts + part_id, number)  # the same for all features
    tl.store(means + part_id * width + feature, average, mask=inside)
    tl.store(squares + part_id * width + feature, square, mask=inside)


@triton.jit
def _norm_kernel(
    x, weight, bias, running_mean, running_var, counts, means, squares, y, mean, var,
    rows, width, parts, weight_stride, bias_stride,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, ACTIVATION: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, _, member, feature = _locate(parts, PART, BLOCK_F)
    inside = feature < width
    part_id, valid, at, known = _all_parts(member, parts, width, feature, PARTS)
    count = tl.load(counts + part_id, mask=valid, other=0.0)
    number = tl.sum(count, axis=0)
    divisor = tl.maximum(number, 1.0)
    averages = tl.load(means + at, mask=known, other=0.0)
    average = tl.sum(count[:, None] * averages, axis=0) / divisor
    centred = averages - average[None, :]
    variance = tl.load(squares + at, mask=known, other=0.0) + count[:, None] * centred * centred
    variance = tl.sum(variance, axis=0) / divisor
    if begin == 0:
        own = member * width + feature
        store_stats(
            mean, var, running_mean, running_var, own, inside, number, average, variance, MOMENTUM
        )

    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(variance + EPS)
    shift = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    x += member * rows * width
    y += member * rows * width
    write_rows(x, y, begin, PART, rows, width, feature, average, scale, shift, ACTIVATION, BLOCK_K)


@triton.jit
def _norm_part_sums_kernel(
    grad, x, row_mask, weight, bias, mean, var, counts, residuals, totals, products,
    rows, width, parts, mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_MASK: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, part_id, member, feature = _locate(parts, PART, BLOCK_F)
    inside = feature < width
    row_mask += member * mask_stride
    grad += member * rows * width
    x += member * rows * width
    average, _, scale, shift = load_stats(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    number, residual, total, product = sums(
        grad, x, row_mask, begin, PART, rows, width, feature, average, scale, shift,
        HAS_MASK, ACTIVATION, BLOCK_K, BLOCK_F,
    )  # fmt: skip
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
    begin, _, member, feature = _locate(parts, PART, BLOCK_F)
    inside = feature < width
    average, inverse, scale, shift = load_stats(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    part_id, valid, at, known = _all_parts(member, parts, width, feature, PARTS)
    number = tl.sum(tl.load(counts + part_id, mask=valid, other=0.0), axis=0)
    residual = tl.sum(tl.load(residuals + at, mask=known, other=0.0), axis=0)
    sum_g = tl.sum(tl.load(totals + at, mask=known, other=0.0), axis=0)
    sum_gx = tl.sum(tl.load(products + at, mask=known, other=0.0), axis=0) * inverse
    if begin == 0:
        tl.store(grad_bias + member * width + feature, sum_g, mask=inside)
        tl.store(grad_weight + member * width + feature, sum_gx, mask=inside)

    row_mask += member * mask_stride
    grad += member * rows * width
    x += member * rows * width
    grad_x += member * rows * width
    write_grads(
        grad, x, row_mask, grad_x, begin, PART, rows, width, feature, average, inverse, scale,
        shift, number, residual, sum_g, sum_gx, HAS_MASK, ACTIVATION, BLOCK_K,
    )  # fmt: skip


def normalize(
    x: Tensor,
    row_mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`quatgraph.ops.kernels.masked_norm.normalize`."""
    x, weight, bias = x.contiguous(), _inner_contiguous(weight), _inner_contiguous(bias)
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    y, mean, var = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    grid, shape, tile = _cut(x)
    counts, by_part = _scratch(x, grid[1], 2)
    with torch.cuda.device(x.device):
        _norm_part_moments_kernel[grid](
            x, mask_or_x, counts, *by_part, *shape, mask_or_x.stride(0),
            HAS_MASK=row_mask is not None, **tile,
        )  # fmt: skip
        _norm_kernel[grid](
            x, weight, bias, running_mean, running_var, counts, *by_part, y, mean, var,
            *shape, weight.stride(0), bias.stride(0),
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
    eps: float,
    activation: Activation,
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`quatgraph.ops.kernels.masked_norm.normalize_backward`."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, bias = _inner_contiguous(weight), _inner_contiguous(bias)
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    grad_x, grad_weight, grad_bias = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    grid, shape, tile = _cut(x)
    counts, by_part = _scratch(x, grid[1], 3)
    arrays = grad, x, mask_or_x, weight, bias, mean, var, counts, *by_part
    sizes = *shape, mask_or_x.stride(0), weight.stride(0), bias.stride(0)
    options = {
        "EPS": eps,
        "ACTIVATION": CODES[activation],
        "HAS_MASK": row_mask is not None,
        **tile,
    }
    with torch.cuda.device(x.device):
        _norm_part_sums_kernel[grid](*arrays, *sizes, **options)
        _norm_gradients_kernel[grid](
            *arrays, grad_x, grad_weight, grad_bias, *sizes,
            PARTS=triton.next_power_of_2(grid[1]), **options,
        )  # fmt: skip
    return grad_x, grad_weight, grad_bias


def _scratch(x: Tensor, parts: int, kinds: int) -> tuple[Tensor, Tensor]:
    """Buffers for the row count of each part, and for ``kinds`` sums of its features."""
    members, _, width = x.shape
    return x.new_empty(members, parts), x.new_empty(kinds, members, parts, width)


def _cut(x: Tensor) -> tuple[tuple[int, int, int], tuple[int, int, int], dict[str, int]]:
    """The grid, the sizes that kernels take, and the tile."""
    members, rows, width = x.shape
    tiles = triton.cdiv(rows, _BLOCK_K)
    part = _BLOCK_K * triton.cdiv(tiles, _PARTS)
    parts = triton.cdiv(rows, part)
    grid = triton.cdiv(width, _BLOCK_F), parts, members
    return grid, (rows, width, parts), {"PART": part, "BLOCK_K": _BLOCK_K, "BLOCK_F": _BLOCK_F}
