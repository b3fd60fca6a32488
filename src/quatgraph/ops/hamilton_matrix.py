r"""The real matrix of a quaternion matrix (Eq. 9), for all members of an ensemble at once.

It is :func:`quatgraph.algebra.hamilton_matrix`. On a GPU one kernel writes its sixteen blocks, and
one sums the sixteen blocks of its gradient, where torch would copy each block several times.
``torch.compile`` fuses the plain form itself.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.algebra import hamilton_matrix as plain_matrix
from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import is_batched, is_tracing, operation


def hamilton_matrix(weight: Tensor) -> Tensor:
    """See :func:`quatgraph.algebra.hamilton_matrix`.

    Shape:
        - weight: ``(4, m, n)``
        - output: ``(4m, 4n)``
    """
    if weight.numel() and not is_tracing(weight) and use_triton(weight):
        return _apply(weight, transposed=False)
    return plain_matrix(weight)


def _apply(value: Tensor, *, transposed: bool) -> Tensor:
    """The matrix of a weight, or with ``transposed`` the weight's gradient of a matrix's."""
    if is_batched(value):
        return _plain_gradient(value) if transposed else plain_matrix(value)
    return _hamilton(value, transposed)


def _plain_gradient(grad: Tensor) -> Tensor:
    """The gradient of the matrix ``(..., 4m, 4n)`` as that of the weight ``(..., 4, m, n)``."""
    g = [row.chunk(4, dim=-1) for row in grad.chunk(4, dim=-2)]
    r = g[0][0] + g[1][1] + g[2][2] + g[3][3]
    i = g[1][0] - g[0][1] + g[3][2] - g[2][3]
    j = g[2][0] - g[0][2] + g[1][3] - g[3][1]
    k = g[3][0] - g[0][3] + g[2][1] - g[1][2]
    return torch.stack((r, i, j, k), dim=-3)


class _Hamilton(torch.autograd.Function):
    """Both maps are linear, and each is the other's transpose."""

    @staticmethod
    def forward(value: Tensor, transposed: bool) -> Tensor:
        from quatgraph.ops.kernels.hamilton_matrix import gather, spread

        dims = 2 if transposed else 3
        lead, flat = value.shape[:-dims], value.reshape(-1, *value.shape[-dims:])
        result = gather(flat) if transposed else spread(flat)
        return result.view(*lead, *result.shape[1:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: Tensor) -> None:
        _, ctx.transposed = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _apply(grads[0], transposed=not ctx.transposed), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        return _apply(tangents[0], transposed=ctx.transposed)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, None], value: Tensor, transposed: bool
    ) -> tuple[Tensor, int]:
        assert in_dims[0] is not None
        return _apply(value.movedim(in_dims[0], 0), transposed=transposed), 0


_hamilton = operation(_Hamilton, 0)
