"""Pooling with weights: a program has all features of one graph, and goes over its nodes."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from quatgraph.ops.activation import Activation
from quatgraph.ops.kernels.activation import CODES, activated, before


@triton.jit
def _pooled_kernel(
    x, weight, begins, total, largest, count, graphs, nodes, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    graph, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    inside = feature < width
    begins += member * (graphs + 1) + graph
    first, last = tl.load(begins), tl.load(begins + 1)

    added = tl.zeros((BLOCK,), dtype=x.dtype.element_ty)
    most = tl.full((BLOCK,), float("-inf"), dtype=x.dtype.element_ty)
    ties = tl.zeros((BLOCK,), dtype=x.dtype.element_ty)
    for node in range(first, last):
        row = member * nodes + node
        value = tl.load(x + row * width + feature, mask=inside, other=0.0)
        value = tl.load(weight + row) * activated(value, ACTIVATION)
        added += value
        more = (value > most) | (value != value)
        ties = tl.where(more, 1.0, tl.where(value == most, ties + 1, ties))
        most = tl.where(more, value, most)
    most = tl.where(first < last, most, 0.0)

    at = (member * graphs + graph) * width + feature
    tl.store(total + at, added, mask=inside)
    tl.store(largest + at, most, mask=inside)
    tl.store(count + at, ties, mask=inside)


@triton.jit
def _pooled_gradients_kernel(
    by_total, by_largest, x, weight, begins, largest, by_x, by_weight, graphs, nodes, width,
    ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    graph, member = tl.program_id(0), tl.program_id(1).to(tl.int64)
    feature = tl.arange(0, BLOCK)
    inside = feature < width
    begins += member * (graphs + 1) + graph
    at = (member * graphs + graph) * width + feature
    of_sum = tl.load(by_total + at, mask=inside, other=0.0)
    of_most = tl.load(by_largest + at, mask=inside, other=0.0)
    most = tl.load(largest + at, mask=inside, other=0.0)
    for node in range(tl.load(begins), tl.load(begins + 1)):
        row = member * nodes + node
        value = tl.load(x + row * width + feature, mask=inside, other=0.0)
        value, share = activated(value, ACTIVATION), tl.load(weight + row)
        slope = of_sum + tl.where(share * value == most, of_most, 0.0)
        tl.store(by_weight + row, tl.sum(slope * value, axis=0))
        slope = before(slope * share, value, ACTIVATION)
        tl.store(by_x + row * width + feature, slope, mask=inside)


def pooled(
    x: Tensor, weight: Tensor, begins: Tensor, activation: Activation
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum and maximum over the nodes of each graph, and how many nodes share it."""
    graphs, (nodes, width) = begins.size(-1) - 1, x.shape[-2:]
    found = [x.new_empty(*x.shape[:-2], graphs, width) for _ in range(3)]
    if graphs:
        with torch.cuda.device(x.device):
            _pooled_kernel[(graphs, x.numel() // (nodes * width))](
                x, weight, begins, *found, graphs, nodes, width,
                ACTIVATION=CODES[activation], BLOCK=triton.next_power_of_2(width),
            )  # fmt: skip
    total, largest, count = found
    return total, largest, count


def gradients(
    by_total: Tensor,
    by_largest: Tensor,
    x: Tensor,
    weight: Tensor,
    begins: Tensor,
    largest: Tensor,
    activation: Activation,
) -> tuple[Tensor, Tensor]:
    """At x and at the weights, 0 where nodes are padding."""
    graphs, (nodes, width) = begins.size(-1) - 1, x.shape[-2:]
    by_x, by_weight = torch.zeros_like(x), torch.zeros_like(weight)
    if graphs:
        with torch.cuda.device(x.device):
            _pooled_gradients_kernel[(graphs, x.numel() // (nodes * width))](
                by_total.contiguous(), by_largest.contiguous(), x, weight, begins, largest,
                by_x, by_weight, graphs, nodes, width,
                ACTIVATION=CODES[activation], BLOCK=triton.next_power_of_2(width),
            )  # fmt: skip
    return by_x, by_weight
