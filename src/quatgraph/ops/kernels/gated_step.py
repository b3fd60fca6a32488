"""The steps between the products of a gated step: a program holds a block of elements."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activate, activation_grad

_BLOCK = 1024


@triton.jit
def _places(size, width, BLOCK: tl.constexpr):
    """The mask, position in h, row and column of a program's elements."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // width
    return at < size, at, row, at - row * width


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _open_gates_kernel(gates, preact, h, reset_h, size, width, BLOCK: tl.constexpr):
    inside, at, row, column = _places(size, width, BLOCK)
    own, sums = row * 2 * width + column, row * 3 * width + column
    update = tl.load(gates + own, mask=inside) + tl.load(preact + sums, mask=inside)
    reset = tl.load(gates + own + width, mask=inside) + tl.load(preact + sums + width, mask=inside)
    reset = _sigmoid(reset)
    tl.store(gates + own, _sigmoid(update), mask=inside)
    tl.store(gates + own + width, reset, mask=inside)
    tl.store(reset_h + at, reset * tl.load(h + at, mask=inside), mask=inside)


@triton.jit
def _update_kernel(
    candidate, preact, gates, h, out, size, width, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    inside, at, row, column = _places(size, width, BLOCK)
    value = tl.load(candidate + at, mask=inside)
    value += tl.load(preact + row * 3 * width + 2 * width + column, mask=inside)
    value = activate(value, ACTIVATION)
    update = tl.load(gates + row * 2 * width + column, mask=inside)
    own = tl.load(h + at, mask=inside)
    tl.store(candidate + at, value, mask=inside)
    tl.store(out + at, own + update * (value - own), mask=inside)


@triton.jit
def _update_backward_kernel(
    grad, candidate, gates, h, grad_preact, grad_h, size, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    inside, at, row, column = _places(size, width, BLOCK)
    grad_out, value = tl.load(grad + at, mask=inside), tl.load(candidate + at, mask=inside)
    update = tl.load(gates + row * 2 * width + column, mask=inside)
    share = grad_out * update
    tl.store(grad_h + at, grad_out - share, mask=inside)
    grad_update = (value - tl.load(h + at, mask=inside)) * share * (1 - update)
    first = grad_preact + row * 3 * width + column
    tl.store(first, grad_update, mask=inside)
    tl.store(first + 2 * width, activation_grad(share, value, ACTIVATION), mask=inside)


@triton.jit
def _open_gates_backward_kernel(
    grad_preact, grad_h, grad_reset_h, gates, h, size, width, BLOCK: tl.constexpr
):
    inside, at, row, column = _places(size, width, BLOCK)
    reset = tl.load(gates + row * 2 * width + width + column, mask=inside)
    share = tl.load(grad_reset_h + at, mask=inside) * reset
    tl.store(grad_h + at, tl.load(grad_h + at, mask=inside) + share, mask=inside)
    grad_reset = share * tl.load(h + at, mask=inside) * (1 - reset)
    tl.store(grad_preact + row * 3 * width + width + column, grad_reset, mask=inside)


def open_gates_(gates: Tensor, preact: Tensor, h: Tensor) -> Tensor:
    reset_h = torch.empty_like(h)
    with torch.cuda.device(h.device):
        _open_gates_kernel[_grid(h)](gates, preact, h, reset_h, h.numel(), h.size(-1), BLOCK=_BLOCK)
    return reset_h


def update_(
    candidate: Tensor, preact: Tensor, gates: Tensor, h: Tensor, activation: Activation
) -> Tensor:
    out, code = torch.empty_like(h), CODES[activation]
    with torch.cuda.device(h.device):
        _update_kernel[_grid(h)](
            candidate, preact, gates, h, out, h.numel(), h.size(-1), ACTIVATION=code, BLOCK=_BLOCK
        )
    return out


def update_backward(
    grad: Tensor, candidate: Tensor, gates: Tensor, h: Tensor, activation: Activation
) -> tuple[Tensor, Tensor]:
    grad_preact, grad_h = h.new_empty(*h.shape[:-1], 3 * h.size(-1)), torch.empty_like(h)
    code = CODES[activation]
    with torch.cuda.device(h.device):
        _update_backward_kernel[_grid(h)](
            grad, candidate, gates, h, grad_preact, grad_h, h.numel(), h.size(-1),
            ACTIVATION=code, BLOCK=_BLOCK,
        )  # fmt: skip
    return grad_preact, grad_h


def open_gates_backward_(
    grad_preact: Tensor, grad_h: Tensor, grad_reset_h: Tensor, gates: Tensor, h: Tensor
) -> None:
    with torch.cuda.device(h.device):
        _open_gates_backward_kernel[_grid(h)](
            grad_preact, grad_h, grad_reset_h, gates, h, h.numel(), h.size(-1), BLOCK=_BLOCK
        )


def _grid(h: Tensor) -> tuple[int]:
    return (triton.cdiv(h.numel(), _BLOCK),)
