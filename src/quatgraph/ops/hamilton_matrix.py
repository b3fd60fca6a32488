r"""The real matrix of a quaternion matrix (Eq. 9), for all members of an ensemble at once.

It is :func:`quatgraph.algebra.hamilton_matrix`; on a GPU one kernel writes its sixteen blocks, and
one sums the sixteen blocks of its gradient, where torch would copy each block several times.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from quatgraph.algebra import hamilton_matrix as plain_matrix
from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import active_transforms, is_batched, is_tracing, needs_autograd


def hamilton_matrix(weight: Tensor) -> Tensor:
    """See :func:`quatgraph.algebra.hamilton_matrix`.

    Shape:
        - weight: ``(4, m, n)``
        - output: ``(4m, 4n)``
    """
    if weight.numel() and use_triton(weight):
        return _apply(weight, back=False)
    return plain_matrix(weight)


def _apply(value: Tensor, *, back: bool) -> Tensor:
    """The matrix of a weight, or ``back`` from a matrix the sums that are its gradient."""
    if _by_name(value):
        return (_gradient_op if back else _matrix_op)(value)
    if needs_autograd(value):
        made: Tensor = _Either.apply(value, back)
        return made
    return (_gather if back else _spread)(value)


def _by_name(value: Tensor) -> bool:
    """Whether torch has to know the operation: it records it, or applies it to many at once."""
    return is_tracing(value) or bool(active_transforms()) or is_batched(value)


def _spread(weight: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import spread

    whole = spread(weight.reshape(-1, *weight.shape[-3:]))
    return whole.view(*weight.shape[:-3], *whole.shape[1:])


def _gather(grad: Tensor) -> Tensor:
    from quatgraph.ops.kernels.hamilton_matrix import gather

    whole = gather(grad.reshape(-1, *grad.shape[-2:]))
    return whole.view(*grad.shape[:-2], *whole.shape[1:])


class _Either(torch.autograd.Function):
    """Both are linear, and each is the other's gradient."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, back: bool) -> Tensor:
        ctx.back = back
        return (_gather if back else _spread)(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _apply(grads[0], back=not ctx.back), None

    @staticmethod
    def jvp(ctx: Any, *along: Any) -> Tensor:
        return _apply(along[0], back=ctx.back)


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


def _gradient_by(other: Any, ctx: Any, grad: Tensor) -> Tensor:
    made: Tensor = other(grad)
    return made


def _of_members(
    op: Any, info: Any, in_dims: tuple[int | None], value: Tensor
) -> tuple[Tensor, int]:
    assert in_dims[0] is not None
    return op(value.movedim(in_dims[0], 0)), 0


for _op, _other in ((_matrix_op, _gradient_op), (_gradient_op, _matrix_op)):
    _op.register_autograd(partial(_gradient_by, _other), setup_context=_setup_context)
    _op.register_vmap(partial(_of_members, _op))
