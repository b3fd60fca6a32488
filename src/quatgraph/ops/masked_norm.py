r"""Batch normalisation of rows of which some are padding: with :math:`p_k` 0 for those, else 1,
and :math:`n = \max(1, \sum_k p_k)`, by feature,

.. math::
    \mu = \frac{1}{n} \sum_k p_k x_k, \qquad
    \sigma^2 = \frac{1}{n} \sum_k p_k (x_k - \mu)^2, \qquad
    y_k = w \hat{x}_k + b, \qquad \hat{x}_k = \frac{x_k - \mu}{\sqrt{\sigma^2 + \epsilon}}

so that padding is normalised like the rest, but has no say in it. With :math:`g` for the gradient
at :math:`y`, the gradients are

.. math::
    \nabla b = \sum_k g_k, \qquad \nabla w = \sum_k g_k \hat{x}_k, \qquad
    \nabla x_k = \frac{w}{\sqrt{\sigma^2 + \epsilon}}
    \Big(g_k - p_k \frac{\nabla b + \hat{x}_k \nabla w}{n}\Big)

On a GPU one kernel gives the first three and one the gradients (two each for many rows), for all
members of an ensemble at once, where torch's some fifteen operations would each read or write all
rows.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import members_first

_MANY = 2048
"""More rows than these are too many for one program."""


def masked_norm(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalises rows by the mean and the variance of those that are no padding.

    Shape:
        - x: ``(K, F)``
        - present: 0 for the rows that are padding, else 1, ``(K,)``; None where none is
        - weight, bias: ``(F,)``
        - output: the rows, as x; mean and variance of each feature, ``(F,)``, without gradients
        - of several members each with a leading ``M``
    """
    if present is not None:
        present = present.to(x.dtype)
    if x.dtype in KERNEL_TYPES and use_triton(x):
        return _norm(x, present, weight, bias, eps)
    return _norm_torch(x, present, weight, bias, eps)


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


@torch.library.custom_op("quatgraph::masked_norm", mutates_args=())
def _norm(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    y, mean, var = _kernels(x).normalised(
        _flat(x, 2), _flat(present), _flat(weight), _flat(bias), eps
    )
    return y.view(x.shape), mean.view(weight.shape), var.view(weight.shape)


@torch.library.custom_op("quatgraph::masked_norm_gradients", mutates_args=())
def _gradients(
    grad: Tensor,
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    rows = _flat(grad, 2), _flat(x, 2), _flat(present)
    vectors = _flat(weight), _flat(mean), _flat(var)
    by_x, by_weight, by_bias = _kernels(x).gradients(*rows, *vectors, eps)
    return by_x.view(x.shape), by_weight.view(weight.shape), by_bias.view(weight.shape)


def _kernels(x: Tensor) -> ModuleType:
    """Those for few rows, one program for some features, or those for many."""
    from quatgraph.ops.kernels import masked_norm, masked_norm_parts

    return masked_norm_parts if x.size(-2) > _MANY and x.numel() else masked_norm


def _flat(value: Tensor | None, dims: int = 1) -> Any:
    """So many dimensions after one that counts the members, of whom there may be just one."""
    return None if value is None else value[None].flatten(0, -1 - dims)


@_norm.register_fake
def _(
    x: Tensor, present: Tensor | None, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape)


@_gradients.register_fake
def _(
    grad: Tensor,
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), weight.new_empty(weight.shape), weight.new_empty(weight.shape)


def _setup_context(
    ctx: Any,
    inputs: tuple[Tensor, Tensor | None, Tensor, Tensor, float],
    output: tuple[Tensor, Tensor, Tensor],
) -> None:
    x, present, weight, _, ctx.eps = inputs
    _, mean, var = output
    ctx.save_for_backward(x, present, weight, mean, var)
    ctx.mark_non_differentiable(mean, var)


def _backward(
    ctx: Any, grad: Tensor, *_: Tensor | None
) -> tuple[Tensor, None, Tensor, Tensor, None]:
    by_x, by_weight, by_bias = _gradients(grad, *ctx.saved_tensors, ctx.eps)
    return by_x, None, by_weight, by_bias, None


_norm.register_autograd(_backward, setup_context=_setup_context)


@_norm.register_vmap
def _(
    info: Any,
    in_dims: tuple[int | None, ...],
    x: Tensor,
    present: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
    if present is not None:
        present = members_first(present, in_dims[1], info.batch_size)
    x, weight, bias = (
        members_first(value, in_dims[place], info.batch_size)
        for place, value in ((0, x), (2, weight), (3, bias))
    )
    return _norm(x, present, weight, bias, eps), (0, 0, 0)
