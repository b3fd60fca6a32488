r"""Batch normalisation of rows of which some are padding, then an activation :math:`a`: with
:math:`p_k` 0 for padding, else 1, and :math:`n = \max(1, \sum_k p_k)`, by feature,

.. math::
    \mu = \frac{1}{n} \sum_k p_k x_k, \qquad
    \sigma^2 = \frac{1}{n} \sum_k p_k (x_k - \mu)^2, \qquad
    y_k = a(w \hat{x}_k + b), \qquad \hat{x}_k = \frac{x_k - \mu}{\sqrt{\sigma^2 + \epsilon}}

so that padding is normalised like the rest, but has no say in it. With :math:`g` for the gradient
at :math:`w \hat{x} + b`, that at :math:`y` times the slope of :math:`a`, the gradients are

.. math::
    \nabla b = \sum_k g_k, \qquad \nabla w = \sum_k g_k \hat{x}_k, \qquad
    \nabla x_k = \frac{w}{\sqrt{\sigma^2 + \epsilon}}
    \Big(g_k - p_k \frac{\nabla b + \hat{x}_k \nabla w}{n}\Big)

On a GPU one kernel gives the rows and the running statistics, and one the gradients (two each for
many rows), for all members of an ensemble at once, where torch's some twenty operations would most
of them read or write all rows.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.transforms import once_differentiable

_MANY = 512
"""More rows than these are too many for one program."""


def masked_norm(
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    eps: float,
    momentum: float,
    activation: Activation = "none",
) -> Tensor:
    """Normalises rows by the mean and the variance of those that are no padding, as
    :func:`torch.nn.functional.batch_norm` does in training, then applies an activation.

    The running statistics change in place, unless fewer than two rows are no padding.

    Shape:
        - x: ``(K, F)``
        - present: 0 for the rows that are padding, else 1, ``(K,)``; None where none is
        - weight, bias, running_mean, running_var: ``(F,)``
        - output: as x
        - of several members each with a leading ``M``
    """
    if present is not None:
        present = present.to(x.dtype)
    if x.dtype in KERNEL_TYPES and use_triton(x):
        each = *x.shape[:-2], x.size(-1)
        vectors = weight.expand(each), bias.expand(each), running_mean, running_var
        present = None if present is None else present.expand(x.shape[:-1])
        y, *_ = _MaskedNorm.apply(x, present, *vectors, eps, momentum, activation)
        return y
    y, mean, var = _norm_torch(x, present, weight, bias, eps)
    _follow(running_mean, running_var, mean, var, x.size(-2), present, momentum)
    return ACTIVATIONS[activation](y)


def _norm_torch(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    counts = x.new_ones(1, x.size(-2)) if present is None else present[..., None, :]
    divisor = counts.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = counts @ x / divisor  # a product is the fastest sum over rows
    centred = x - mean
    var = counts @ centred.square() / divisor
    y = centred * (torch.rsqrt(var + eps) * weight.unsqueeze(-2)) + bias.unsqueeze(-2)
    return y, mean.squeeze(-2).detach(), var.squeeze(-2).detach()


@torch.no_grad()
def _follow(
    running_mean: Tensor,
    running_var: Tensor,
    mean: Tensor,
    var: Tensor,
    rows: int,
    present: Tensor | None,
    momentum: float,
) -> None:
    """Brings the running statistics a step closer to those of the rows that are no padding."""
    if present is not None:
        count = present.sum(dim=-1, keepdim=True)
        step = momentum * (count > 1).to(mean.dtype)
        unbiased = var * count / (count - 1).clamp(min=1)
        running_mean.add_(step * (mean - running_mean))
        running_var.add_(step * (unbiased - running_var))
    elif rows > 1:
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(var, alpha=momentum * rows / (rows - 1))


class _MaskedNorm(torch.autograd.Function):
    """Not an operation of torch's library: there one that has gradients may change nothing."""

    @staticmethod
    def forward(
        x: Tensor,
        present: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        running_mean: Tensor,
        running_var: Tensor,
        eps: float,
        momentum: float,
        activation: Activation,
    ) -> tuple[Tensor, Tensor, Tensor]:
        for running in (running_mean, running_var):
            if running.shape != (*x.shape[:-2], x.size(-1)) or not running.is_contiguous():
                raise NotImplementedError(
                    "masked_norm: running statistics that members share or that lie apart in memory"
                )
        vectors = (_flat(value) for value in (weight, bias, running_mean, running_var))
        y, mean, var = _kernels(x).normalised(
            _flat(x, 2), _flat(present), *vectors, eps, momentum, activation
        )
        return y.view(x.shape), mean.view(weight.shape), var.view(weight.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, present, weight, bias, _, _, ctx.eps, _, ctx.activation = inputs
        _, mean, var = output
        ctx.mark_non_differentiable(mean, var)
        ctx.set_materialize_grads(False)  # or zeros would be made for both
        ctx.save_for_backward(x, present, weight, bias, mean, var)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 9
        x, present, *vectors = ctx.saved_tensors
        by_x, by_weight, by_bias = _kernels(x).gradients(
            _flat(grad, 2),
            _flat(x, 2),
            _flat(present),
            *(_flat(vector) for vector in vectors),
            ctx.eps,
            ctx.activation,
        )
        shape = vectors[0].shape
        return by_x.view(x.shape), None, by_weight.view(shape), by_bias.view(shape), *(None,) * 5

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        *tensors, eps, momentum, activation = inputs
        tensors = batch_first(info.batch_size, in_dims, tensors)
        return _MaskedNorm.apply(*tensors, eps, momentum, activation), (0, 0, 0)


def _kernels(x: Tensor) -> ModuleType:
    """Those for few rows, one program for some features, or those for many."""
    from quatgraph.ops.kernels import masked_norm, masked_norm_parts

    return masked_norm_parts if x.size(-2) > _MANY and x.numel() else masked_norm


def _flat(value: Tensor | None, dims: int = 1) -> Any:
    """So many dimensions after one that counts the members, of whom there may be just one."""
    return None if value is None else value[None].flatten(0, -1 - dims)
