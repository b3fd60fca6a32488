r"""Pools the nodes of each graph, each node with a weight of its own:

.. math::
    e_v = \alpha_v \, g(x_v), \qquad s = \sum_v e_v, \qquad t = \max_v e_v

and y is the product :math:`s \odot t`, or the mean plus the maximum, :math:`s / n + t`. The maximum
is taken by feature, and is 0 for a graph without nodes. Nodes that share it share its gradient, as
in :func:`torch.amax`: with k of them and :math:`\delta^s, \delta^t` for the gradients at s and t,

.. math::
    \delta_v = \delta^s + [e_v = t] \, \delta^t / k, \qquad
    \nabla x_v = \alpha_v \, \delta_v \odot g'(x_v), \qquad
    \nabla \alpha_v = \langle \delta_v, g(x_v) \rangle

On a GPU one kernel reads the nodes of a graph in order, and another one reads them again for the
gradients, without atomics; nothing between :math:`x` and the sums is stored.
"""

from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from quatgraph.ops.activation import ACTIVATION_GRADS, ACTIVATIONS, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import batch_first, flatten_index
from quatgraph.ops.segments import segment_ids
from quatgraph.ops.transforms import once_differentiable

Pooling = Literal["sum-times-max", "mean-plus-max"]
_WIDEST = 4096
"""Features that a kernel program can hold."""


def attention_pool(
    x: Tensor,
    weight: Tensor,
    ptr: Tensor,
    activation: Activation = "relu",
    pooling: Pooling = "sum-times-max",
) -> Tensor:
    """Pools the nodes of each graph.

    Shape:
        - x: ``(N, F)``, sorted by graph, padding last
        - weight: ``(N,)``
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - output: ``(G, F)``
        - of several members each with a leading ``M``
    """
    ptr = ptr.expand(*x.shape[:-2], -1).contiguous()
    total, maximum, _ = _AttentionPool.apply(x, weight, ptr, activation)
    if pooling == "sum-times-max":
        return total * maximum
    return total / ptr.diff().clamp(min=1)[..., None] + maximum


class _AttentionPool(torch.autograd.Function):
    @staticmethod
    def forward(
        x: Tensor, weight: Tensor, ptr: Tensor, activation: Activation
    ) -> tuple[Tensor | None, ...]:
        if x.dim() > 3:
            raise NotImplementedError("attention_pool does not support nested vmap")
        if _use_kernels(x):
            from quatgraph.ops.kernels.attention_pool import pool

            return pool(x.contiguous(), weight.contiguous(), ptr, activation)
        return *_pool(x, weight, ptr, activation), None  # counted in the backward pass

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor | None, ...]) -> None:
        *tensors, ctx.activation = inputs
        _, maximum, count = output
        if count is not None:
            ctx.mark_non_differentiable(count)
        ctx.save_for_backward(*tensors, maximum, count)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_total: Tensor, grad_maximum: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, weight, ptr, maximum, count = ctx.saved_tensors
        if count is None:
            grads = _gradients(grad_total, grad_maximum, x, weight, ptr, maximum, ctx.activation)
            return *grads, None, None
        from quatgraph.ops.kernels.attention_pool import pool_backward

        grad_maximum = grad_maximum / count.clamp(min=1)
        x, weight = x.contiguous(), weight.contiguous()
        grads = pool_backward(grad_total, grad_maximum, x, weight, ptr, maximum, ctx.activation)
        return *grads, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
        *tensors, activation = batch_first(info.batch_size, in_dims, inputs)
        outputs = _AttentionPool.apply(*(value.contiguous() for value in tensors), activation)
        return outputs, tuple(None if value is None else 0 for value in outputs)


def _pool(x: Tensor, weight: Tensor, ptr: Tensor, activation: Activation) -> tuple[Tensor, Tensor]:
    """Sum and maximum over the nodes of each graph, ``(G, F)``."""
    e = (weight[..., None] * ACTIVATIONS[activation](x)).flatten(0, -2)
    segment, size = _flat_segment_ids(ptr, x.size(-2)), (*ptr.shape, x.size(-1))
    total = e.new_zeros(ptr.numel(), e.size(1)).index_add_(0, segment, e)
    maximum = torch.full_like(total, -torch.inf)
    maximum.scatter_reduce_(0, segment[:, None].expand_as(e), e, "amax")
    total, maximum = (value.view(size)[..., :-1, :] for value in (total, maximum))
    return total, torch.where((ptr.diff() > 0)[..., None], maximum, 0)


def _gradients(
    grad_total: Tensor,
    grad_maximum: Tensor,
    x: Tensor,
    weight: Tensor,
    ptr: Tensor,
    maximum: Tensor,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """Those of x and the weights; nodes that attain the maximum share ``grad_maximum``."""
    y, segment = ACTIVATIONS[activation](x), _flat_segment_ids(ptr, x.size(-2))

    def of_graph(values: Tensor) -> Tensor:
        """The values of each node's graph, 0 for padding: ``(G, F) -> (N, F)``."""
        rows = F.pad(values, (0, 0, 0, 1)).flatten(0, -2)
        return rows.index_select(0, segment).view_as(x)

    ties = (weight[..., None] * y == of_graph(maximum)).to(x.dtype)
    count = x.new_zeros(ptr.numel(), x.size(-1)).index_add_(0, segment, ties.flatten(0, -2))
    shared = grad_maximum / count.view(*ptr.shape, -1)[..., :-1, :].clamp(min=1)
    grad_e = of_graph(grad_total).addcmul_(ties, of_graph(shared))
    return grad_e * weight[..., None] * ACTIVATION_GRADS[activation](y), (grad_e * y).sum(dim=-1)


def _flat_segment_ids(ptr: Tensor, count: int) -> Tensor:
    """The segment ids of all members' nodes, where each member has G + 1 segments."""
    return flatten_index(segment_ids(ptr, count), ptr.size(-1))


def _use_kernels(x: Tensor) -> bool:
    return bool(x.numel() and x.dtype in KERNEL_TYPES and x.size(-1) <= _WIDEST and use_triton(x))
