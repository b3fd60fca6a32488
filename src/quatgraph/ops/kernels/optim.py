"""Steps of Adam and Adagrad for the stacked parameters of all members, each with its own
hyperparameters.

For a member's gradient norm one kernel writes partial sums of squares, as many as depend on the
member's size only. Each program of the step adds up all of them, in one order.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 1024
_BLOCK_SUM, _SUMS = 2048, 512
"""Elements that a program squares at once; the most partial sums per gradient."""


@triton.jit
def _squares_kernel(grad, out, size, sums, first_sum, BLOCK: tl.constexpr):
    member = tl.program_id(1).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=grad.dtype.element_ty)
    start = tl.program_id(0).to(tl.int64) * BLOCK
    step = tl.num_programs(0).to(tl.int64) * BLOCK
    for first in range(start, size, step):
        at = first + tl.arange(0, BLOCK)
        value = tl.load(grad + member * size + at, mask=at < size, other=0.0)
        total += value * value
    tl.store(out + member * sums + first_sum + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def _whole_grad(
    p, grad, at, inside, member, weight_decay, squares, sums, clip,
    EACH: tl.constexpr, CLIPS: tl.constexpr, BLOCK_SUMS: tl.constexpr,
):  # fmt: skip
    """The gradient, clipped, with that of the L2 penalty, whose factor is one per member or one
    for EACH number."""
    g = tl.load(grad + at, mask=inside, other=0.0)
    if CLIPS:
        each = tl.arange(0, BLOCK_SUMS)
        part = tl.load(squares + member * sums + each, mask=each < sums, other=0.0)
        g *= tl.minimum(clip / (tl.sqrt(tl.sum(part, axis=0)) + 1e-6), 1.0)
    if EACH:
        return g + tl.load(weight_decay + at, mask=inside, other=0.0).to(p.dtype) * p
    return g + tl.load(weight_decay + member).to(p.dtype) * p


@triton.jit
def _adam_kernel(
    param, grad, mean, square, steps, lr, weight_decay, squares, sums, size, clip,
    BETA1: tl.constexpr, BETA2: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr,
    EPS: tl.constexpr, EACH: tl.constexpr, CLIPS: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_SUMS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    at += member * size
    # In float32 the bias corrections of the first steps would lose half their digits.
    step = tl.load(steps).to(tl.float64)
    first = (1.0 - tl.exp2(step * LOG1)).to(param.dtype.element_ty)
    second = (1.0 - tl.exp2(step * LOG2)).to(param.dtype.element_ty)
    p = tl.load(param + at, mask=inside, other=0.0)
    g = _whole_grad(
        p, grad, at, inside, member, weight_decay, squares, sums, clip, EACH, CLIPS, BLOCK_SUMS
    )
    m = tl.load(mean + at, mask=inside, other=0.0)
    m += (1.0 - BETA1) * (g - m)
    v = tl.load(square + at, mask=inside, other=0.0)
    v = BETA2 * v + (1.0 - BETA2) * g * g
    p -= tl.load(lr + member).to(p.dtype) / first * m / (tl.sqrt(v / second) + EPS)
    tl.store(param + at, p, mask=inside)
    tl.store(mean + at, m, mask=inside)
    tl.store(square + at, v, mask=inside)


@triton.jit
def _adagrad_kernel(
    param, grad, square, lr, weight_decay, squares, sums, size, clip,
    EPS: tl.constexpr, EACH: tl.constexpr, CLIPS: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_SUMS: tl.constexpr,
):  # fmt: skip
    member = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    at += member * size
    p = tl.load(param + at, mask=inside, other=0.0)
    g = _whole_grad(
        p, grad, at, inside, member, weight_decay, squares, sums, clip, EACH, CLIPS, BLOCK_SUMS
    )
    v = tl.load(square + at, mask=inside, other=0.0) + g * g
    p -= tl.load(lr + member).to(p.dtype) * g / (tl.sqrt(v) + EPS)
    tl.store(param + at, p, mask=inside)
    tl.store(square + at, v, mask=inside)


def square_sums(grads: Sequence[Tensor]) -> Tensor:
    """Partial sums of the squares of gradients ``(M, ...)``, ``(M, sums)``."""
    members = len(grads[0])
    sizes = [grad.numel() // max(1, members) for grad in grads]
    programs = [min(_SUMS, triton.cdiv(size, _BLOCK_SUM)) for size in sizes]
    out = grads[0].new_empty(members, sum(programs))
    with torch.cuda.device(out.device):
        for i, (grad, size, count) in enumerate(zip(grads, sizes, programs, strict=True)):
            if size:
                _squares_kernel[(count, members)](
                    grad.contiguous(), out, size, out.size(1), sum(programs[:i]), BLOCK=_BLOCK_SUM
                )
    return out


def adam_step_(
    param: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    *,
    steps: Tensor,
    lr: Tensor,
    weight_decay: Tensor,
    squares: Tensor | None,
    clip: float | None,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Updates ``param``, ``mean`` and ``square`` in place, each ``(M, ...)`` and contiguous.

    Args:
        steps: Number of steps, including this one, ``()`` float32.
        lr: ``(M,)``, in any type of float.
        weight_decay: ``(M,)``, or for each number the shape of ``param``.
        squares: The result of :func:`square_sums`, to clip the norm of a member's gradient.
    """
    members, size = param.size(0), param.numel() // max(1, param.size(0))
    if size == 0:
        return
    sums = 0 if squares is None else squares.size(1)
    with torch.cuda.device(param.device):
        _adam_kernel[(triton.cdiv(size, _BLOCK), members)](
            param, grad.contiguous(), mean, square, steps, lr, weight_decay,
            lr if squares is None else squares, sums, size, clip or 0.0,
            BETA1=betas[0], BETA2=betas[1], LOG1=math.log2(betas[0]), LOG2=math.log2(betas[1]),
            EPS=eps, EACH=weight_decay.dim() > 1, CLIPS=squares is not None, BLOCK=_BLOCK,
            BLOCK_SUMS=triton.next_power_of_2(sums),
        )  # fmt: skip


def adagrad_step_(
    param: Tensor,
    grad: Tensor,
    square: Tensor,
    *,
    lr: Tensor,
    weight_decay: Tensor,
    squares: Tensor | None,
    clip: float | None,
    eps: float,
) -> None:
    """Updates ``param`` and ``square`` in place; the arguments are those of :func:`adam_step_`."""
    members, size = param.size(0), param.numel() // max(1, param.size(0))
    if size == 0:
        return
    sums = 0 if squares is None else squares.size(1)
    with torch.cuda.device(param.device):
        _adagrad_kernel[(triton.cdiv(size, _BLOCK), members)](
            param, grad.contiguous(), square, lr, weight_decay,
            lr if squares is None else squares, sums, size, clip or 0.0,
            EPS=eps, EACH=weight_decay.dim() > 1, CLIPS=squares is not None, BLOCK=_BLOCK,
            BLOCK_SUMS=triton.next_power_of_2(sums),
        )  # fmt: skip
