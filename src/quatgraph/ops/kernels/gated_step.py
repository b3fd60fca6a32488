"""What is between the products of a gated step: a program has some numbers of all vectors."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activated, before

_BLOCK = 1024


@triton.jit
def _places(size, width, BLOCK: tl.constexpr):
    """Of a program's numbers: which there are, their place in h, row and column."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = at // width
    return at < size, at, row, at - row * width


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _open_kernel(gates, given, h, turned, size, width, BLOCK: tl.constexpr):
    inside, at, row, column = _places(size, width, BLOCK)
    own, sums = row * 2 * width + column, row * 3 * width + column
    update = tl.load(gates + own, mask=inside) + tl.load(given + sums, mask=inside)
    reset = tl.load(gates + own + width, mask=inside) + tl.load(given + sums + width, mask=inside)
    reset = _sigmoid(reset)
    tl.store(gates + own, _sigmoid(update), mask=inside)
    tl.store(gates + own + width, reset, mask=inside)
    tl.store(turned + at, reset * tl.load(h + at, mask=inside), mask=inside)


@triton.jit
def _renewed_kernel(
    candidate, given, gates, h, out, size, width, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    inside, at, row, column = _places(size, width, BLOCK)
    value = tl.load(candidate + at, mask=inside)
    value += tl.load(given + row * 3 * width + 2 * width + column, mask=inside)
    value = activated(value, ACTIVATION)
    update = tl.load(gates + row * 2 * width + column, mask=inside)
    own = tl.load(h + at, mask=inside)
    tl.store(candidate + at, value, mask=inside)
    tl.store(out + at, own + update * (value - own), mask=inside)


@triton.jit
def _before_renewal_kernel(
    grad, candidate, gates, h, by_given, by_h, size, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    inside, at, row, column = _places(size, width, BLOCK)
    slope, value = tl.load(grad + at, mask=inside), tl.load(candidate + at, mask=inside)
    update = tl.load(gates + row * 2 * width + column, mask=inside)
    share = slope * update
    tl.store(by_h + at, slope - share, mask=inside)
    by_update = (value - tl.load(h + at, mask=inside)) * share * (1 - update)
    first = by_given + row * 3 * width + column
    tl.store(first, by_update, mask=inside)
    tl.store(first + 2 * width, before(share, value, ACTIVATION), mask=inside)


@triton.jit
def _before_opening_kernel(by_given, by_h, by_turned, gates, h, size, width, BLOCK: tl.constexpr):
    inside, at, row, column = _places(size, width, BLOCK)
    reset = tl.load(gates + row * 2 * width + width + column, mask=inside)
    share = tl.load(by_turned + at, mask=inside) * reset
    tl.store(by_h + at, tl.load(by_h + at, mask=inside) + share, mask=inside)
    by_reset = share * tl.load(h + at, mask=inside) * (1 - reset)
    tl.store(by_given + row * 3 * width + width + column, by_reset, mask=inside)


def open_(gates: Tensor, given: Tensor, h: Tensor) -> Tensor:
    turned = torch.empty_like(h)
    with torch.cuda.device(h.device):
        _open_kernel[_grid(h)](gates, given, h, turned, h.numel(), h.size(-1), BLOCK=_BLOCK)
    return turned


def renewed_(
    candidate: Tensor, given: Tensor, gates: Tensor, h: Tensor, activation: Activation
) -> Tensor:
    out, code = torch.empty_like(h), CODES[activation]
    with torch.cuda.device(h.device):
        _renewed_kernel[_grid(h)](
            candidate, given, gates, h, out, h.numel(), h.size(-1), ACTIVATION=code, BLOCK=_BLOCK
        )
    return out


def before_renewal(
    grad: Tensor, candidate: Tensor, gates: Tensor, h: Tensor, activation: Activation
) -> tuple[Tensor, Tensor]:
    by_given, by_h = h.new_empty(*h.shape[:-1], 3 * h.size(-1)), torch.empty_like(h)
    code = CODES[activation]
    with torch.cuda.device(h.device):
        _before_renewal_kernel[_grid(h)](
            grad, candidate, gates, h, by_given, by_h, h.numel(), h.size(-1),
            ACTIVATION=code, BLOCK=_BLOCK,
        )  # fmt: skip
    return by_given, by_h


def before_opening_(
    by_given: Tensor, by_h: Tensor, by_turned: Tensor, gates: Tensor, h: Tensor
) -> None:
    with torch.cuda.device(h.device):
        _before_opening_kernel[_grid(h)](
            by_given, by_h, by_turned, gates, h, h.numel(), h.size(-1), BLOCK=_BLOCK
        )


def _grid(h: Tensor) -> tuple[int]:
    return (triton.cdiv(h.numel(), _BLOCK),)
