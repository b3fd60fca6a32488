r"""Dropout whose masks are a function of seed, step, call, row and column:

.. math:: y_{rj} = x_{rj} / (1 - p) \text{ where } b_{rj} \ge 2^{32} p, \text{ else } 0

with the bits b of :mod:`quatgraph.ops.random`. On a GPU one kernel draws and drops; the backward
pass draws the same mask again, so nothing is saved. On a CPU NumPy hashes unsigned integers, which
torch cannot shift, and the mask is saved; there a dropped infinity is NaN, as in torch's dropout.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.random import BITS, FACTORS, MASK, column_keys, random_bits, step_key
from quatgraph.ops.transforms import is_eager_on_cpu, operation

_CPU_BLOCK = 1 << 16  # elements to hash at once: they fit into a CPU's cache


def keyed_dropout(
    x: Tensor, draws: Tensor, rate: Tensor, call: int, tiles: int = 1, rows: Tensor | None = None
) -> Tensor:
    """Drops elements of ``x``.

    Args:
        x: ``(R, ...)``; all dimensions but the first make the columns.
        draws: Seed and step, ``(2,)``.
        rate: Probability to drop an element, ``()``.
        call: Number of the dropout within the step.
        tiles: Blocks of columns that share their mask.
        rows: Keys of the rows, ``(R,)``; their positions if None.

    Shape:
        - output: as x
        - of several members each with a leading ``M``
    """
    if tiles == 1 and draws.dim() == 2 and not use_triton(x) and is_eager_on_cpu(x):
        # A product has less overhead than a function of our own.
        return x * _draw_factor(x, draws, rate, rows, call).view(x.shape)
    y, _ = _dropout(x, draws, rate, rows, call, tiles)
    return cast(Tensor, y)


class _Dropout(torch.autograd.Function):
    """Inputs are those of :func:`keyed_dropout`, rows before call. The second output is the factor
    of each element, for the backward pass; it is empty where a kernel draws it again."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, Tensor]:
        x, draws, rate, *others = inputs
        if draws.dim() == 1:
            y, factor = _dropout_members(x[None], draws[None], rate[None], *others)
            return y[0], factor[0]
        return _dropout_members(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        _, *tensors, ctx.call, ctx.tiles = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*tensors, output[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad = grads[0]
        draws, rate, rows, factor = ctx.saved_tensors
        if factor.numel():
            grad_x = (grad.reshape(*factor.shape[:-2], ctx.tiles, -1) * factor).view(grad.shape)
        else:
            grad_x = keyed_dropout(grad, draws, rate, ctx.call, ctx.tiles, rows)
        return grad_x, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        x, draws, rate, rows, call, tiles = batch_first(info.batch_size, in_dims, inputs)
        if rate.dim() > 1:
            raise NotImplementedError("keyed_dropout does not support nested vmap")
        return _Dropout.apply(x, draws, rate, rows, call, tiles), (0, 0)


_dropout = operation(_Dropout, 0)


def _dropout_members(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int
) -> tuple[Tensor, Tensor]:
    """The outputs of :class:`_Dropout`, of several members."""
    if use_triton(x) and x.numel():
        from quatgraph.ops.kernels.dropout import dropout

        return dropout(x, draws, rate, rows, call, tiles), x.new_empty(len(x), 0)
    factor = _draw_factor(x, draws, rate, rows, call, tiles)[:, :, None]
    values = x.reshape(*x.shape[:2], tiles, factor.size(-1))
    return (values * factor).view(x.shape), factor


def _draw_factor(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int = 1
) -> Tensor:
    """0 or 1 / (1 - p) for each element of one tile of ``x``, ``(M, R, C)``."""
    members, num_rows, columns = *x.shape[:2], math.prod(x.shape[2:]) // tiles
    if x.device.type != "cpu":  # a GPU without kernels
        bits = random_bits(draws, call, num_rows if rows is None else rows, columns)
        threshold = (rate.double() * 2**BITS).long().clamp(max=MASK)
        return (bits >= threshold[:, None, None]) * (1 / (1 - rate)).to(x)[:, None, None]
    rates = (rate if rate.dtype == torch.float64 else rate.float()).numpy()
    lowest, scale = _bounds(rates.tobytes(), rates.dtype)
    key = _mix(_step_key(draws.numpy().tobytes()) ^ np.uint32(call))
    row = np.arange(num_rows, dtype=np.uint32) if rows is None else rows.numpy()
    row, column = np.atleast_2d(row).astype(np.uint32, copy=False), _column_keys(columns)
    factor = np.empty((members, num_rows, columns), dtype=rates.dtype)
    for some, part in _cache_blocks(members, num_rows, columns):
        row_bits = _mix(key[some] ^ row[some if len(row) > 1 else slice(None), part])
        keep = _mix(row_bits[..., None] ^ column) >= lowest[some]
        np.multiply(keep, scale[some], out=factor[some, part])
    return torch.from_numpy(factor).to(x.dtype)


# Small graphs feel the fixed cost of a call, so what few calls change is cached.


@lru_cache(maxsize=256)
def _column_keys(columns: int) -> np.ndarray:
    return column_keys(np.arange(columns)).astype(np.uint32)


@lru_cache(maxsize=16)
def _bounds(rates: bytes, dtype: np.dtype[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The lowest bits that are not dropped, and the scale of what is not, each ``(M, 1, 1)``."""
    rate = np.frombuffer(rates, dtype)[:, None, None]
    return np.minimum(rate.astype(np.float64) * 2**BITS, MASK).astype(np.uint32), 1 / (1 - rate)


@lru_cache(maxsize=16)
def _step_key(draws: bytes) -> np.ndarray:
    """The keys of a step, ``(M, 1)``."""
    return step_key(np.frombuffer(draws, dtype=np.int64).reshape(-1, 1, 2)).astype(np.uint32)


def _cache_blocks(members: int, rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Members and rows of the blocks, each of which fits into a CPU's cache."""
    num_members = max(1, _CPU_BLOCK // max(1, rows * columns))
    num_rows = max(1, _CPU_BLOCK // max(1, columns) if num_members == 1 else rows)
    for member in range(0, members, num_members):
        for row in range(0, rows, num_rows):
            yield slice(member, member + num_members), slice(row, row + num_rows)


def _mix(bits: np.ndarray) -> np.ndarray:
    """Applies :func:`quatgraph.ops.random.mix` in place."""
    shifted = bits >> np.uint32(16)
    bits ^= shifted
    bits *= np.uint32(FACTORS[0])
    np.right_shift(bits, np.uint32(15), out=shifted)
    bits ^= shifted
    bits *= np.uint32(FACTORS[1])
    np.right_shift(bits, np.uint32(16), out=shifted)
    bits ^= shifted
    return bits
