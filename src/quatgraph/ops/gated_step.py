r"""One step of a gated graph network, of vectors :math:`h` and the sums :math:`a` over neighbours:

.. math::
    z = \sigma(W_z a + U_z h + b_z), \quad r = \sigma(W_r a + U_r h + b_r), \quad
    c = g\big(W_c a + U_c (r \odot h) + b_c\big), \quad h' = (1 - z) \odot h + z \odot c

With :math:`\delta` for the gradient at :math:`h'`, the gradients at the inputs of the three
functions are

.. math::
    \delta_c = \delta \odot z \odot g', \qquad
    \delta_z = \delta \odot (c - h) \odot z \odot (1 - z), \qquad
    \delta_r = (U_c^\top \delta_c) \odot h \odot r \odot (1 - r)

and the gradient at :math:`h` is :math:`\delta \odot (1 - z) + (U_c^\top \delta_c) \odot r +
U_z^\top \delta_z + U_r^\top \delta_r`. Between the products every number is read and written once
or twice, on a GPU by four kernels; separate torch operations would pass over all vectors some
thirty times, and save most of their results.
"""

from typing import Any, cast

import torch
from torch import Tensor

from quatgraph.ops.activation import ACTIVATION_GRADS, ACTIVATIONS, Activation
from quatgraph.ops.backend import KERNEL_TYPES, use_triton
from quatgraph.ops.members import MemberFunction
from quatgraph.ops.rounded_linear import column_major
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
    """Updates vectors by the sums over their neighbours.

    Shape:
        - h, sums: ``(N, width)``
        - of_sum: the matrices W of z, r and c, stacked, ``(3 width, width)``
        - of_own: the matrices U of z and r, ``(2 width, width)``
        - of_reset: the matrix U of c, ``(width, width)``
        - bias: of z, r and c, ``(3 width,)``
        - output: ``(N, width)``
        - of several members each with a leading ``M``; without members h and sums may have more
          dimensions
    """
    if h.dim() > 2 and of_sum.dim() == 2:  # the leading dimensions are rows
        rows = gated_step(
            h.flatten(0, -2), sums.flatten(0, -2), of_sum, of_own, of_reset, bias, activation
        )
        return rows.view_as(h)
    # Autocast must not change the type between the products.
    with torch.autocast(h.device.type, enabled=False):
        h, sums = h.to(of_sum.dtype), sums.to(of_sum.dtype)
        updated, *_ = _GatedStep.apply(h, sums, of_sum, of_own, of_reset, bias, activation)
    return updated


class _GatedStep(MemberFunction):
    """Not a library operation: it would have to be split at its products."""

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
        if h.dim() > 3:
            raise NotImplementedError("gated_step does not support nested vmap")
        preact = sums @ of_sum.mT
        if bias is not None:
            preact += bias.unsqueeze(-2)
        h, gates = h.contiguous(), h @ of_own.mT
        form = _choose_form(h)
        reset_h = form.open_gates_(gates, preact, h)
        candidate = reset_h @ of_reset.mT
        return form.update_(candidate, preact, gates, h, activation), gates, reset_h, candidate

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        *tensors, bias, ctx.activation = inputs
        ctx.biased = bias is not None
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(*tensors, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        h, sums, of_sum, of_own, of_reset, gates, reset_h, candidate = ctx.saved_tensors
        form, h, grad = _choose_form(h), h.contiguous(), grad.contiguous()
        grad_preact, grad_h = form.update_backward(grad, candidate, gates, h, ctx.activation)
        grad_candidate = grad_preact[..., 2 * h.size(-1) :]
        form.open_gates_backward_(
            grad_preact, grad_h, grad_candidate @ column_major(of_reset), gates, h
        )
        grad_gates = grad_preact[..., : 2 * h.size(-1)]
        (grad_h.baddbmm_ if h.dim() == 3 else grad_h.addmm_)(grad_gates, column_major(of_own))
        return (
            grad_h,
            grad_preact @ column_major(of_sum),
            grad_preact.mT @ sums,
            grad_gates.mT @ h,
            grad_candidate.mT @ reset_h,
            grad_preact.sum(dim=-2) if ctx.biased else None,
            None,
        )


class _TorchForm:
    """The steps between the products. ``preact`` ``(..., 3 width)`` holds the terms of a in the
    pre-activations of z, r and c; ``gates`` ``(..., 2 width)`` holds z and r."""

    @staticmethod
    def open_gates_(gates: Tensor, preact: Tensor, h: Tensor) -> Tensor:
        """Turns the products of h into z and r in place; returns r times h."""
        gates += preact[..., : gates.size(-1)]
        reset = gates.sigmoid_()[..., h.size(-1) :]
        return reset * h

    @staticmethod
    def update_(
        candidate: Tensor, preact: Tensor, gates: Tensor, h: Tensor, activation: Activation
    ) -> Tensor:
        """Turns the product of ``reset_h`` into the candidate in place; returns the new vectors."""
        width = h.size(-1)
        candidate += preact[..., 2 * width :]
        candidate.copy_(ACTIVATIONS[activation](candidate))
        return torch.lerp(h, candidate, gates[..., :width])

    @staticmethod
    def update_backward(
        grad: Tensor, candidate: Tensor, gates: Tensor, h: Tensor, activation: Activation
    ) -> tuple[Tensor, Tensor]:
        """The gradient at ``preact`` except that of r, and the direct gradient at h."""
        width = h.size(-1)
        update = gates[..., :width]
        grad_preact = grad.new_empty(*h.shape[:-1], 3 * width)
        share = grad * update
        grad_preact[..., 2 * width :] = share * ACTIVATION_GRADS[activation](candidate)
        grad_h = grad - share
        grad_preact[..., :width] = (share * (candidate - h)).mul_(1 - update)
        return grad_preact, grad_h

    @staticmethod
    def open_gates_backward_(
        grad_preact: Tensor, grad_h: Tensor, grad_reset_h: Tensor, gates: Tensor, h: Tensor
    ) -> None:
        """Writes the gradient at the pre-activation of r, and adds to that at h."""
        width = h.size(-1)
        reset = gates[..., width:]
        grad_reset_h = grad_reset_h.mul_(reset)
        grad_h += grad_reset_h
        grad_preact[..., width : 2 * width] = grad_reset_h.mul_(h).mul_(1 - reset)


def _choose_form(h: Tensor) -> type[_TorchForm]:
    """The kernels, which have the same functions, if they support ``h``."""
    if not h.numel() or h.dtype not in KERNEL_TYPES or not use_triton(h):
        return _TorchForm
    from quatgraph.ops.kernels import gated_step as kernels

    return cast(type[_TorchForm], kernels)
