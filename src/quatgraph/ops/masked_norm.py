r"""Batch normalisation of rows of which some are padding, then an activation :math:`a`: with
:math:`p_k` 0 for padding, else 1, and :math:`n = \max(1, \sum_k p_k)`, by feature,

.. math::
    \mu = \frac{1}{n} \sum_k p_k x_k, \qquad
    \sigma^2 = \frac{1}{n} \sum_k p_k (x_k - \mu)^2, \qquad
    y_k = a(w \hat{x}_k + b), \qquad \hat{x}_k = \frac{x_k - \mu}{\sqrt{\sigma^2 + \epsilon}}

so that padding is transformed like other rows, but does not enter the statistics. With :math:`g`
for the gradient at :math:`w \hat{x} + b`, the derivatives are

.. math::
    \nabla b = \sum_k g_k, \qquad \nabla w = \sum_k g_k \hat{x}_k, \qquad
    \nabla x_k = \frac{w}{\sqrt{\sigma^2 + \epsilon}}
    \Big(g_k - p_k \frac{\nabla b + \hat{x}_k \nabla w}{n}\Big)

On a GPU one kernel computes the rows and the running statistics, and one the derivatives (two each
for many rows), for all members of an ensemble at once; torch needs some twenty operations, most of
which read or write all rows.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import MemberFunction, flatten_members
from quatgraph.ops.transforms import once_differentiable


def masked_norm(
    x: Tensor,
    mask: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    *,
    eps: float,
    momentum: float,
    activation: Activation = "none",
) -> Tensor:
    """Normalises rows by the mean and the variance of those that are not padding, as
    :func:`torch.nn.functional.batch_norm` does in training, then applies an activation.

    The running statistics change in place, if at least two rows are not padding.

    Shape:
        - x: ``(K, F)``
        - mask: 0 for padding rows, else 1, ``(K,)``; None without padding
        - weight, bias, running_mean, running_var: ``(F,)``
        - output: as x
        - of several members each with a leading ``M``
    """
    if mask is not None:
        mask = mask.to(x.dtype)
    if x.dtype in KERNEL_TYPES and use_triton(x):
        each = *x.shape[:-2], x.size(-1)
        vectors = weight.expand(each), bias.expand(each), running_mean, running_var
        mask = None if mask is None else mask.expand(x.shape[:-1])
        y, *_ = _MaskedNorm.apply(x, mask, *vectors, eps, momentum, activation)
        return y
    counts = x.new_ones(1, x.size(-2)) if mask is None else mask[..., None, :]
    divisor = counts.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = counts @ x / divisor  # a matrix product is the fastest sum over rows
    centred = x - mean
    var = counts @ centred.square() / divisor
    y = centred * (torch.rsqrt(var + eps) * weight.unsqueeze(-2)) + bias.unsqueeze(-2)
    stats = running_mean, running_var, mean.squeeze(-2), var.squeeze(-2)
    _update_running_stats(*stats, x.size(-2), mask, momentum)
    return ACTIVATIONS[activation](y)


@torch.no_grad()
def _update_running_stats(
    running_mean: Tensor,
    running_var: Tensor,
    mean: Tensor,
    var: Tensor,
    rows: int,
    mask: Tensor | None,
    momentum: float,
) -> None:
    """Updates the running statistics by those of the rows that are not padding."""
    if mask is not None:
        count = mask.sum(dim=-1, keepdim=True)
        step = momentum * (count > 1).to(mean.dtype)
        unbiased = var * count / (count - 1).clamp(min=1)
        running_mean.add_(step * (mean - running_mean))
        running_var.add_(step * (unbiased - running_var))
    elif rows > 1:
        running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
        running_var.mul_(1 - momentum).add_(var, alpha=momentum * rows / (rows - 1))


class _MaskedNorm(MemberFunction):
    """Not a library operation: one with gradients may not mutate its inputs."""

    @staticmethod
    def forward(
        x: Tensor,
        mask: Tensor | None,
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
                    "masked_norm needs contiguous running statistics of each member"
                )
        from quatgraph.ops.kernels.masked_norm import normalize

        vectors = (flatten_members(value) for value in (weight, bias, running_mean, running_var))
        y, mean, var = normalize(
            flatten_members(x, 2),
            flatten_members(mask),
            *vectors,
            eps=eps,
            momentum=momentum,
            activation=activation,
        )
        return y.view(x.shape), mean.view(weight.shape), var.view(weight.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        x, mask, weight, bias, _, _, ctx.eps, _, ctx.activation = inputs
        _, mean, var = output
        ctx.mark_non_differentiable(mean, var)
        ctx.set_materialize_grads(False)  # or torch creates zeros for both
        ctx.save_for_backward(x, mask, weight, bias, mean, var)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * 9
        from quatgraph.ops.kernels.masked_norm import normalize_backward

        x, mask, *vectors = ctx.saved_tensors
        rows, flat = (
            (flatten_members(grad, 2), flatten_members(x, 2)),
            (flatten_members(value) for value in (mask, *vectors)),
        )
        grads = normalize_backward(*rows, *flat, eps=ctx.eps, activation=ctx.activation)
        grad_x, grad_weight, grad_bias = (
            value.view_as(like) for value, like in zip(grads, (x, *vectors), strict=False)
        )
        return grad_x, None, grad_weight, grad_bias, *(None,) * 5
