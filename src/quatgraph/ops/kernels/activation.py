"""Activations for use in kernels."""

import triton
import triton.language as tl

from quatgraph.ops.activation import Activation

CODES: dict[Activation, int] = {"none": 0, "relu": 1, "tanh": 2, "elu": 3}


@triton.jit
def _tanh(x):
    # Near 0 the difference of exponentials cancels.
    s = x * x
    series = 1 - s * (1 / 3 - s * (2 / 15 - s * (17 / 315 - s * (62 / 2835))))
    return tl.where(tl.abs(x) < 0.1, x * series, 2 / (1 + tl.exp(-2 * x)) - 1)


@triton.jit
def _expm1(x):
    """``exp(x) - 1`` of negative x."""
    series = 1 + x * (1 / 4 + x * (1 / 20 + x * (1 / 120 + x * (1 / 840))))
    series = 1 + x * (1 / 2 + x * (1 / 6) * series)
    return tl.where(x > -0.1, x * series, tl.exp(x) - 1)


@triton.jit
def activate(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == 1:
        x = tl.where(x < 0, 0.0, x)  # NaN stays
    if ACTIVATION == 2:
        x = _tanh(x)
    if ACTIVATION == 3:
        x = tl.where(x < 0, _expm1(tl.minimum(x, 0.0)), x)
    return x


@triton.jit
def activation_grad(grad, value, ACTIVATION: tl.constexpr):
    """The gradient at the input, from that at the output ``value``."""
    if ACTIVATION == 1:
        grad = tl.where(value > 0, grad, 0.0)
    if ACTIVATION == 2:
        grad *= 1 - value * value
    if ACTIVATION == 3:
        grad *= tl.minimum(value, 0.0) + 1
    return grad
