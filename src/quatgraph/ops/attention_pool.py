r"""Pools the nodes of each graph, sum times maximum, each node with a weight of its own:

.. math::
    e_v = \alpha_v \, g(x_v), \qquad s = \sum_v e_v, \qquad t = \max_v e_v, \qquad y = s \odot t

where the maximum is taken by feature, and is 0 for a graph without nodes. Nodes that share it
share its gradient, as in :func:`torch.amax`: with k of them and :math:`\delta` for the gradient at
y,

.. math::
    \delta_v = \delta \odot \big(t + [e_v = t] \, s / k\big), \qquad
    \nabla x_v = \alpha_v \, \delta_v \odot g'(x_v), \qquad
    \nabla \alpha_v = \langle \delta_v, g(x_v) \rangle

On a GPU one kernel goes over the nodes of a graph in their order, and one over them again for the
gradients, without atomics; what is between :math:`x` and :math:`y` is never stored.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.activation import ACTIVATIONS, SLOPES, Activation
from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import members_first

_KERNEL_TYPES = torch.float32, torch.float64
_WIDEST = 4096
"""Features that a program of the kernels can hold."""


def attention_pool(
    x: Tensor, weight: Tensor, begins: Tensor, activation: Activation = "relu"
) -> Tensor:
    """Pools the nodes of each graph.

    Shape:
        - x: ``(N, F)``, the nodes of a graph side by side, graph after graph, then padding
        - weight: ``(N,)``
        - begins: where the nodes of each graph begin, and where those of the last end, ``(G + 1,)``
        - output: ``(G, F)``
        - of several members each with a leading ``M``
    """
    begins = begins.expand(*x.shape[:-2], -1).contiguous()
    pooled, *_ = _AttentionPool.apply(x, weight, begins, activation)
    return pooled


def owners(begins: Tensor, count: int) -> Tensor:
    """The graph of each of so many nodes, G for padding, ``(..., G + 1) -> (..., count)``."""
    place = torch.arange(count, device=begins.device, dtype=begins.dtype)
    place = place.expand(*begins.shape[:-1], -1).contiguous()
    return torch.searchsorted(begins[..., 1:].contiguous(), place, right=True)


class _AttentionPool(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, begins: Tensor, activation: Activation
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        if _kernels_take(x):
            from quatgraph.ops.kernels.attention_pool import pooled

            total, largest, count = pooled(x.contiguous(), weight.contiguous(), begins, activation)
        else:
            total, largest, count = _pooled(x, weight, begins, activation)
        return total * largest, total, largest, count

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.activation = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, begins, total, largest, count = ctx.saved_tensors
        by_total, by_largest = grad * largest, grad * total / count.clamp(min=1)
        if _kernels_take(x):
            from quatgraph.ops.kernels.attention_pool import gradients

            x, weight = x.contiguous(), weight.contiguous()
            found = gradients(by_total, by_largest, x, weight, begins, largest, ctx.activation)
        else:
            found = _gradients(by_total, by_largest, x, weight, begins, largest, ctx.activation)
        return *found, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        weight: Tensor,
        begins: Tensor,
        activation: Activation,
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        each = [
            members_first(value, dim, info.batch_size).contiguous()
            for value, dim in zip((x, weight, begins), in_dims, strict=False)
        ]
        return _AttentionPool.apply(*each, activation), (0, 0, 0, 0)


def _pooled(
    x: Tensor, weight: Tensor, begins: Tensor, activation: Activation
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum and maximum over the nodes of each graph, and how many nodes share it, ``(G, F)``."""
    e, axis = weight[..., None] * ACTIVATIONS[activation](x), x.dim() - 2
    total = torch.segment_reduce(e, "sum", offsets=begins, axis=axis)
    largest = torch.segment_reduce(e, "max", offsets=begins, axis=axis)
    largest = torch.where((begins.diff() > 0)[..., None], largest, 0)
    ties = (e == _of_graphs(largest, begins, x.size(-2))).to(x.dtype)
    return total, largest, torch.segment_reduce(ties, "sum", offsets=begins, axis=axis)


def _gradients(
    by_total: Tensor,
    by_largest: Tensor,
    x: Tensor,
    weight: Tensor,
    begins: Tensor,
    largest: Tensor,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """At x and at the weights; a node that has the maximum gets ``by_largest``."""
    y, rows = ACTIVATIONS[activation](x), x.size(-2)
    weight = weight[..., None]
    ties = weight * y == _of_graphs(largest, begins, rows)
    by_e = _of_graphs(by_total, begins, rows) + ties * _of_graphs(by_largest, begins, rows)
    by_e = torch.where((owners(begins, rows) < largest.size(-2))[..., None], by_e, 0)
    return by_e * weight * SLOPES[activation](y), (by_e * y).sum(dim=-1)


def _of_graphs(values: Tensor, begins: Tensor, count: int) -> Tensor:
    """What its graph has, of each node, ``(G, F) -> (N, F)``; padding has what the last has."""
    if not values.size(-2):
        return values.new_zeros(*values.shape[:-2], count, values.size(-1))
    owner = owners(begins, count).clamp(max=values.size(-2) - 1)[..., None]
    return values.gather(-2, owner.expand(*owner.shape[:-1], values.size(-1)))


def _kernels_take(x: Tensor) -> bool:
    return bool(x.numel() and x.dtype in _KERNEL_TYPES and x.size(-1) <= _WIDEST and use_triton(x))
