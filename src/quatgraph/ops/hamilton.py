r"""The Hamilton product of a quaternion matrix and many quaternion vectors.

.. math:: \mathbf{y} = \mathbf{W} \otimes \mathbf{x} + \mathbf{b}

It is one real product with the matrix form of :math:`\mathbf{W}` (Eq. 9), which is small beside
``x``: :func:`quatgraph.algebra.hamilton_matrix`. On a GPU one kernel writes its sixteen blocks, and
one sums the sixteen blocks of its gradient, for all members of an ensemble at once, where torch
would copy each block several times. ``torch.compile`` fuses the plain form itself.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.algebra import hamilton_matrix as plain_matrix
from quatgraph.algebra import hamilton_matrix_tiled
from quatgraph.errors import UserError
from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import add_bias
from quatgraph.ops.rounded_linear import rounded_linear
from quatgraph.ops.transforms import is_batched, is_tracing, operation


def hamilton_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    tiled: bool = False,
    product_dtype: torch.dtype | None = None,
) -> Tensor:
    r"""Multiplies every vector of ``x`` by a quaternion matrix.

    Args:
        x: ``(..., 4n)``; with ``tiled`` ``(..., n)``, one real vector that represents the
            quaternion vector whose four components all equal it. The four column blocks of the
            matrix are then summed first: a quarter of the product, no tiled copy in memory.
        weight: ``(4, m, n)``, the components of :math:`\mathbf{W}`; of several members
            ``(M, 4, m, n)``, with x ``(M, N, 4n)``.
        bias: ``(4m,)``, of several members ``(M, 4m)``.
        product_dtype: bfloat16 for a product of numbers rounded to it, which is rounded too; for
            two-dimensional x of each member, and without a bias.

    Shape:
        - output: ``(..., 4m)``
    """
    matrix = hamilton_matrix_tiled(weight) if tiled else hamilton_matrix(weight)
    if product_dtype is not None:
        if bias is not None or x.dim() != weight.dim() - 1:
            raise UserError("a product of rounded numbers takes a matrix of vectors, and no bias")
        return rounded_linear(x, matrix, product_dtype)
    if weight.dim() == 3:
        return F.linear(x, matrix, bias)
    return add_bias(x @ matrix.mT, bias)


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
