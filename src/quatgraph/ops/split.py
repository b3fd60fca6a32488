"""Splits the columns of a matrix into views.

The gradient concatenates those of the parts; on a GPU by one kernel for sixteen parts, which reads
and writes each number once, and needs no zeros for parts without a gradient.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import once_differentiable


def split_columns(flat: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """Splits the columns of ``flat`` into parts of these sizes.

    Shape:
        - flat: ``(M, sum(sizes))``
        - output: of each part ``(M, size)``
    """
    if use_triton(flat):
        return _Split.apply(flat, tuple(sizes))
    return flat.split(list(sizes), dim=1)


class _Split(torch.autograd.Function):
    """Not a library operation, which may not return views."""

    @staticmethod
    def forward(flat: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
        return flat.split(list(sizes), dim=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.sizes = inputs
        ctx.set_materialize_grads(False)  # the kernel writes zeros for missing ones

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        from quatgraph.ops.kernels.split import concat_columns

        *offsets, width = accumulate(ctx.sizes, initial=0)
        parts = zip(offsets, grads, strict=True)
        present = [(offset, grad) for offset, grad in parts if grad is not None]
        return concat_columns(present, width) if present else None, None
