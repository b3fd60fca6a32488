r"""Counter-based random bits: no draw depends on the order of draws.

A number is keyed by a member's seed, a step, a call within the step, a row and a column. So neither
the other members of an ensemble nor padding rows change what a member draws, and a resumed run
needs no generator state. With :math:`m` a bijective hash of 32 bits,

.. math::
    k = m(m(m(m(s_0) \oplus s_1) \oplus t) \oplus c), \qquad
    b_{rj} = m\big(m(k \oplus r) \oplus m(j + \varphi)\big)

for a seed :math:`(s_0, s_1)`, a step t, a call c, a row r and a column j. CPU and GPU draw the
same.
"""

from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton

Array = TypeVar("Array", Tensor, np.ndarray)
BITS = 32
MASK = (1 << BITS) - 1
FACTORS = 0x7FEB352D, 0x846CA68B
"""Multipliers of a hash with low bias; its shifts are 16, 15 and 16."""
GOLDEN = 0x9E3779B9
BATCHES, STEPS, TRIPLES, NEIGHBORS = range(1 << 30, (1 << 30) + 4)
"""Call numbers of an epoch's batches, of the order of its steps, of the triples whose relation is
predicted, and of the neighbours of the first hop, which later hops follow; dropout counts from
0."""


def mix(x: Array) -> Array:
    """The hash m of 32-bit unsigned integers, stored as int64."""
    x = x ^ (x >> 16)
    x = (x * FACTORS[0]) & MASK
    x = x ^ (x >> 15)
    x = (x * FACTORS[1]) & MASK  # the mask drops the bits that overflow
    return x ^ (x >> 16)


def draw_key(draws: Tensor, call: int) -> Tensor:
    """The key k of a seed and a step, ``(..., 2) -> (...)``, for one call within the step."""
    return mix(step_key(draws) ^ call)


def step_key(draws: Array) -> Array:
    """The part of the key that all calls of a step share."""
    seed, step = draws[..., 0], draws[..., 1]
    return mix(mix(mix(seed & MASK) ^ ((seed >> BITS) & MASK)) ^ (step & MASK))


def random_bits(draws: Tensor, call: int, rows: Tensor | int, columns: int) -> Tensor:
    """Uniform 32-bit unsigned integers, as int64.

    Args:
        draws: Seed and step, of several members ``(M, 2)``.
        call: Number of the draw within the step.
        rows: Keys of the rows, ``(R,)`` or of several members ``(M, R)``; or the number of rows,
            whose keys are their positions.
        columns: Number of columns C.

    Shape:
        - output: ``(R, C)``; of several members ``(M, R, C)``

    Example:
        >>> draws = torch.tensor([[3, 0], [7, 0]])
        >>> both, alone = random_bits(draws, 0, 5, 2), random_bits(draws[1:], 0, 9, 2)
        >>> torch.equal(both[1], alone[0, :5])
        True
    """
    if isinstance(rows, int):
        if use_triton(draws) and draws.dim() == 2 and 0 < rows * columns < 2**31:
            from quatgraph.ops.kernels import random

            return random.random_bits(draws, call, rows, columns)
        rows = torch.arange(rows, device=draws.device)
    row_keys = mix(draw_key(draws, call)[..., None] ^ (rows & MASK))
    return mix(row_keys[..., None] ^ column_keys(torch.arange(columns, device=draws.device)))


def column_keys(columns: Array) -> Array:
    """The hash of each column, ``(C,) -> (C,)``."""
    return mix((columns + GOLDEN) & MASK)


def take_step(draws: Tensor) -> Tensor:
    """A copy of ``draws`` ``(M, 2)`` for the current step; increments their steps in place."""
    if use_triton(draws):
        from quatgraph.ops.kernels import random

        return random.take_step(draws)
    current = draws.clone()
    draws[:, 1] += 1
    return current


def epoch_draws(seeds: Tensor, epoch: int) -> Tensor:
    """Seed and epoch, ``(M,) -> (M, 2)``, for draws made once per epoch."""
    return torch.stack((seeds, torch.full_like(seeds, epoch)), dim=-1)


def random_order(draws: Tensor, call: int, count: int) -> Tensor:
    """A random permutation of ``range(count)`` for each member, ``(M, count)``."""
    # int32 sorts faster. The stable sort breaks ties, which one pair in four billion has.
    bits = random_bits(draws, call, count, 1)[..., 0] - (1 << (BITS - 1))
    return bits.int().argsort(dim=-1, stable=True)
