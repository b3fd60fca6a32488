"""Hashed random bits; see :mod:`quatgraph.ops.random`."""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def mix(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def draw_key(draws, member, call):
    """The key of a member's seed and step, for one call within the step."""
    seed = tl.load(draws + 2 * member)
    step = tl.load(draws + 2 * member + 1).to(tl.uint32)
    key = mix(mix(seed.to(tl.uint32)) ^ (seed >> 32).to(tl.uint32))
    return mix(mix(key ^ step) ^ call)  # no .to(): Triton passes a 1 as a Python number


@triton.jit
def hash_place(key, row, column):
    """The bits of a row and a column."""
    return mix(mix(key ^ row.to(tl.uint32)) ^ mix(column.to(tl.uint32) + 0x9E3779B9))


@triton.jit
def _random_bits_kernel(draws, out, size, columns, call, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = at // columns
    bits = hash_place(draw_key(draws, member, call), row, at - row * columns)
    tl.store(out + member * size + at, bits.to(tl.int64), mask=at < size)


def random_bits(draws: Tensor, call: int, rows: int, columns: int) -> Tensor:
    """Bits of ``draws`` ``(M, 2)`` as int64 ``(M, rows, columns)``; less than 2^31 per member."""
    out = torch.empty(len(draws), rows, columns, dtype=torch.int64, device=draws.device)
    size = rows * columns
    with torch.cuda.device(draws.device):
        _random_bits_kernel[(triton.cdiv(size, _BLOCK), len(draws))](
            draws.contiguous(), out, size, columns, call, BLOCK=_BLOCK
        )
    return out


@triton.jit
def _take_step_kernel(draws, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    value = tl.load(draws + at, mask=inside, other=0)
    tl.store(out + at, value, mask=inside)
    tl.store(draws + at, value + at % 2, mask=inside)


def take_step(draws: Tensor) -> Tensor:
    """A copy of ``draws`` ``(M, 2)``, whose steps it increments."""
    out = torch.empty_like(draws)
    with torch.cuda.device(draws.device):
        _take_step_kernel[(triton.cdiv(draws.numel(), _BLOCK),)](
            draws, out, draws.numel(), BLOCK=_BLOCK
        )
    return out
