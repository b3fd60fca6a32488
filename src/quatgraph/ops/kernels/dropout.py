"""Dropout by given random numbers, each member of an ensemble at its own rate."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _dropped_kernel(x, random, rate, out, size, REPEATS: tl.constexpr, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    share = tl.load(rate + member)
    kept = tl.load(random + member * size + at, mask=inside, other=0.0) >= share
    value = tl.load(x + (member * size + at) // REPEATS, mask=inside, other=0.0)
    tl.store(out + member * size + at, tl.where(kept, value / (1 - share), 0.0), mask=inside)


def dropped(x: Tensor, random: Tensor, rate: Tensor) -> Tensor:
    """``x`` and ``random`` of one shape ``(M, ...)``, ``rate`` ``(M,)``. Numbers that ``x`` repeats
    along its last dimension may be in memory once."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    members, size = x.size(0), x[0].numel()
    repeats = x.size(-1) if x.dim() > 1 and x.stride(-1) == 0 else 1
    x = x[..., 0] if repeats > 1 else x
    x, random, rate = x.contiguous(), random.contiguous(), rate.contiguous()
    with torch.cuda.device(x.device):
        _dropped_kernel[(triton.cdiv(size, _BLOCK), members)](
            x, random, rate, out, size, REPEATS=repeats, BLOCK=_BLOCK
        )
    return out
