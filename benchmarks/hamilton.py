"""The product of a quaternion matrix and many vectors, beside a real product of the same width and
beside a form with half the multiplications."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.limits import OF_FLOAT32, reached
from benchmarks.measure import passes
from quatgraph.ops import hamilton_linear
from quatgraph.training.runtime import matmul_precision

SIZES = {"cpu": (2_048, (64, 256, 384, 1024)), "cuda": (262_144, (64, 256, 384, 1024))}
"""Vectors, and the reals of each."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    precisions = OF_FLOAT32[device.type]
    limits = reached(device, precisions)
    yield from limits.rows
    vectors, widths = SIZES[device.type]
    for width in widths:
        x = torch.randn(vectors, width, device=device, requires_grad=True)
        for precision in precisions:
            case = f"{vectors:,} vectors, {width} wide, {precision}"
            for variant, (run, weight, products) in _variants(width, device).items():
                with matmul_precision(precision):
                    for work, timed in passes(run, (x, weight), device, capture=True):
                        gb, gflop = counts(work, vectors, width)
                        yield {"case": case, "work": work, "variant": variant} | limits.against(
                            timed, gb=gb, gflop=gflop * products / 16, to=precision
                        )


def counts(work: str, vectors: int, width: int) -> tuple[float, float]:
    """What a real product moves, every matrix read or written once, and multiplies: backward twice
    as much, as there are two gradients."""
    of_vectors, of_weight = 4 * vectors * width / 1e9, 4 * width**2 / 1e9
    forward = 2 * of_vectors + of_weight, 2 * vectors * width**2 / 1e9
    backward = 3 * of_vectors + 2 * of_weight, 2 * forward[1]
    if work == "forward":
        return forward
    if work == "backward":
        return backward
    return forward[0] + backward[0], forward[1] + backward[1]


def eight_products(x: Tensor, weight: Tensor) -> Tensor:
    """The Hamilton product by eight products of components instead of sixteen, at the cost of
    thirty-two sums (Howell and Lafon, 1975).

    Shape:
        - x: ``(N, 4n)``
        - weight: ``(4, m, n)``
        - output: ``(N, 4m)``
    """
    r, i, j, k = weight.unbind(0)
    s, a, b, c = x.unflatten(-1, (4, -1)).unbind(-2)
    left = torch.stack((s + a, b - c, b + c, s - a, a + b, a - b, s - c, s + c))
    right = torch.stack((r + i, k - j, r - i, j + k, i + k, i - k, r + j, r - j))
    p, q, t, u, e, f, g, h = torch.bmm(left, right.mT).unbind(0)
    return torch.cat(
        (
            q + (g + h - e - f) / 2,
            p - (e + f + g + h) / 2,
            t + (e - f + g - h) / 2,
            u + (e - f - g + h) / 2,
        ),
        dim=-1,
    )


def _variants(
    width: int, device: torch.device
) -> dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor, int]]:
    """Each form, its weight, and how many products of components it takes."""
    quats = torch.randn(4, width // 4, width // 4, device=device, requires_grad=True)
    reals = torch.randn(width, width, device=device, requires_grad=True)
    return {
        "hamilton_linear": (hamilton_linear, quats, 16),
        "real linear": (F.linear, reals, 16),
        "eight products": (eight_products, quats, 8),
    }
