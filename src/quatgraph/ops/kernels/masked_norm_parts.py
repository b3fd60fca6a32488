"""Batch normalisation of thousands of rows, as the entities of a knowledge graph are.

One program for all rows would take long, while most of the GPU does nothing. So rows are cut into
parts: a program for each sums up its part, then a program for each puts the sums of all together,
in one order, and writes its part.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.kernels.masked_norm import _dense, _real, _vectors

_BLOCK_F, _BLOCK_K = 32, 64
"""Features and rows of a tile."""

_PARTS = 128
"""Parts, at most."""


@triton.jit
def _place(width, parts, PART: tl.constexpr, BLOCK_F: tl.constexpr):
    """Where a program is: its part's first row, its member, its features, its place in the sums."""
    part = tl.program_id(1)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    return part * PART, member, feature, (member * parts + part) * width + feature


@triton.jit
def _part_moments_kernel(
    x, present, counts, means, squares, rows, width, parts, present_stride,
    HAS_PRESENT: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """How many rows of a part are no padding, their mean, and their squares off that mean."""
    begin, member, feature, own = _place(width, parts, PART, BLOCK_F)
    inside = feature < width
    present += member * present_stride
    x += member * rows * width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, PART, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None].to(tl.int64) * width + feature[None, :]
        total += tl.load(x + at, mask=real[:, None] & inside[None, :], other=0.0)
        count += tl.where(real, 1.0, 0.0)
    number = tl.sum(count, axis=0)
    middle = tl.sum(total, axis=0) / tl.maximum(number, 1.0)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, PART, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        at = row[:, None].to(tl.int64) * width + feature[None, :]
        value = tl.load(x + at, mask=real[:, None] & inside[None, :], other=0.0)
        off = tl.where(real[:, None], value - middle[None, :], 0.0)
        total += off * off
    tl.store(counts + own, number + tl.zeros_like(middle), mask=inside)
    tl.store(means + own, middle, mask=inside)
    tl.store(squares + own, tl.sum(total, axis=0), mask=inside)


