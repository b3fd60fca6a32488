r"""The real matrix of a quaternion matrix (Eq. 9), for all members of an ensemble at once.

It is :func:`quatgraph.algebra.hamilton_matrix`; on a GPU one kernel writes its sixteen blocks, and
one sums the sixteen blocks of its gradient, where torch would copy each block several times.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.algebra import hamilton_matrix as plain_matrix
from quatgraph.ops.backend import use_triton


def hamilton_matrix(weight: Tensor) -> Tensor:
    """See :func:`quatgraph.algebra.hamilton_matrix`.

    Shape:
        - weight: ``(4, m, n)``
        - output: ``(4m, 4n)``
    """
    if weight.numel() and use_triton(weight):
        return _matrix(weight)
    return plain_matrix(weight)


@torch.library.custom_op("quatgraph::hamilton_matrix", mutates_args=())
def _matrix(weight: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import spread

    whole = spread(weight.reshape(-1, *weight.shape[-3:]))
    return whole.view(*weight.shape[:-3], *whole.shape[1:])


@torch.library.custom_op("quatgraph::hamilton_matrix_gradient", mutates_args=())
def _gradient(grad: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import gather

    whole = gather(grad.reshape(-1, *grad.shape[-2:]))
    return whole.view(*grad.shape[:-2], *whole.shape[1:])


@_matrix.register_fake
def _(weight: Tensor) -> Tensor:
    return weight.new_empty(*weight.shape[:-3], 4 * weight.size(-2), 4 * weight.size(-1))


@_gradient.register_fake
def _(grad: Tensor) -> Tensor:
    return grad.new_empty(*grad.shape[:-2], 4, grad.size(-2) // 4, grad.size(-1) // 4)


def _setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    pass  # the gradient needs nothing


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    return _gradient(grad)


_matrix.register_autograd(_backward, setup_context=_setup_context)
_gradient.register_autograd(lambda ctx, grad: _matrix(grad), setup_context=_setup_context)


@_matrix.register_vmap
def _(info: Any, in_dims: tuple[int | None], weight: Tensor) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return _matrix(weight.movedim(in_dims[0], 0)), 0
