r"""Dropout whose masks are a function of seed, step, call, row and column:

.. math:: y_{rj} = x_{rj} / (1 - p) \text{ where } b_{rj} \ge 2^{32} p, \text{ else } 0

with the bits b of :mod:`quatgraph.ops.random`. The backward pass draws the same mask again, so
nothing is saved. On a GPU one kernel draws and drops; on a CPU NumPy hashes unsigned integers,
which torch cannot shift.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.random import BITS, FACTORS, MASK, column_keys, draw_key, random_bits
from quatgraph.ops.transforms import active_transforms, eager_form

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
    function = _Dropout if active_transforms() else _EagerDropout
    y: Tensor = function.apply(x, draws, rate, rows, call, tiles)
    return y


class _Dropout(torch.autograd.Function):
    """Inputs are those of :func:`keyed_dropout`, rows before call."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        x, draws, rate, rows, call, tiles = inputs
        if draws.dim() == 1:
            x, draws, rate = x[None], draws[None], rate[None]
            return _dropout_members(x, draws, rate, rows, call, tiles)[0]
        return _dropout_members(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, *tensors, ctx.call, ctx.tiles = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        draws, rate, rows = ctx.saved_tensors
        grad_x = keyed_dropout(grads[0], draws, rate, ctx.call, ctx.tiles, rows)
        return grad_x, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, call, tiles = inputs
        x, draws, rate, rows = batch_first(info.batch_size, in_dims, tensors)
        if rate.dim() > 1:
            raise NotImplementedError("keyed_dropout does not support nested vmap")
        return keyed_dropout(x, draws, rate, call, tiles, rows), 0


_EagerDropout = eager_form(_Dropout)


def _dropout_members(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int
) -> Tensor:
    """As :func:`keyed_dropout`, of several members."""
    if not x.numel():
        return x.clone()
    if use_triton(x):
        from quatgraph.ops.kernels.dropout import dropout

        return dropout(x, draws, rate, rows, call, tiles)
    members, num_rows = x.shape[:2]
    values = x.reshape(members, num_rows, tiles, -1)
    threshold = (rate.double() * 2**BITS).long().clamp(max=MASK)
    scale = (1 / (1 - rate)).to(x.dtype)[:, None, None, None]
    if x.device.type != "cpu":  # a GPU without kernels
        bits = random_bits(draws, call, num_rows if rows is None else rows, values.size(-1))
        keep = bits >= threshold[:, None, None]
        return (torch.where(keep[:, :, None], values, 0) * scale).view(x.shape)
    out = torch.empty(values.shape, dtype=x.dtype)
    row = np.arange(num_rows)[None] if rows is None else rows.numpy()
    key, column = draw_key(draws.numpy(), call), column_keys(np.arange(values.size(-1)))
    key, row, column, lowest = (a.astype(np.uint32) for a in (key, row, column, threshold.numpy()))
    row = np.broadcast_to(row, (members, num_rows))
    for block in _cache_blocks(members, num_rows, values.size(-1)):
        some = block[0]
        bits_of_rows = _mix(key[some, None] ^ row[block])
        keep = _mix(bits_of_rows[..., None] ^ column) >= lowest[some, None, None]
        # A product, for torch.where branches on the mask, which no CPU can predict.
        torch.mul(values[block], torch.from_numpy(keep)[:, :, None], out=out[block])
        out[block].mul_(scale[some])
    return out.view(x.shape)


def _cache_blocks(members: int, rows: int, columns: int) -> Iterator[tuple[slice, slice]]:
    """Members and rows of the blocks, each of which fits into a CPU's cache."""
    num_members = max(1, _CPU_BLOCK // (rows * columns))
    num_rows = max(1, _CPU_BLOCK // columns) if num_members == 1 else rows
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
