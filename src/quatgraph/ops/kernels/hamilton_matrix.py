"""The matrix of a quaternion product, and its gradient: each number is read and written once."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 512


@triton.jit
def _spread_kernel(weight, out, rows, cols, stride, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    size = rows * cols
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    weight += member * stride
    r = tl.load(weight + at, mask=inside)
    i = tl.load(weight + size + at, mask=inside)
    j = tl.load(weight + 2 * size + at, mask=inside)
    k = tl.load(weight + 3 * size + at, mask=inside)
    width = 4 * cols
    out += member * 16 * size + (at // cols) * width + at % cols
    down = rows * width
    tl.store(out, r, mask=inside)
    tl.store(out + cols, -i, mask=inside)
    tl.store(out + 2 * cols, -j, mask=inside)
    tl.store(out + 3 * cols, -k, mask=inside)
    tl.store(out + down, i, mask=inside)
    tl.store(out + down + cols, r, mask=inside)
    tl.store(out + down + 2 * cols, -k, mask=inside)
    tl.store(out + down + 3 * cols, j, mask=inside)
    tl.store(out + 2 * down, j, mask=inside)
    tl.store(out + 2 * down + cols, k, mask=inside)
    tl.store(out + 2 * down + 2 * cols, r, mask=inside)
    tl.store(out + 2 * down + 3 * cols, -i, mask=inside)
    tl.store(out + 3 * down, k, mask=inside)
    tl.store(out + 3 * down + cols, -j, mask=inside)
    tl.store(out + 3 * down + 2 * cols, i, mask=inside)
    tl.store(out + 3 * down + 3 * cols, r, mask=inside)


@triton.jit
def _gather_kernel(
    grad, out, rows, cols, stride_member, stride_row, stride_col, BLOCK: tl.constexpr
):
    member = tl.program_id(1).to(tl.int64)
    size = rows * cols
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    g = grad + member * stride_member + (at // cols) * stride_row + (at % cols) * stride_col
    down, cols = rows * stride_row, cols * stride_col
    r = tl.load(g, mask=inside) + tl.load(g + down + cols, mask=inside)
    r += tl.load(g + 2 * down + 2 * cols, mask=inside)
    r += tl.load(g + 3 * down + 3 * cols, mask=inside)
    i = tl.load(g + down, mask=inside) - tl.load(g + cols, mask=inside)
    i += tl.load(g + 3 * down + 2 * cols, mask=inside)
    i -= tl.load(g + 2 * down + 3 * cols, mask=inside)
    j = tl.load(g + 2 * down, mask=inside) - tl.load(g + 2 * cols, mask=inside)
    j += tl.load(g + down + 3 * cols, mask=inside)
    j -= tl.load(g + 3 * down + cols, mask=inside)
    k = tl.load(g + 3 * down, mask=inside) - tl.load(g + 3 * cols, mask=inside)
    k += tl.load(g + 2 * down + cols, mask=inside)
    k -= tl.load(g + down + 2 * cols, mask=inside)
    out += member * 4 * size + at
    tl.store(out, r, mask=inside)
    tl.store(out + size, i, mask=inside)
    tl.store(out + 2 * size, j, mask=inside)
    tl.store(out + 3 * size, k, mask=inside)


def spread(weight: Tensor) -> Tensor:
    """``(M, 4, m, n) -> (M, 4m, 4n)``; members may be strided."""
    members, _, rows, cols = weight.shape
    if weight.stride()[1:] != (rows * cols, cols, 1):
        weight = weight.contiguous()
    out = weight.new_empty(members, 4 * rows, 4 * cols)
    with torch.cuda.device(weight.device):
        _spread_kernel[(triton.cdiv(rows * cols, _BLOCK), members)](
            weight, out, rows, cols, weight.stride(0), BLOCK=_BLOCK
        )
    return out


def gather(grad: Tensor) -> Tensor:
    """``(M, 4m, 4n) -> (M, 4, m, n)``, the gradient of :func:`spread`; any strides."""
    members, rows, cols = grad.size(0), grad.size(1) // 4, grad.size(2) // 4
    out = grad.new_empty(members, 4, rows, cols)
    with torch.cuda.device(grad.device):
        _gather_kernel[(triton.cdiv(rows * cols, _BLOCK), members)](
            grad, out, rows, cols, *grad.stride(), BLOCK=_BLOCK
        )
    return out
