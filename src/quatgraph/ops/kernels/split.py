"""Concatenates columns: a program holds some output columns of one member."""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_AT_ONCE, _BLOCK = 16, 2048
"""Parts per launch; columns per program."""


@triton.jit
def _concat_columns_kernel(parts, offsets, ends, out, start, stop, width, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    first = start + tl.program_id(0).to(tl.int64) * BLOCK
    at = first + tl.arange(0, BLOCK)
    value = tl.zeros((BLOCK,), dtype=out.dtype.element_ty)
    for i in tl.static_range(len(parts)):
        if (offsets[i] < first + BLOCK) & (ends[i] > first):
            inside = (at >= offsets[i]) & (at < ends[i])
            own = member * (ends[i] - offsets[i]) + at - offsets[i]
            value = tl.where(inside, tl.load(parts[i] + own, mask=inside, other=0.0), value)
    tl.store(out + member * width + at, value, mask=at < stop)


def concat_columns(parts: Sequence[tuple[int, Tensor]], width: int) -> Tensor:
    """Concatenates parts ``(M, size)``, each with its first column, to ``(M, width)``; columns
    between them are 0."""
    out = parts[0][1].new_empty(len(parts[0][1]), width)
    start = 0
    for first in range(0, len(parts) if out.numel() else 0, _AT_ONCE):
        some, after = parts[first : first + _AT_ONCE], parts[first + _AT_ONCE :]
        stop = after[0][0] if after else width
        if start < stop:
            with torch.cuda.device(out.device):
                _concat_columns_kernel[(triton.cdiv(stop - start, _BLOCK), len(out))](
                    tuple(part.contiguous() for _, part in some),
                    tuple(offset for offset, _ in some),
                    tuple(offset + part.size(1) for offset, part in some),
                    out, start, stop, width, BLOCK=_BLOCK,
                )  # fmt: skip
        start = stop
    return out
