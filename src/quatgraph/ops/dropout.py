r"""Dropout whose masks are functions of a seed, a step, a call, a row and a column:

.. math:: y_{rj} = x_{rj} / (1 - p) \text{ where } b_{rj} \ge 2^{32} p, \text{ else } 0

with the bits b of :mod:`quatgraph.ops.random`. Nothing is stored for the gradient, which draws the
same mask again. On a GPU one kernel draws and drops; on a CPU numpy hashes unsigned numbers, which
torch cannot shift.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.random import BITS, FACTORS, MASK, column_keys, row_keys
from quatgraph.ops.transforms import active_transforms, eager_form

_AT_ONCE = 1 << 16  # numbers that are hashed together, few enough to stay in a CPU's cache


def keyed_dropout(
    x: Tensor, draws: Tensor, rate: Tensor, call: int, tiles: int = 1, rows: Tensor | None = None
) -> Tensor:
    """Drops numbers of ``x``.

    Args:
        x: ``(R, ...)``; all dimensions but the first make the columns.
        draws: Seed and step, ``(2,)``.
        rate: Share of numbers dropped, ``()``.
        call: Which dropout of the step it is.
        tiles: Blocks of columns that share their mask.
        rows: What the rows are keyed by, ``(R,)``; their places unless given.

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
            return _of_members(x, draws, rate, rows, call, tiles)[0]
        return _of_members(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, *tensors, ctx.call, ctx.tiles = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        draws, rate, rows = ctx.saved_tensors
        by_x = keyed_dropout(grads[0], draws, rate, ctx.call, ctx.tiles, rows)
        return by_x, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        *tensors, call, tiles = inputs
        x, draws, rate, rows = batch_first(info.batch_size, in_dims, tensors)
        if rate.dim() > 1:
            raise NotImplementedError("keyed_dropout does not support nested vmap")
        return keyed_dropout(x, draws, rate, call, tiles, rows), 0


_EagerDropout = eager_form(_Dropout)


def _of_members(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int
) -> Tensor:
    """As :func:`keyed_dropout`, of several members."""
    if not x.numel():
        return x.clone()
    if use_triton(x):
        from quatgraph.ops.kernels.dropout import dropped

        return dropped(x, draws, rate, rows, call, tiles)
    keys = row_keys(draws, call, x.size(1) if rows is None else rows)
    values = x.reshape(keys.numel(), -1)
    columns = column_keys(values.size(1) // tiles, x.device).tile(tiles)
    lowest = (rate.double() * 2**BITS).long().clamp(max=MASK)
    scale = 1 / (1 - rate)
    each = x.size(1)  # rows of a member
    kept = _kept(keys.flatten(), columns, lowest.repeat_interleave(each))
    factor = scale.to(x.dtype).repeat_interleave(each)[:, None]
    return (torch.where(kept, values, 0) * factor).view(x.shape)


def _kept(keys: Tensor, columns: Tensor, lowest: Tensor) -> Tensor:
    """Whether each number is kept, ``(R, C)``: its bits are no less than its row's ``lowest``."""
    if keys.device.type != "cpu":  # without kernels
        from quatgraph.ops.random import mix

        return mix(keys[:, None] ^ columns) >= lowest[:, None]
    row, column, least = (value.numpy().astype(np.uint32) for value in (keys, columns, lowest))
    kept = np.empty((len(row), len(column)), dtype=bool)
    step = max(1, _AT_ONCE // max(1, len(column)))
    for first in range(0, len(row), step):
        some = slice(first, first + step)
        bits = row[some, None] ^ column
        shifted = bits >> np.uint32(16)
        bits ^= shifted
        bits *= np.uint32(FACTORS[0])
        np.right_shift(bits, np.uint32(15), out=shifted)
        bits ^= shifted
        bits *= np.uint32(FACTORS[1])
        np.right_shift(bits, np.uint32(16), out=shifted)
        bits ^= shifted
        np.greater_equal(bits, least[some, None], out=kept[some])
    return torch.from_numpy(kept)
