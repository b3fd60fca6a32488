"""Activations within kernels."""

import triton
import triton.language as tl

from quatgraph.ops.activation import Activation

CODES: dict[Activation, int] = {"none": 0, "relu": 1, "tanh": 2, "elu": 3}


@triton.jit
def activated(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == 1:
        x = tl.where(x < 0, 0.0, x)  # NaN stays
    if ACTIVATION == 2:
        x = 2 / (1 + tl.exp(-2 * x)) - 1
    if ACTIVATION == 3:
        x = tl.where(x < 0, tl.exp(tl.minimum(x, 0.0)) - 1, x)
    return x


@triton.jit
def before(grad, value, ACTIVATION: tl.constexpr):
    """The gradient at x, of that at the value of x."""
    if ACTIVATION == 1:
        grad = tl.where(value > 0, grad, 0.0)
    if ACTIVATION == 2:
        grad *= 1 - value * value
    if ACTIVATION == 3:
        grad *= tl.minimum(value, 0.0) + 1
    return grad
