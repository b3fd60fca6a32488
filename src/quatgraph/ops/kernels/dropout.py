"""Dropout by hashed bits; each member of an ensemble has its own seed, step and rate."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.kernels.random import draw_key, hash_place

_BLOCK = 1024


@triton.jit
def _dropout_kernel(
    x, draws, rate, rows, out, size, columns, call,
    WIDE: tl.constexpr, KEYED: tl.constexpr, TILES: tl.constexpr, REPEATS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    # Division of 64-bit integers is slow.
    at = (block.to(tl.int64) if WIDE else block) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    p = tl.load(rate + member)
    row = at // columns
    column = at - row * columns
    if TILES > 1:
        column = column % (columns // TILES)
    if KEYED:
        row = tl.load(rows + member * (size // columns) + row, mask=inside, other=0)
    bits = hash_place(draw_key(draws, member, call), row, column)
    threshold = (p.to(tl.float64) * 4294967296.0).to(tl.uint32)
    value = tl.load(x + (member * size + at) // REPEATS, mask=inside, other=0.0)
    dropped = tl.where(bits >= threshold, value * (1 / (1 - p)).to(value.dtype), 0.0)
    tl.store(out + member * size + at, dropped, mask=inside)


def dropout(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int
) -> Tensor:
    """``x`` ``(M, R, ...)``, ``draws`` ``(M, 2)``, ``rate`` ``(M,)``, ``rows`` ``(M, R)`` if any.
    The last dimension of ``x`` may be expanded."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    members, size = x.size(0), x[0].numel()
    columns = size // x.size(1)
    repeats = x.size(-1) if x.dim() > 1 and x.stride(-1) == 0 else 1
    x = x[..., 0] if repeats > 1 else x
    x, draws, rate = x.contiguous(), draws.contiguous(), rate.contiguous()
    with torch.cuda.device(x.device):
        _dropout_kernel[(triton.cdiv(size, _BLOCK), members)](
            x, draws, rate, draws if rows is None else rows.contiguous(), out, size, columns, call,
            WIDE=size > 2**31 - _BLOCK, KEYED=rows is not None, TILES=tiles, REPEATS=repeats,
            BLOCK=_BLOCK,
        )  # fmt: skip
    return out
