r"""Dropout whose masks are a function of seed, step, call, row and column:

.. math:: y_{rj} = x_{rj} / (1 - p) \text{ where } b_{rj} \ge 2^{32} p, \text{ else } 0

with the bits b of :mod:`quatgraph.ops.random`. The backward pass draws the same mask again, so
nothing is saved. On a GPU one kernel draws and drops; on a CPU NumPy hashes unsigned integers,
which torch cannot shift.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.random import BITS, FACTORS, MASK, column_keys, mix, row_keys
from quatgraph.ops.transforms import operation

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
    return _dropout(x, draws, rate, rows, call, tiles)


class _Dropout(torch.autograd.Function):
    """Inputs are those of :func:`keyed_dropout`, rows before call."""

    @staticmethod
    def forward(*inputs: Any) -> Tensor:
        x, draws, rate, *others = inputs
        if draws.dim() == 1:
            return _dropout_members(x[None], draws[None], rate[None], *others)[0]
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
        x, draws, rate, rows, call, tiles = batch_first(info.batch_size, in_dims, inputs)
        if rate.dim() > 1:
            raise NotImplementedError("keyed_dropout does not support nested vmap")
        return keyed_dropout(x, draws, rate, call, tiles, rows), 0


_dropout = operation(_Dropout, 0)


def _dropout_members(
    x: Tensor, draws: Tensor, rate: Tensor, rows: Tensor | None, call: int, tiles: int
) -> Tensor:
    """As :func:`keyed_dropout`, of several members."""
    if not x.numel():
        return x.clone()
    if use_triton(x):
        from quatgraph.ops.kernels.dropout import dropout

        return dropout(x, draws, rate, rows, call, tiles)
    keys = row_keys(draws, call, x.size(1) if rows is None else rows)
    values = x.reshape(keys.numel(), -1)
    columns = column_keys(values.size(1) // tiles, x.device).tile(tiles)
    threshold = (rate.double() * 2**BITS).long().clamp(max=MASK)
    scale = 1 / (1 - rate)
    num_rows = x.size(1)
    keep = _keep_mask(keys.flatten(), columns, threshold.repeat_interleave(num_rows))
    factor = scale.to(x.dtype).repeat_interleave(num_rows)[:, None]
    return (torch.where(keep, values, 0) * factor).view(x.shape)


def _keep_mask(keys: Tensor, columns: Tensor, threshold: Tensor) -> Tensor:
    """Whether to keep each element, ``(R, C)``: its bits are at least its row's ``threshold``."""
    if keys.device.type != "cpu":  # a GPU without kernels
        return mix(keys[:, None] ^ columns) >= threshold[:, None]
    row, column, lowest = (value.numpy().astype(np.uint32) for value in (keys, columns, threshold))
    keep = np.empty((len(row), len(column)), dtype=bool)
    step = max(1, _CPU_BLOCK // max(1, len(column)))
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
        np.greater_equal(bits, lowest[some, None], out=keep[some])
    return torch.from_numpy(keep)
