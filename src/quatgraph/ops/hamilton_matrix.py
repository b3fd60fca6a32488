r"""The real matrix of a quaternion matrix (Eq. 9), for all members of an ensemble at once.

It is :func:`quatgraph.algebra.hamilton_matrix`; on a GPU one kernel writes its sixteen blocks, and
one sums the sixteen blocks of its gradient, where torch would copy each block several times.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.algebra import hamilton_matrix as plain_matrix
from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import differentiated, many_at_once, recorded, transforms


def hamilton_matrix(weight: Tensor) -> Tensor:
    """See :func:`quatgraph.algebra.hamilton_matrix`.

    Shape:
        - weight: ``(4, m, n)``
        - output: ``(4m, 4n)``
    """
    return _matrix(weight) if weight.numel() and use_triton(weight) else plain_matrix(weight)


def _matrix(weight: Tensor) -> Tensor:
    if _by_name(weight):
        return _matrix_op(weight)
    made: Tensor = _Matrix.apply(weight) if differentiated(weight) else _spread(weight)
    return made


def _gradient(grad: Tensor) -> Tensor:
    if _by_name(grad):
        return _gradient_op(grad)
    made: Tensor = _Gradient.apply(grad) if differentiated(grad) else _gather(grad)
    return made


def _by_name(value: Tensor) -> bool:
    """Whether torch has to know the operation: it records it, or applies it to many at once."""
    return recorded(value) or bool(transforms()) or many_at_once(value)


def _spread(weight: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import spread

    whole = spread(weight.reshape(-1, *weight.shape[-3:]))
    return whole.view(*weight.shape[:-3], *whole.shape[1:])


def _gather(grad: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import gather

    whole = gather(grad.reshape(-1, *grad.shape[-2:]))
    return whole.view(*grad.shape[:-2], *whole.shape[1:])


class _Matrix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return _spread(weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _gradient(grad)

    @staticmethod
    def jvp(ctx: Any, along: Tensor) -> Tensor:
        return _matrix(along)


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, grad: Tensor) -> Tensor:
        return _gather(grad)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return _matrix(grad)

    @staticmethod
    def jvp(ctx: Any, along: Tensor) -> Tensor:
        return _gradient(along)


# The same as operations of torch's library, where torch has to know them: the library takes longer
# to find one than a GPU to do it.
_matrix_op = torch.library.custom_op("quatgraph::hamilton_matrix", _spread, mutates_args=())
_gradient_op = torch.library.custom_op(
    "quatgraph::hamilton_matrix_gradient", _gather, mutates_args=()
)


@_matrix_op.register_fake
def _(weight: Tensor) -> Tensor:
    return weight.new_empty(*weight.shape[:-3], 4 * weight.size(-2), 4 * weight.size(-1))


@_gradient_op.register_fake
def _(grad: Tensor) -> Tensor:
    return grad.new_empty(*grad.shape[:-2], 4, grad.size(-2) // 4, grad.size(-1) // 4)


def _setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    pass  # the gradient needs nothing


def _backward(ctx: Any, grad: Tensor) -> Tensor:
    return _gradient_op(grad)


_matrix_op.register_autograd(_backward, setup_context=_setup_context)
_gradient_op.register_autograd(lambda ctx, grad: _matrix_op(grad), setup_context=_setup_context)


@_matrix_op.register_vmap
def _(info: Any, in_dims: tuple[int | None], weight: Tensor) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return _matrix_op(weight.movedim(in_dims[0], 0)), 0


@_gradient_op.register_vmap
def _(info: Any, in_dims: tuple[int | None], grad: Tensor) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return _gradient_op(grad.movedim(in_dims[0], 0)), 0
