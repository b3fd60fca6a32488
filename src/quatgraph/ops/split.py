"""Columns of a matrix in parts that lie side by side, as views of it.

The gradient puts those of the parts side by side again; on a GPU by one kernel for sixteen parts,
which reads and writes each number once, and makes no zeros for parts that have none.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import once_differentiable


def split_columns(flat: Tensor, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    """The columns of ``flat`` in parts of these sizes, all of them together.

    Shape:
        - flat: ``(M, sum(sizes))``
        - output: of each part ``(M, size)``
    """
    if use_triton(flat):
        return _Split.apply(flat, tuple(sizes))
    return flat.split(list(sizes), dim=1)


class _Split(torch.autograd.Function):
    """Not an operation of torch's library: that may not return views."""

    @staticmethod
    def forward(flat: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
        return flat.split(list(sizes), dim=1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.sizes = inputs
        ctx.set_materialize_grads(False)  # the kernel writes zeros for what there is not

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        from quatgraph.ops.kernels.split import joined

        *begins, width = accumulate(ctx.sizes, initial=0)
        parts = zip(begins, grads, strict=True)
        given = [(begin, grad) for begin, grad in parts if grad is not None]
        return joined(given, width) if given else None, None
