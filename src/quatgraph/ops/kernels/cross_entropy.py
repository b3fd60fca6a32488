"""Cross-entropy of rows of logits: a program holds a few whole rows."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.kernels.aggregate import _wide, _wide_dtype

_TILE = 256
"""Logits per program, unless one row has more."""


@triton.jit
def _cross_entropy_kernel(
    logits, labels, losses, grads, rows, classes,
    OWN: tl.constexpr, OTHERS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_C)
    inside = row < rows
    valid = inside[:, None] & (column < classes)[None, :]
    at = row[:, None] * classes + column[None, :]
    z = tl.load(logits + at, mask=valid, other=-float("inf")).to(WIDE)
    label = tl.load(labels + row, mask=inside, other=0)
    z -= tl.max(z, axis=1)[:, None]
    e = tl.exp(z)
    total = tl.sum(e, axis=1)
    target = OTHERS + OWN * (column[None, :] == label[:, None]).to(WIDE)
    # A target of 0 adds nothing, even if its logarithm is infinite.
    terms = tl.where(valid & (target > 0.0), target * (z - tl.log(total)[:, None]), 0.0)
    tl.store(losses + row, -tl.sum(terms, axis=1), mask=inside)
    tl.store(grads + at, e / total[:, None] - target, mask=valid)


def losses_and_grads(
    logits: Tensor, labels: Tensor, own: float, others: float
) -> tuple[Tensor, Tensor]:
    """``(..., C), (...) -> (...), (..., C)``, at least in float32; the targets are ``others``, plus
    ``own`` for the label. See :mod:`quatgraph.ops.cross_entropy`."""
    logits, labels, classes = logits.contiguous(), labels.contiguous(), logits.size(-1)
    losses = logits.new_empty(logits.shape[:-1], dtype=_wide_dtype(logits))
    grads = torch.empty_like(logits, dtype=losses.dtype)
    if grads.numel():
        block = triton.next_power_of_2(classes)
        step = max(1, _TILE // block)
        with torch.cuda.device(logits.device):
            _cross_entropy_kernel[(triton.cdiv(losses.numel(), step),)](
                logits, labels, losses, grads, losses.numel(), classes,
                OWN=own, OTHERS=others, WIDE=_wide(logits), BLOCK_R=step, BLOCK_C=block,
            )  # fmt: skip
    return losses, grads
