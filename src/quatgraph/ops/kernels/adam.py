"""A step of Adam for the stacked numbers of all members, each with settings of its own."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024


@triton.jit
def _adam_kernel(
    param, grad, mean, square, steps, lr, weight_decay, norm, size, clip,
    BETA1: tl.constexpr, BETA2: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr,
    EPS: tl.constexpr, CLIPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    at += member * size
    # In float64, or the first steps' corrections would lose half their digits.
    step = tl.load(steps).to(tl.float64)
    first = (1.0 - tl.exp2(step * LOG1)).to(param.dtype.element_ty)
    second = (1.0 - tl.exp2(step * LOG2)).to(param.dtype.element_ty)
    p = tl.load(param + at, mask=inside, other=0.0)
    g = tl.load(grad + at, mask=inside, other=0.0)
    if CLIPS:
        g *= tl.minimum(clip / (tl.load(norm + member) + 1e-6), 1.0)
    g += tl.load(weight_decay + member) * p
    m = tl.load(mean + at, mask=inside, other=0.0)
    m += (1.0 - BETA1) * (g - m)
    v = tl.load(square + at, mask=inside, other=0.0)
    v = BETA2 * v + (1.0 - BETA2) * g * g
    p -= tl.load(lr + member) / first * m / (tl.sqrt(v / second) + EPS)
    tl.store(param + at, p, mask=inside)
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, v, mask=inside)


def adam_step_(
    param: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    *,
    steps: Tensor,
    lr: Tensor,
    weight_decay: Tensor,
    norm: Tensor | None,
    clip: float | None,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Moves ``param``, ``mean`` and ``square``, each ``(M, ...)`` and contiguous, one step on.

    Args:
        steps: Steps done, this one included, ``()`` float32.
        lr, weight_decay: ``(M,)``
        norm: That of each member's gradient, ``(M,)``, where it is clipped.
    """
    members, size = param.size(0), param.numel() // max(1, param.size(0))
    if size == 0:
        return
    with torch.cuda.device(param.device):
        _adam_kernel[(triton.cdiv(size, _BLOCK), members)](
            param, grad.contiguous(), mean, square, steps, lr, weight_decay,
            lr if norm is None else norm, size, clip or 0.0,
            BETA1=betas[0], BETA2=betas[1], LOG1=math.log2(betas[0]), LOG2=math.log2(betas[1]),
            EPS=eps, CLIPS=norm is not None, BLOCK=_BLOCK,
        )  # fmt: skip
