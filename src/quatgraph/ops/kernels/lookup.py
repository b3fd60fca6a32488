"""The gradient of rows by their number, for few numbers out of a large table: the first program
that has a number sums for all that have it, in one order, without atomics."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK_F, _BLOCK_N, _SCAN = 64, 32, 1024
"""Features and numbers of a tile; numbers that are compared at once."""


@triton.jit
def _gradient_kernel(
    grad, code, out, count, rows, width,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr, SCAN: tl.constexpr,
):  # fmt: skip
    place = tl.program_id(0)
    member = tl.program_id(2).to(tl.int64)
    feature = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    inside = feature < width
    code += member * count
    grad += member * count * width
    own = tl.load(code + place)
    earlier = place * 0
    for first in range(0, place, SCAN):
        other = first + tl.arange(0, SCAN)
        same = tl.load(code + other, mask=other < place, other=-1) == own
        earlier += tl.sum(same.to(tl.int32), axis=0)
    if earlier == 0:
        total = tl.zeros((BLOCK_N, BLOCK_F), dtype=grad.dtype.element_ty)
        for first in range(place, count, BLOCK_N):
            other = first + tl.arange(0, BLOCK_N)
            same = tl.load(code + other, mask=other < count, other=-1) == own
            at = other[:, None].to(tl.int64) * width + feature[None, :]
            total += tl.load(grad + at, mask=same[:, None] & inside[None, :], other=0.0)
        row = (member * rows + own) * width + feature
        tl.store(out + row, tl.sum(total, axis=0), mask=inside)


def gradient(grad: Tensor, code: Tensor, rows: int) -> Tensor:
    """See :mod:`quatgraph.ops.lookup`: ``(M, N, F), (M, N) -> (M, rows, F)``."""
    grad, code = grad.contiguous(), code.contiguous()
    members, count, width = grad.shape
    out = grad.new_zeros(members, rows, width)
    if grad.numel():
        with torch.cuda.device(grad.device):
            _gradient_kernel[(count, triton.cdiv(width, _BLOCK_F), members)](
                grad, code, out, count, rows, width,
                BLOCK_F=_BLOCK_F, BLOCK_N=_BLOCK_N, SCAN=_SCAN,
            )  # fmt: skip
    return out