@triton.jit
def _norm_kernel(
    x, weight, bias, counts, means, squares, y, mean, var, rows, width, parts,
    weight_stride, bias_stride, EPS: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, member, feature, _ = _place(width, parts, PART, BLOCK_F)
    inside = feature < width
    part = tl.arange(0, PARTS)
    there = (part < parts)[:, None] & inside[None, :]
    of_part = (member * parts + part[:, None]) * width + feature[None, :]
    count = tl.load(counts + of_part, mask=there, other=0.0)
    middles = tl.load(means + of_part, mask=there, other=0.0)
    divisor = tl.maximum(tl.sum(count, axis=0), 1.0)
    middle = tl.sum(count * middles, axis=0) / divisor
    off = middles - middle[None, :]
    spread = tl.load(squares + of_part, mask=there, other=0.0) + count * off * off
    spread = tl.sum(spread, axis=0) / divisor
    if begin == 0:
        tl.store(mean + member * width + feature, middle, mask=inside)
        tl.store(var + member * width + feature, spread, mask=inside)

    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(spread + EPS)
    moved = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    x += member * rows * width
    y += member * rows * width
    for first in range(0, PART, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        known = (row < rows)[:, None] & inside[None, :]
        at = row[:, None].to(tl.int64) * width + feature[None, :]
        value = (tl.load(x + at, mask=known, other=0.0) - middle[None, :]) * scale[None, :]
        tl.store(y + at, value + moved[None, :], mask=known)


@triton.jit
def _part_sums_kernel(
    grad, x, present, mean, counts, rests, totals, products, rows, width, parts, present_stride,
    HAS_PRESENT: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """What a part adds to the sums that all gradients need."""
    begin, member, feature, own = _place(width, parts, PART, BLOCK_F)
    inside = feature < width
    present += member * present_stride
    grad += member * rows * width
    x += member * rows * width
    middle = tl.load(mean + member * width + feature, mask=inside, other=0.0)
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    rest = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    product = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, PART, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        known = (row < rows)[:, None] & inside[None, :]
        at = row[:, None].to(tl.int64) * width + feature[None, :]
        g = tl.load(grad + at, mask=known, other=0.0)
        off = tl.load(x + at, mask=known, other=0.0) - middle[None, :]
        count += tl.where(real, 1.0, 0.0)
        rest += tl.where(real[:, None], off, 0.0)
        total += g
        product += g * off
    tl.store(counts + own, tl.sum(count, axis=0) + tl.zeros_like(middle), mask=inside)
    tl.store(rests + own, tl.sum(rest, axis=0), mask=inside)
    tl.store(totals + own, tl.sum(total, axis=0), mask=inside)
    tl.store(products + own, tl.sum(product, axis=0), mask=inside)


@triton.jit
def _gradients_kernel(
    grad, x, present, weight, mean, var, counts, rests, totals, products, by_x, by_weight, by_bias,
    rows, width, parts, present_stride, weight_stride,
    EPS: tl.constexpr, HAS_PRESENT: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, member, feature, _ = _place(width, parts, PART, BLOCK_F)
    inside = feature < width
    vector = member * width + feature
    middle = tl.load(mean + vector, mask=inside, other=0.0)
    inverse = tl.rsqrt(tl.load(var + vector, mask=inside, other=0.0) + EPS)
    part = tl.arange(0, PARTS)
    there = (part < parts)[:, None] & inside[None, :]
    of_part = (member * parts + part[:, None]) * width + feature[None, :]
    divisor = tl.maximum(tl.sum(tl.load(counts + of_part, mask=there, other=0.0), axis=0), 1.0)
    rest = tl.sum(tl.load(rests + of_part, mask=there, other=0.0), axis=0)
    sum_g = tl.sum(tl.load(totals + of_part, mask=there, other=0.0), axis=0)
    sum_gx = tl.sum(tl.load(products + of_part, mask=there, other=0.0), axis=0) * inverse
    if begin == 0:
        tl.store(by_bias + vector, sum_g, mask=inside)
        tl.store(by_weight + vector, sum_gx, mask=inside)

    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= inverse
    slope = sum_gx * inverse / divisor
    level = (sum_g - slope * rest) / divisor  # see the kernel of few rows
    present += member * present_stride
    grad += member * rows * width
    x += member * rows * width
    by_x += member * rows * width
    for first in range(0, PART, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        real = _real(present, row, rows, HAS_PRESENT)
        known = (row < rows)[:, None] & inside[None, :]
        at = row[:, None].to(tl.int64) * width + feature[None, :]
        g = tl.load(grad + at, mask=known, other=0.0)
        off = tl.load(x + at, mask=known, other=0.0) - middle[None, :]
        shared = tl.where(real[:, None], level[None, :] + off * slope[None, :], 0.0)
        tl.store(by_x + at, (g - shared) * scale[None, :], mask=known)


def normalised(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`quatgraph.ops.kernels.masked_norm.normalised`."""
    x, weight, bias = x.contiguous(), _dense(weight), _dense(bias)
    mask = x if present is None else _dense(present)
    y, mean, var = torch.empty_like(x), _vectors(x), _vectors(x)
    grid, shape, tile = _cut(x)
    moments = x.new_empty(3, x.size(0), grid[1], x.size(2))
    with torch.cuda.device(x.device):
        _part_moments_kernel[grid](
            x, mask, *moments, *shape, mask.stride(0), HAS_PRESENT=present is not None, **tile
        )
        _norm_kernel[grid](
            x, weight, bias, *moments, y, mean, var, *shape, weight.stride(0), bias.stride(0),
            EPS=eps, PARTS=triton.next_power_of_2(grid[1]), **tile,
        )  # fmt: skip
    return y, mean, var


def gradients(
    grad: Tensor,
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`quatgraph.ops.kernels.masked_norm.gradients`."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, mask = _dense(weight), x if present is None else _dense(present)
    by_x, by_weight, by_bias = torch.empty_like(x), _vectors(x), _vectors(x)
    grid, shape, tile = _cut(x)
    sums = x.new_empty(4, x.size(0), grid[1], x.size(2))
    with torch.cuda.device(x.device):
        _part_sums_kernel[grid](
            grad, x, mask, mean, *sums, *shape, mask.stride(0),
            HAS_PRESENT=present is not None, **tile,
        )  # fmt: skip
        _gradients_kernel[grid](
            grad, x, mask, weight, mean, var, *sums, by_x, by_weight, by_bias, *shape,
            mask.stride(0), weight.stride(0),
            EPS=eps, HAS_PRESENT=present is not None, PARTS=triton.next_power_of_2(grid[1]), **tile,
        )  # fmt: skip
    return by_x, by_weight, by_bias


def _cut(x: Tensor) -> tuple[tuple[int, int, int], tuple[int, int, int], dict[str, int]]:
    """The grid of programs, the sizes they are told, and the tile."""
    members, rows, width = x.shape
    tiles = triton.cdiv(rows, _BLOCK_K)
    part = _BLOCK_K * triton.cdiv(tiles, _PARTS)
    parts = triton.cdiv(rows, part)
    grid = triton.cdiv(width, _BLOCK_F), parts, members
    return grid, (rows, width, parts), {"PART": part, "BLOCK_K": _BLOCK_K, "BLOCK_F": _BLOCK_F}
