r"""Cross-entropy with softened targets :math:`t_c`, :math:`1 - \epsilon` for the label and
:math:`\epsilon / (C - 1)` for each of the other classes:

.. math::
    \ell = -\sum_c t_c \log p_c, \qquad p = \mathrm{softmax}(\mathbf{z}), \qquad
    \nabla z_c = \bar\ell \, (p_c - t_c)

On a GPU one kernel computes the losses and :math:`p - t`; the backward pass only scales the latter.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import once_differentiable

_MAX_CLASSES = 1024  # of one kernel program


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of each row, at least in float32.

    Shape:
        - logits: ``(..., C)``
        - labels: class indices, ``(...)``
        - output: ``(...)``
    """
    if logits.size(-1) <= _MAX_CLASSES and use_triton(logits):
        return _CrossEntropy.apply(logits, labels, *_soften(logits.size(-1), smoothing))
    log_p = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    return smoothed_loss(-log_p, labels, smoothing)


def smoothed_loss(losses: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of each row with softened targets, from what it is for each class.

    Shape:
        - losses: ``(..., C)``
        - labels: class indices, ``(...)``
        - output: ``(...)``
    """
    own, others = _soften(losses.size(-1), smoothing)
    label = losses.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return own * label + others * losses.sum(dim=-1) if others else label


def _soften(num_classes: int, smoothing: float) -> tuple[float, float]:
    """The extra weight of the label, and the weight of every class."""
    if num_classes == 1:  # a single class has the whole target
        return 1.0, 0.0
    others = smoothing / (num_classes - 1)
    return 1 - smoothing - others, others


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, own: float, others: float) -> Tensor:
        from quatgraph.ops.kernels.cross_entropy import losses_and_grads

        losses, grads = losses_and_grads(logits, labels, own, others)
        ctx.save_for_backward(grads)
        ctx.dtype = logits.dtype
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (grads,) = ctx.saved_tensors
        return (grad.unsqueeze(-1) * grads).to(ctx.dtype), None, None, None
