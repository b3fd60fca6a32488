r"""One step of a gated graph network, of vectors :math:`h` and the sums :math:`a` over neighbours:

.. math::
    z = \sigma(W_z a + U_z h + b_z), \quad r = \sigma(W_r a + U_r h + b_r), \quad
    c = g\big(W_c a + U_c (r \odot h) + b_c\big), \quad h' = (1 - z) \odot h + z \odot c

With :math:`\delta` for the gradient at :math:`h'`, those at what the three functions are given are

.. math::
    \delta_c = \delta \odot z \odot g', \qquad
    \delta_z = \delta \odot (c - h) \odot z \odot (1 - z), \qquad
    \delta_r = (U_c^\top \delta_c) \odot h \odot r \odot (1 - r)

and the gradient at :math:`h` is :math:`\delta \odot (1 - z) + (U_c^\top \delta_c) \odot r +
U_z^\top \delta_z + U_r^\top \delta_r`. Between the products every number is read and written once
or twice, on a GPU by four kernels, where torch's operations one by one would go over all vectors
some thirty times, and keep most of what they make.
"""

from typing import Any, cast

import torch
from torch import Tensor

from quatgraph.ops.activation import ACTIVATIONS, SLOPES, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import batch_first
from quatgraph.ops.rounded_linear import by_columns
from quatgraph.ops.transforms import once_differentiable


def gated_step(
    h: Tensor,
    sums: Tensor,
    of_sum: Tensor,
    of_own: Tensor,
    of_reset: Tensor,
    bias: Tensor | None = None,
    activation: Activation = "relu",
) -> Tensor:
    """Renews vectors by what their neighbours add up to.

    Shape:
        - h, sums: ``(N, width)``
        - of_sum: the matrices W of z, r and c, one below the other, ``(3 width, width)``
        - of_own: the matrices U of z and r, ``(2 width, width)``
        - of_reset: the matrix U of c, ``(width, width)``
        - bias: of z, r and c, ``(3 width,)``
        - output: ``(N, width)``
        - of several members each with a leading ``M``; h and sums alone may have more dimensions
    """
    if h.dim() > 2 and of_sum.dim() == 2:  # rows of one kind, however they are laid out
        rows = gated_step(
            h.flatten(0, -2), sums.flatten(0, -2), of_sum, of_own, of_reset, bias, activation
        )
        return rows.view_as(h)
    if h.dim() > 3:
        raise NotImplementedError("gated_step does not support nested vmap")
    # Under autocast too, what is between the products stays in the type of the weights.
    with torch.autocast(h.device.type, enabled=False):
        h, sums = h.to(of_sum.dtype), sums.to(of_sum.dtype)
        renewed, *_ = _GatedStep.apply(h, sums, of_sum, of_own, of_reset, bias, activation)
    return renewed


class _GatedStep(torch.autograd.Function):
    """Not an operation of torch's library: between its products it would be several."""

    @staticmethod
    def forward(
        h: Tensor,
        sums: Tensor,
        of_sum: Tensor,
        of_own: Tensor,
        of_reset: Tensor,
        bias: Tensor | None,
        activation: Activation,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        given = sums @ of_sum.mT
        if bias is not None:
            given += bias.unsqueeze(-2)
        h, gates = h.contiguous(), h @ of_own.mT
        parts = _kernels(h) or _Torch
        turned = parts.open_(gates, given, h)
        candidate = turned @ of_reset.mT
        return parts.renewed_(candidate, given, gates, h, activation), gates, turned, candidate

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, bias, ctx.activation = inputs
        ctx.biased = bias is not None
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        h, sums, of_sum, of_own, of_reset, gates, turned, candidate = ctx.saved_tensors
        parts, h, grad = _kernels(h) or _Torch, h.contiguous(), grad.contiguous()
        by_given, by_h = parts.before_renewal(grad, candidate, gates, h, ctx.activation)
        by_candidate = by_given[..., 2 * h.size(-1) :]
        parts.before_opening_(by_given, by_h, by_candidate @ by_columns(of_reset), gates, h)
        by_gates = by_given[..., : 2 * h.size(-1)]
        (by_h.baddbmm_ if h.dim() == 3 else by_h.addmm_)(by_gates, by_columns(of_own))
        return (
            by_h,
            by_given @ by_columns(of_sum),
            by_given.mT @ sums,
            by_gates.mT @ h,
            by_candidate.mT @ turned,
            by_given.sum(dim=-2) if ctx.biased else None,
            None,
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], *inputs: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        *tensors, activation = inputs
        if tensors[0].dim() != 2 + (in_dims[0] is not None):
            raise NotImplementedError("gated_step does not support nested vmap")
        tensors = batch_first(info.batch_size, in_dims, tensors)
        return _GatedStep.apply(*tensors, activation), (0, 0, 0, 0)


class _Torch:
    """What is between the products. ``given`` is ``(..., 3 width)``: of z, of r, of the candidate;
    ``gates`` is ``(..., 2 width)``: z and r."""

    @staticmethod
    def open_(gates: Tensor, given: Tensor, h: Tensor) -> Tensor:
        """Makes z and r of the products of h; returns the vectors times r."""
        gates += given[..., : gates.size(-1)]
        reset = gates.sigmoid_()[..., h.size(-1) :]
        return reset * h

    @staticmethod
    def renewed_(
        candidate: Tensor, given: Tensor, gates: Tensor, h: Tensor, activation: Activation
    ) -> Tensor:
        """Makes the candidate of a product; returns the vectors after the step."""
        width = h.size(-1)
        candidate += given[..., 2 * width :]
        candidate.copy_(ACTIVATIONS[activation](candidate))
        return torch.lerp(h, candidate, gates[..., :width])

    @staticmethod
    def before_renewal(
        grad: Tensor, candidate: Tensor, gates: Tensor, h: Tensor, activation: Activation
    ) -> tuple[Tensor, Tensor]:
        """The gradient at ``given``, but that of r; and at h, as far as it is h that stays."""
        width = h.size(-1)
        update = gates[..., :width]
        by_given = grad.new_empty(*h.shape[:-1], 3 * width)
        share = grad * update
        by_given[..., 2 * width :] = share * SLOPES[activation](candidate)
        by_h = grad - share
        by_given[..., :width] = (share * (candidate - h)).mul_(1 - update)
        return by_given, by_h

    @staticmethod
    def before_opening_(
        by_given: Tensor, by_h: Tensor, by_turned: Tensor, gates: Tensor, h: Tensor
    ) -> None:
        """The gradient at what r was given; adds to that at h."""
        width = h.size(-1)
        reset = gates[..., width:]
        by_turned = by_turned.mul_(reset)
        by_h += by_turned
        by_given[..., width : 2 * width] = by_turned.mul_(h).mul_(1 - reset)


def _kernels(h: Tensor) -> type[_Torch] | None:
    """The same on a GPU; None where that cannot be."""
    if not h.numel() or h.dtype not in KERNEL_TYPES or not use_triton(h):
        return None
    from quatgraph.ops.kernels import gated_step as kernels

    return cast(type[_Torch], kernels)
