r"""Cross-entropy with softened targets :math:`t_c`, :math:`1 - \epsilon` for the label and
:math:`\epsilon / (C - 1)` for each of the other classes:

.. math::
    \ell = -\sum_c t_c \log p_c, \qquad p = \mathrm{softmax}(\mathbf{z}), \qquad
    \nabla z_c = \bar\ell \, (p_c - t_c)

On a GPU one kernel gives the losses and the slopes :math:`p - t`, and the gradient is a product.
"""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.backend import use_triton
from quatgraph.ops.transforms import once_differentiable

_MOST = 1024  # classes that one program takes


def smoothed_cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The loss of each row, in float32 at least.

    Shape:
        - logits: ``(..., C)``
        - labels: whole numbers below C, ``(...)``
        - output: ``(...)``
    """
    smoothing = smoothing if logits.size(-1) > 1 else 0.0  # one class has it all
    others = smoothing / max(1, logits.size(-1) - 1)
    own = 1 - smoothing - others  # what the label has more
    if logits.size(-1) <= _MOST and use_triton(logits):
        return _CrossEntropy.apply(logits, labels, own, others)
    log_p = logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    label = log_p.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return -own * label - others * log_p.sum(dim=-1) if smoothing else -label


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, own: float, others: float) -> Tensor:
        from quatgraph.ops.kernels.cross_entropy import losses_and_slopes

        losses, slopes = losses_and_slopes(logits, labels, own, others)
        ctx.save_for_backward(slopes)
        ctx.dtype = logits.dtype
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return (grads[0].unsqueeze(-1) * slopes).to(ctx.dtype), None, None, None
