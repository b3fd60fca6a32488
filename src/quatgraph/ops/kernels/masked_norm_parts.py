"""Batch normalisation of thousands of rows, as the entities of a knowledge graph are.

One program for all rows would take long, while most of the GPU does nothing. So rows are cut into
parts: a program for each sums up its part, then a program for each puts the sums of all together,
in one order, and writes its part.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES
from quatgraph.ops.kernels.masked_norm import (
    _dense,
    _vectors,
    keep,
    kept,
    moments,
    sums,
    write_gradients,
    write_rows,
)

_BLOCK_F, _BLOCK_K = 32, 64
"""Features and rows of a tile."""

_PARTS = 128
"""Parts, at most."""


@triton.jit
def _place(parts, PART: tl.constexpr, BLOCK_F: tl.constexpr):
    """Where a program is: its part's first row and place among all parts, its member, its
    features."""
    part = tl.program_id(1).to(tl.int64)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    return part * PART, member * parts + part, member, feature


@triton.jit
def _all_parts(member, parts, width, feature, PARTS: tl.constexpr):
    """Where the counts and the sums of all parts of a member are, and which of these there are."""
    part = tl.arange(0, PARTS)
    place = member * parts + part
    there = part < parts
    at = place[:, None] * width + feature[None, :]
    return place, there, at, there[:, None] & (feature < width)[None, :]


@triton.jit
def _norm_part_moments_kernel(
    x, present, counts, means, squares, rows, width, parts, present_stride,
    HAS_PRESENT: tl.constexpr, PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, place, member, feature = _place(parts, PART, BLOCK_F)
    inside = feature < width
    present += member * present_stride
    x += member * rows * width
    number, middle, square = moments(
        x, present, begin, PART, rows, width, feature, HAS_PRESENT, BLOCK_K, BLOCK_F
    )
    tl.store(counts + place, number)  # the same for all features
    tl.store(means + place * width + feature, middle, mask=inside)
    tl.store(squares + place * width + feature, square, mask=inside)


@triton.jit
def _norm_kernel(
    x, weight, bias, running_mean, running_var, counts, means, squares, y, mean, var,
    rows, width, parts, weight_stride, bias_stride,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, ACTIVATION: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, _, member, feature = _place(parts, PART, BLOCK_F)
    inside = feature < width
    place, there, at, known = _all_parts(member, parts, width, feature, PARTS)
    count = tl.load(counts + place, mask=there, other=0.0)
    number = tl.sum(count, axis=0)
    divisor = tl.maximum(number, 1.0)
    middles = tl.load(means + at, mask=known, other=0.0)
    middle = tl.sum(count[:, None] * middles, axis=0) / divisor
    off = middles - middle[None, :]
    spread = tl.load(squares + at, mask=known, other=0.0) + count[:, None] * off * off
    spread = tl.sum(spread, axis=0) / divisor
    if begin == 0:
        own = member * width + feature
        keep(mean, var, running_mean, running_var, own, inside, number, middle, spread, MOMENTUM)

    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(spread + EPS)
    moved = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    x += member * rows * width
    y += member * rows * width
    write_rows(x, y, begin, PART, rows, width, feature, middle, scale, moved, ACTIVATION, BLOCK_K)


@triton.jit
def _norm_part_sums_kernel(
    grad, x, present, weight, bias, mean, var, counts, rests, totals, products,
    rows, width, parts, present_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_PRESENT: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, place, member, feature = _place(parts, PART, BLOCK_F)
    inside = feature < width
    present += member * present_stride
    grad += member * rows * width
    x += member * rows * width
    middle, _, scale, moved = kept(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    number, rest, total, product = sums(
        grad, x, present, begin, PART, rows, width, feature, middle, scale, moved,
        HAS_PRESENT, ACTIVATION, BLOCK_K, BLOCK_F,
    )  # fmt: skip
    tl.store(counts + place, number)  # the same for all features
    tl.store(rests + place * width + feature, rest, mask=inside)
    tl.store(totals + place * width + feature, total, mask=inside)
    tl.store(products + place * width + feature, product, mask=inside)


@triton.jit
def _norm_gradients_kernel(
    grad, x, present, weight, bias, mean, var, counts, rests, totals, products,
    by_x, by_weight, by_bias, rows, width, parts, present_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr, HAS_PRESENT: tl.constexpr, PARTS: tl.constexpr,
    PART: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    begin, _, member, feature = _place(parts, PART, BLOCK_F)
    inside = feature < width
    middle, inverse, scale, moved = kept(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    place, there, at, known = _all_parts(member, parts, width, feature, PARTS)
    number = tl.sum(tl.load(counts + place, mask=there, other=0.0), axis=0)
    rest = tl.sum(tl.load(rests + at, mask=known, other=0.0), axis=0)
    sum_g = tl.sum(tl.load(totals + at, mask=known, other=0.0), axis=0)
    sum_gx = tl.sum(tl.load(products + at, mask=known, other=0.0), axis=0) * inverse
    if begin == 0:
        tl.store(by_bias + member * width + feature, sum_g, mask=inside)
        tl.store(by_weight + member * width + feature, sum_gx, mask=inside)

    present += member * present_stride
    grad += member * rows * width
    x += member * rows * width
    by_x += member * rows * width
    write_gradients(
        grad, x, present, by_x, begin, PART, rows, width, feature, middle, inverse, scale, moved,
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
    """As :func:`quatgraph.ops.kernels.masked_norm.normalised`."""
    x, weight, bias = x.contiguous(), _dense(weight), _dense(bias)
    mask = x if present is None else _dense(present)
    y, mean, var = torch.empty_like(x), _vectors(x), _vectors(x)
    grid, shape, tile = _cut(x)
    counts, by_part = _scratch(x, grid[1], 2)
    with torch.cuda.device(x.device):
        _norm_part_moments_kernel[grid](
            x, mask, counts, *by_part, *shape, mask.stride(0),
            HAS_PRESENT=present is not None, **tile,
        )  # fmt: skip
        _norm_kernel[grid](
            x, weight, bias, running_mean, running_var, counts, *by_part, y, mean, var,
            *shape, weight.stride(0), bias.stride(0),
            EPS=eps, MOMENTUM=momentum, ACTIVATION=CODES[activation],
            PARTS=triton.next_power_of_2(grid[1]), **tile,
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
    """As :func:`quatgraph.ops.kernels.masked_norm.gradients`."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, bias, mask = _dense(weight), _dense(bias), x if present is None else _dense(present)
    by_x, by_weight, by_bias = torch.empty_like(x), _vectors(x), _vectors(x)
    grid, shape, tile = _cut(x)
    counts, by_part = _scratch(x, grid[1], 3)
    given = grad, x, mask, weight, bias, mean, var, counts, *by_part
    sizes = *shape, mask.stride(0), weight.stride(0), bias.stride(0)
    options = {
        "EPS": eps,
        "ACTIVATION": CODES[activation],
        "HAS_PRESENT": present is not None,
        **tile,
    }
    with torch.cuda.device(x.device):
        _norm_part_sums_kernel[grid](*given, *sizes, **options)
        _norm_gradients_kernel[grid](
            *given, by_x, by_weight, by_bias, *sizes,
            PARTS=triton.next_power_of_2(grid[1]), **options,
        )  # fmt: skip
    return by_x, by_weight, by_bias


def _scratch(x: Tensor, parts: int, kinds: int) -> tuple[Tensor, Tensor]:
    """Room for the number of rows of each part, and for so many sums of its features."""
    members, _, width = x.shape
    return x.new_empty(members, parts), x.new_empty(kinds, members, parts, width)


def _cut(x: Tensor) -> tuple[tuple[int, int, int], tuple[int, int, int], dict[str, int]]:
    """The grid of programs, the sizes they are told, and the tile."""
    members, rows, width = x.shape
    tiles = triton.cdiv(rows, _BLOCK_K)
    part = _BLOCK_K * triton.cdiv(tiles, _PARTS)
    parts = triton.cdiv(rows, part)
    grid = triton.cdiv(width, _BLOCK_F), parts, members
    return grid, (rows, width, parts), {"PART": part, "BLOCK_K": _BLOCK_K, "BLOCK_F": _BLOCK_F}
