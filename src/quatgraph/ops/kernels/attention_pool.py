"""Weighted pooling: a program holds all features of one graph and loops over its nodes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activate, activation_grad


@triton.jit
def _pool_kernel(
    x, weight, ptr, total, maximum, count, graphs, nodes, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    graph, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    inside = feature < width
    ptr += member * (graphs + 1) + graph
    first, last = tl.load(ptr), tl.load(ptr + 1)

    sums = tl.zeros((BLOCK,), dtype=x.dtype.element_ty)
    peak = tl.full((BLOCK,), float("-inf"), dtype=x.dtype.element_ty)
    ties = tl.zeros((BLOCK,), dtype=x.dtype.element_ty)
    for node in range(first, last):
        row = member * nodes + node
        value = tl.load(x + row * width + feature, mask=inside, other=0.0)
        value = tl.load(weight + row) * activate(value, ACTIVATION)
        sums += value
        higher = (value > peak) | (value != value)
        ties = tl.where(higher, 1.0, tl.where(value == peak, ties + 1, ties))
        peak = tl.where(higher, value, peak)
    peak = tl.where(first < last, peak, 0.0)

    at = (member * graphs + graph) * width + feature
    tl.store(total + at, sums, mask=inside)
    tl.store(maximum + at, peak, mask=inside)
    tl.store(count + at, ties, mask=inside)


@triton.jit
def _pool_backward_kernel(
    grad_total, grad_maximum, x, weight, ptr, maximum, grad_x, grad_weight, graphs, nodes, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    graph, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    inside = feature < width
    ptr += member * (graphs + 1) + graph
    at = (member * graphs + graph) * width + feature
    of_sum = tl.load(grad_total + at, mask=inside, other=0.0)
    of_peak = tl.load(grad_maximum + at, mask=inside, other=0.0)
    peak = tl.load(maximum + at, mask=inside, other=0.0)
    for node in range(tl.load(ptr), tl.load(ptr + 1)):
        row = member * nodes + node
        value = tl.load(x + row * width + feature, mask=inside, other=0.0)
        value, share = activate(value, ACTIVATION), tl.load(weight + row)
        grad = of_sum + tl.where(share * value == peak, of_peak, 0.0)
        tl.store(grad_weight + row, tl.sum(grad * value, axis=0))
        grad = activation_grad(grad * share, value, ACTIVATION)
        tl.store(grad_x + row * width + feature, grad, mask=inside)


def pool(
    x: Tensor, weight: Tensor, ptr: Tensor, activation: Activation
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum and maximum over the nodes of each graph, and how many nodes attain the maximum."""
    graphs, (nodes, width) = ptr.size(-1) - 1, x.shape[-2:]
    outputs = [x.new_empty(*x.shape[:-2], graphs, width) for _ in range(3)]
    if graphs:
        with torch.cuda.device(x.device):
            _pool_kernel[(graphs, x.numel() // (nodes * width))](
                x, weight, ptr, *outputs, graphs, nodes, width,
                ACTIVATION=CODES[activation], BLOCK=triton.next_power_of_2(width),
            )  # fmt: skip
    total, maximum, count = outputs
    return total, maximum, count


def pool_backward(
    grad_total: Tensor,
    grad_maximum: Tensor,
    x: Tensor,
    weight: Tensor,
    ptr: Tensor,
    maximum: Tensor,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """The gradients of x and of the weights, 0 for padding."""
    graphs, (nodes, width) = ptr.size(-1) - 1, x.shape[-2:]
    grad_x, grad_weight = torch.zeros_like(x), torch.zeros_like(weight)
    if graphs:
        with torch.cuda.device(x.device):
            _pool_backward_kernel[(graphs, x.numel() // (nodes * width))](
                grad_total.contiguous(), grad_maximum.contiguous(), x, weight, ptr, maximum,
                grad_x, grad_weight, graphs, nodes, width,
                ACTIVATION=CODES[activation], BLOCK=triton.next_power_of_2(width),
            )  # fmt: skip
    return grad_x, grad_weight
