"""The fused operations of the text models, compared with separate torch operations."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.limits import OF_FLOAT32, reached
from benchmarks.measure import passes
from quatgraph.ops import attention_pool, backend, gated_step
from quatgraph.ops.backend import Backend
from quatgraph.ops.segments import segment_ids
from quatgraph.training.runtime import matmul_precision

SIZES = {"cpu": (8_192, 256, 128), "cuda": (262_144, 4_096, 384)}
"""Words, texts, and reals per vector."""


@dataclass(frozen=True, slots=True)
class _Work:
    """An operation, its plain torch form, their inputs, and their memory traffic and FLOPs."""

    run: Callable[..., Tensor]
    plain: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    counts: dict[str, tuple[float, float]]
    """Gigabytes and GFLOP by pass: every vector once, and the products."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    limits = reached(device, OF_FLOAT32[device.type])
    yield from limits.rows
    words, texts, width = SIZES[device.type]
    works = {"gated_step": _gated(words, width, device)}
    works["attention_pool"] = _pooled(words, texts, width, device)
    for name, precision in product(works, OF_FLOAT32[device.type]):
        work = works[name]
        if precision != "float32" and not work.counts["forward"][1]:
            continue  # without products all precisions are the same
        case = f"{name}, {words:,} words, {texts:,} texts, {width} wide, {precision}"
        for variant, run, form in _variants(work, device):
            with matmul_precision(precision), backend(form):
                for which, timed in passes(run, work.inputs, device):
                    gb, gflop = work.counts[which]
                    row = {"case": case, "work": which, "variant": variant}
                    yield row | limits.against(timed, gb=gb, gflop=gflop, to=precision)


def _variants(
    work: _Work, device: torch.device
) -> Iterator[tuple[str, Callable[..., Tensor], Backend]]:
    yield "quatgraph", work.run, "auto"
    if device.type == "cuda":
        yield "torch form", work.run, "torch"
    yield "separate operations", work.plain, "auto"


def _gated(words: int, width: int, device: torch.device) -> _Work:
    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, device=device).div_(width**0.5).requires_grad_()

    h, sums = drawn(words, width), drawn(words, width)
    weights = drawn(3 * width, width), drawn(2 * width, width), drawn(width, width)
    vectors, products = 4 * words * width / 1e9, 2 * words * width**2 / 1e9
    # h, the sums and the result; h, the sums, the gradient of the result, and theirs.
    counts = _with_both((3 * vectors, 6 * products), (5 * vectors, 12 * products))
    return _Work(gated_step, plain_step, (h, sums, *weights, drawn(3 * width)), counts)


def _pooled(words: int, texts: int, width: int, device: torch.device) -> _Work:
    x = torch.randn(words, width, device=device, requires_grad=True)
    weight = torch.rand(words, device=device).requires_grad_()
    ptr = torch.arange(texts + 1, device=device) * words // texts
    vectors, results = 4 * words * width / 1e9, 4 * texts * width / 1e9
    # The words and the texts; the words, their gradient, and that of the texts.
    counts = _with_both((vectors + results, 0.0), (2 * vectors + results, 0.0))
    plain = partial(plain_pool, segment=segment_ids(ptr, words), texts=texts)
    return _Work(attention_pool, plain, (x, weight, ptr), counts)


def _with_both(
    forward: tuple[float, float], backward: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    both = forward[0] + backward[0], forward[1] + backward[1]
    return {"forward": forward, "backward": backward, "forward and backward": both}


def plain_step(
    h: Tensor, sums: Tensor, of_sum: Tensor, of_own: Tensor, of_reset: Tensor, bias: Tensor
) -> Tensor:
    """:func:`gated_step` as separate torch operations under autograd."""
    (wz, wr, wc), (bz, br, bc) = of_sum.chunk(3), bias.chunk(3)
    uz, ur = of_own.chunk(2)
    z = torch.sigmoid(F.linear(sums, wz, bz) + F.linear(h, uz))
    r = torch.sigmoid(F.linear(sums, wr, br) + F.linear(h, ur))
    c = torch.relu(F.linear(sums, wc, bc) + F.linear(r * h, of_reset))
    return (1 - z) * h + z * c


def plain_pool(x: Tensor, weight: Tensor, ptr: Tensor, *, segment: Tensor, texts: int) -> Tensor:
    """:func:`attention_pool` as separate torch operations under autograd."""
    e = weight[:, None] * torch.relu(x)
    empty, index = e.new_zeros(texts, e.size(1)), segment[:, None].expand_as(e)
    return empty.index_add(0, segment, e) * empty.scatter_reduce(0, index, e, "amax")
