"""Matrices side by side as one: a program has some columns of one member, from whichever parts."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE, _BLOCK = 16, 2048
"""Parts that one launch takes; columns of a program."""


@triton.jit
def _joined_kernel(parts, begins, ends, out, start, stop, width, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    first = start + tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    value = tl.zeros((BLOCK,), dtype=out.dtype.element_ty)
    for i in tl.static_range(len(parts)):
        if (begins[i] < first + BLOCK) & (ends[i] > first):
            inside = (at >= begins[i]) & (at < ends[i])
            own = member * (ends[i] - begins[i]) + at - begins[i]
            value = tl.where(inside, tl.load(parts[i] + own, mask=inside, other=0.0), value)
    tl.store(out + member * width + at, value, mask=at < stop)


def joined(parts: Sequence[tuple[int, Tensor]], width: int) -> Tensor:
    """Parts ``(M, size)``, each after the column where it begins, as ``(M, width)``; what lies
    between them is 0."""
    out = parts[0][1].new_empty(len(parts[0][1]), width)
    start = 0
    for first in range(0, len(parts) if out.numel() else 0, _AT_ONCE):
        some, after = parts[first : first + _AT_ONCE], parts[first + _AT_ONCE :]
        stop = after[0][0] if after else width
        if start < stop:
            with torch.cuda.device(out.device):
                _joined_kernel[(triton.cdiv(stop - start, _BLOCK), len(out))](
                    tuple(part.contiguous() for _, part in some),
                    tuple(begin for begin, _ in some),
                    tuple(begin + part.size(1) for begin, part in some),
                    out, start, stop, width, BLOCK=_BLOCK,
                )  # fmt: skip
        start = stop
    return out
