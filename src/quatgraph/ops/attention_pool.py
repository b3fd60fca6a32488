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
from torch.nn import functional as F

from quatgraph.ops.activation import ACTIVATIONS, SLOPES, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import batch_first, flatten_index
from quatgraph.ops.transforms import once_differentiable

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
    if x.dim() > 3:
        raise NotImplementedError("attention_pool does not support nested vmap")
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
    ) -> tuple[Tensor | None, ...]:
        if _kernels_take(x):
            from quatgraph.ops.kernels.attention_pool import pooled

            total, largest, count = pooled(x.contiguous(), weight.contiguous(), begins, activation)
            return total * largest, total, largest, count
        total, largest = _pooled(x, weight, begins, activation)
        return total * largest, total, largest, None  # counted where it is needed

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        *tensors, ctx.activation = inputs
        ctx.mark_non_differentiable(*(found for found in output[1:] if found is not None))
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, begins, total, largest, count = ctx.saved_tensors
        by_total, by_largest = grad * largest, grad * total
        if count is None:
            found = _gradients(by_total, by_largest, x, weight, begins, largest, ctx.activation)
            return *found, None, None
        from quatgraph.ops.kernels.attention_pool import gradients

        by_largest /= count.clamp(min=1)
        x, weight = x.contiguous(), weight.contiguous()
        found = gradients(by_total, by_largest, x, weight, begins, largest, ctx.activation)
        return *found, None, None

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        x: Tensor,
        weight: Tensor,
        begins: Tensor,
        activation: Activation,
    ) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
        x, weight, begins = batch_first(info.batch_size, in_dims, (x, weight, begins))
        if x.dim() != 3:
            raise NotImplementedError("attention_pool does not support nested vmap")
        tensors = x.contiguous(), weight.contiguous(), begins.contiguous()
        found = _AttentionPool.apply(*tensors, activation)
        return found, tuple(None if value is None else 0 for value in found)


def _pooled(
    x: Tensor, weight: Tensor, begins: Tensor, activation: Activation
) -> tuple[Tensor, Tensor]:
    """Sum and maximum over the nodes of each graph, ``(G, F)``."""
    e = (weight[..., None] * ACTIVATIONS[activation](x)).flatten(0, -2)
    place, size = _places(begins, x.size(-2)), (*begins.shape, x.size(-1))
    total = e.new_zeros(begins.numel(), e.size(1)).index_add_(0, place, e)
    largest = torch.full_like(total, -torch.inf)
    largest.scatter_reduce_(0, place[:, None].expand_as(e), e, "amax")
    total, largest = (found.view(size)[..., :-1, :] for found in (total, largest))
    return total, torch.where((begins.diff() > 0)[..., None], largest, 0)


def _gradients(
    by_total: Tensor,
    by_largest: Tensor,
    x: Tensor,
    weight: Tensor,
    begins: Tensor,
    largest: Tensor,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """At x and at the weights; nodes that have the maximum share ``by_largest``."""
    y, place = ACTIVATIONS[activation](x), _places(begins, x.size(-2))

    def of_graph(values: Tensor) -> Tensor:
        """What its graph has, of each node, 0 for padding: ``(G, F) -> (N, F)``."""
        rows = F.pad(values, (0, 0, 0, 1)).flatten(0, -2)
        return rows.index_select(0, place).view_as(x)

    ties = (weight[..., None] * y == of_graph(largest)).to(x.dtype)
    count = x.new_zeros(begins.numel(), x.size(-1)).index_add_(0, place, ties.flatten(0, -2))
    shared = by_largest / count.view(*begins.shape, -1)[..., :-1, :].clamp(min=1)
    by_e = of_graph(by_total).addcmul_(ties, of_graph(shared))
    return by_e * weight[..., None] * SLOPES[activation](y), (by_e * y).sum(dim=-1)


def _places(begins: Tensor, count: int) -> Tensor:
    """The row of each node's graph among all members' graphs, each with one more for padding."""
    owner = owners(begins, count)
    return flatten_index(owner, begins.size(-1))


def _kernels_take(x: Tensor) -> bool:
    return bool(x.numel() and x.dtype in KERNEL_TYPES and x.size(-1) <= _WIDEST and use_triton(x))
