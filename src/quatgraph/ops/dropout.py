r"""Dropout by given random numbers :math:`u`, uniform in [0, 1), at a rate :math:`p` of 0 to 1:

.. math:: y = x / (1 - p) \text{ where } u \ge p, \text{ else } 0

The rate is a tensor, so that the members of an ensemble may have rates of their own. On a GPU one
kernel does it, where torch's three operations would each read the rate for every number.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.members import members_first


def dropped(x: Tensor, random: Tensor, rate: Tensor) -> Tensor:
    """Drops numbers of ``x``.

    Shape:
        - x, random: of one shape; of several members ``(M, ...)``
        - rate: ``()``; of several members ``(M,)``
        - output: as x
    """
    if use_triton(x):
        return _dropped(x, random, rate)
    rate = rate.view(-1, *[1] * (x.dim() - 1)) if rate.dim() else rate
    return x * ((random >= rate) / (1 - rate)).to(x.dtype)


@torch.library.custom_op("quatgraph::dropped", mutates_args=())
def _dropped(x: Tensor, random: Tensor, rate: Tensor) -> Tensor:
    from quatgraph.ops.kernels.dropout import dropped as kernel

    if rate.dim() == 0:
        return kernel(x[None], random[None], rate[None])[0]
    return kernel(x, random, rate)


@_dropped.register_fake
def _(x: Tensor, random: Tensor, rate: Tensor) -> Tensor:
    return x.new_empty(x.shape) if use_triton(x) else torch.empty_like(x)  # as each form gives


def _setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[1:])


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return _dropped(grad, *ctx.saved_tensors), None, None


_dropped.register_autograd(_backward, setup_context=_setup_context)


@_dropped.register_vmap
def _(
    info: Any, in_dims: tuple[int | None, ...], x: Tensor, random: Tensor, rate: Tensor
) -> tuple[Tensor, int]:
    x, random, rate = (
        members_first(value, dim, info.batch_size)
        for value, dim in zip((x, random, rate), in_dims, strict=True)
    )
    if rate.dim() > 1:
        raise NotImplementedError("dropout: members within members")
    return _dropped(x, random, rate), 0
