r"""Products of rounded factors, accumulated in float32, and a linear map of them.

The map is :math:`\mathbf{Y} = \mathbf{X} \mathbf{W}^\top` with :math:`\mathbf{X}`,
:math:`\mathbf{W}` and the gradient at :math:`\mathbf{Y}` rounded. Its gradients are float32;
:math:`\mathbf{Y}` is rounded, since sums over neighbours round it anyway.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.members import MemberFunction, flatten_members
from quatgraph.ops.transforms import once_differentiable


def rounded_linear(x: Tensor, weight: Tensor, dtype: torch.dtype) -> Tensor:
    """``x @ weight.mT``; differentiable once.

    Shape:
        - x: ``(N, F)``
        - weight: ``(G, F)``
        - output: ``(N, G)``, in ``dtype``
        - of several members each with a leading ``M``
    """
    y, *_ = _RoundedLinear.apply(x, weight, dtype)
    return y


def product(
    left: Tensor, right: Tensor, plus: Tensor | None = None, out: Tensor | None = None
) -> Tensor:
    """The batched product ``(M, ...)``, in float32 for bfloat16, added to ``plus`` in place or
    written to ``out``."""
    how: dict[str, Any] = {}
    if left.dtype == torch.bfloat16 and left.is_cuda:
        how = {"out_dtype": torch.float32}
    elif left.dtype == torch.bfloat16:
        # A CPU's bfloat16 product would round its result.
        left, right = left.float(), right.float()
    if plus is not None:
        return torch.baddbmm(plus, left, right, out=plus, **how)
    return torch.bmm(left, right, out=out, **how)


def rounded_product(left: Tensor, right: Tensor) -> Tensor:
    """The batched product in the factors' type, rounded once if that is bfloat16."""
    if left.dtype == torch.bfloat16 and not left.is_cuda:
        return (left.float() @ right.float()).to(left.dtype)
    return left @ right


def column_major(matrix: Tensor) -> Tensor:
    """The matrix, on a GPU in column-major layout: a float32 right factor is multiplied faster if
    the summed dimension is contiguous."""
    return matrix.mT.contiguous().mT if matrix.is_cuda else matrix


class _RoundedLinear(MemberFunction):
    """Returns the result and, for the backward pass, the rounded factors."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        if x.dim() > 3:
            raise NotImplementedError("rounded_linear does not support nested vmap")
        rounded_x, rounded_w = x.to(dtype), weight.to(dtype)
        return rounded_product(rounded_x, rounded_w.mT), rounded_x, rounded_w

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return None, None, None
        grad, rounded_x, rounded_w = (
            flatten_members(value, 2) for value in (grad, *ctx.saved_tensors)
        )
        grad_x, grad_weight = product(grad, rounded_w), product(grad.mT, rounded_x)
        return grad_x.view_as(rounded_x), grad_weight.view_as(rounded_w), None
