"""Batch normalisation that ignores padding: a program holds some features of one member and loops
over all rows, in one order, without atomics.

A tile accumulates rows and is summed once at the end, so that no thread waits for another in the
loop. Its size depends on a member's rows and features only, so a member's numbers are the same in
every ensemble.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activate, activation_grad

_BLOCK_F, _BLOCK_K = 32, 256
"""The most features and rows of a tile."""


@triton.jit
def _valid_rows(row_mask, row, rows, HAS_MASK: tl.constexpr):
    """Which rows exist and are not padding."""
    valid = row < rows
    if HAS_MASK:
        valid = valid & (tl.load(row_mask + row, mask=valid, other=0.0) != 0.0)
    return valid


@triton.jit
def moments(
    x, row_mask, begin, length, rows, width, feature,
    HAS_MASK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """The count of rows that are not padding, their mean, and their sum of squared deviations."""
    inside = feature < width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        valid = _valid_rows(row_mask, row, rows, HAS_MASK)
        at = row[:, None] * width + feature[None, :]
        total += tl.load(x + at, mask=valid[:, None] & inside[None, :], other=0.0)
        count += tl.where(valid, 1.0, 0.0)
    number = tl.sum(count, axis=0)
    average = tl.sum(total, axis=0) / tl.maximum(number, 1.0)

    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        valid = _valid_rows(row_mask, row, rows, HAS_MASK)
        at = row[:, None] * width + feature[None, :]
        value = tl.load(x + at, mask=valid[:, None] & inside[None, :], other=0.0)
        centred = tl.where(valid[:, None], value - average[None, :], 0.0)
        total += centred * centred
    return number, average, tl.sum(total, axis=0)


@triton.jit
def store_stats(
    mean, var, running_mean, running_var, own, inside, number, average, variance,
    MOMENTUM: tl.constexpr,
):  # fmt: skip
    """Stores the statistics of ``number`` rows and updates the running ones."""
    tl.store(mean + own, average, mask=inside)
    tl.store(var + own, variance, mask=inside)
    if number > 1.0:
        old = tl.load(running_mean + own, mask=inside, other=0.0)
        tl.store(running_mean + own, old + (average - old) * MOMENTUM, mask=inside)
        unbiased = variance * (number / (number - 1.0))
        old = tl.load(running_var + own, mask=inside, other=0.0)
        tl.store(running_var + own, old + (unbiased - old) * MOMENTUM, mask=inside)


@triton.jit
def write_rows(
    x, y, begin, length, rows, width, feature, average, scale, shift,
    ACTIVATION: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    inside = feature < width
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
        centred = tl.load(x + at, mask=known, other=0.0) - average[None, :]
        value = activate(centred * scale[None, :] + shift[None, :], ACTIVATION)
        tl.store(y + at, value, mask=known)


@triton.jit
def load_stats(
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
    """The normalize_backward at the pre-activations, and the centred rows."""
    g = tl.load(grad + at, mask=known, other=0.0)
    centred = tl.load(x + at, mask=known, other=0.0) - average[None, :]
    value = activate(centred * scale[None, :] + shift[None, :], ACTIVATION)
    return activation_grad(g, value, ACTIVATION), centred


@triton.jit
def sums(
    grad, x, row_mask, begin, length, rows, width, feature, average, scale, shift,
    HAS_MASK: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """Sums over some rows that all gradients need: the count and the residual of those that are not
    padding, the gradients, and the gradients times the centred rows."""
    inside = feature < width
    count = tl.zeros((BLOCK_K,), dtype=x.dtype.element_ty)
    residual = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    total = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    product = tl.zeros((BLOCK_K, BLOCK_F), dtype=x.dtype.element_ty)
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        valid = _valid_rows(row_mask, row, rows, HAS_MASK)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
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
def write_grads(
    grad, x, row_mask, grad_x, begin, length, rows, width, feature, average, inverse, scale, shift,
    number, residual, sum_g, sum_gx,
    HAS_MASK: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    inside = feature < width
    divisor = tl.maximum(number, 1.0)
    scaled_sum = sum_gx * inverse / divisor
    # The mean is rounded, so the centred rows do not sum to 0 (residual). Subtracting that makes
    # the gradients sum to 0, even if a few rows are close to each other.
    level = (sum_g - scaled_sum * residual) / divisor
    for first in range(0, length, BLOCK_K):
        row = begin + first + tl.arange(0, BLOCK_K)
        valid = _valid_rows(row_mask, row, rows, HAS_MASK)
        at = row[:, None] * width + feature[None, :]
        known = (row < rows)[:, None] & inside[None, :]
        g, centred = _load_rows(grad, x, at, known, average, scale, shift, ACTIVATION)
        shared = tl.where(valid[:, None], level[None, :] + centred * scaled_sum[None, :], 0.0)
        tl.store(grad_x + at, (g - shared) * scale[None, :], mask=known)


@triton.jit
def _norm_kernel(
    x, row_mask, weight, bias, running_mean, running_var, y, mean, var, rows, width,
    mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, MOMENTUM: tl.constexpr, ACTIVATION: tl.constexpr,
    HAS_MASK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    x += member * rows * width
    y += member * rows * width
    row_mask += member * mask_stride
    number, average, squares = moments(
        x, row_mask, 0, rows, rows, width, feature, HAS_MASK, BLOCK_K, BLOCK_F
    )
    variance = squares / tl.maximum(number, 1.0)
    own = member * width + feature
    store_stats(
        mean, var, running_mean, running_var, own, inside, number, average, variance, MOMENTUM
    )
    scale = tl.load(weight + member * weight_stride + feature, mask=inside, other=0.0)
    scale *= tl.rsqrt(variance + EPS)
    shift = tl.load(bias + member * bias_stride + feature, mask=inside, other=0.0)
    write_rows(x, y, 0, rows, rows, width, feature, average, scale, shift, ACTIVATION, BLOCK_K)


@triton.jit
def _norm_gradients_kernel(
    grad, x, row_mask, weight, bias, mean, var, grad_x, grad_weight, grad_bias, rows, width,
    mask_stride, weight_stride, bias_stride,
    EPS: tl.constexpr, ACTIVATION: tl.constexpr,
    HAS_MASK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    feature = tl.program_id(0) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    grad += member * rows * width
    x += member * rows * width
    grad_x += member * rows * width
    row_mask += member * mask_stride
    average, inverse, scale, shift = load_stats(
        mean, var, weight, bias, member, width, feature, weight_stride, bias_stride, EPS
    )
    number, residual, sum_g, product = sums(
        grad, x, row_mask, 0, rows, rows, width, feature, average, scale, shift,
        HAS_MASK, ACTIVATION, BLOCK_K, BLOCK_F,
    )  # fmt: skip
    sum_gx = product * inverse
    own = member * width + feature
    tl.store(grad_bias + own, sum_g, mask=inside)
    tl.store(grad_weight + own, sum_gx, mask=inside)
    write_grads(
        grad, x, row_mask, grad_x, 0, rows, rows, width, feature, average, inverse, scale, shift,
        number, residual, sum_g, sum_gx, HAS_MASK, ACTIVATION, BLOCK_K,
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
    """Rows ``(M, K, F)``, row_mask ``(M, K)``, the others ``(M, F)``; members may be strided,
    except for the running statistics, which change in place. See
    :mod:`quatgraph.ops.masked_norm`."""
    x = x.contiguous()
    weight, bias = _inner_contiguous(weight), _inner_contiguous(bias)
    y, mean, var = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    if x.numel() == 0:
        return y, mean.zero_(), var.zero_()
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    members, rows, width = x.shape
    tile = _tile(rows, width)
    with torch.cuda.device(x.device):
        _norm_kernel[(triton.cdiv(width, tile["BLOCK_F"]), members)](
            x, mask_or_x, weight, bias, running_mean, running_var, y, mean, var, rows, width,
            mask_or_x.stride(0), weight.stride(0), bias.stride(0),
            EPS=eps, MOMENTUM=momentum, ACTIVATION=CODES[activation],
            HAS_MASK=row_mask is not None, **tile,
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
    """The normalize_backward of x, weight and bias."""
    grad, x, mean, var = grad.contiguous(), x.contiguous(), mean.contiguous(), var.contiguous()
    weight, bias = _inner_contiguous(weight), _inner_contiguous(bias)
    grad_x, grad_weight, grad_bias = torch.empty_like(x), _empty_vectors(x), _empty_vectors(x)
    if x.numel() == 0:
        return grad_x, grad_weight.zero_(), grad_bias.zero_()
    mask_or_x = x if row_mask is None else _inner_contiguous(row_mask)
    members, rows, width = x.shape
    tile = _tile(rows, width)
    with torch.cuda.device(x.device):
        _norm_gradients_kernel[(triton.cdiv(width, tile["BLOCK_F"]), members)](
            grad, x, mask_or_x, weight, bias, mean, var, grad_x, grad_weight, grad_bias,
            rows, width, mask_or_x.stride(0), weight.stride(0), bias.stride(0),
            EPS=eps, ACTIVATION=CODES[activation], HAS_MASK=row_mask is not None, **tile,
        )  # fmt: skip
    return grad_x, grad_weight, grad_bias


def _inner_contiguous(vectors: Tensor) -> Tensor:
    return vectors if vectors.stride(-1) == 1 else vectors.contiguous()


def _empty_vectors(x: Tensor) -> Tensor:
    return x.new_empty(x.size(0), x.size(2))


def _tile(rows: int, width: int) -> dict[str, int]:
    block_k = min(_BLOCK_K, max(16, triton.next_power_of_2(rows)))
    block_f = min(_BLOCK_F, max(4, triton.next_power_of_2(width)))
    return {
        "BLOCK_K": block_k,
        "BLOCK_F": block_f,
        "num_warps": min(16, max(1, block_k * block_f // 512)),
    }
