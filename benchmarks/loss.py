"""The losses of queries against every candidate, in tiles, beside all scores at once."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.limits import PRECISIONS, reached
from benchmarks.measure import measure, measure_captured
from quatgraph.ops import Positives, one_vs_all_bce, one_vs_all_cross_entropy
from quatgraph.tasks.link.run import PRODUCTS
from quatgraph.training.runtime import matmul_precision

SIZES = {"cpu": (512, 10_000, 128), "cuda": (1_024, 78_000, 512)}
"""Queries, entities, and the reals of a vector."""
LOSSES = {"bce": one_vs_all_bce, "cross-entropy": one_vs_all_cross_entropy}


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    limits = reached(device, PRECISIONS[device.type])
    yield from limits.rows
    sizes = SIZES[device.type]
    queries, entities, width = sizes
    case = f"{queries:,} queries, {entities:,} entities, {width} wide"
    q, x, positives = drawn(*sizes, device)
    gradients = (q.nbytes + x.nbytes) / 2**20
    for name, precision in ((n, p) for n in LOSSES for p in PRECISIONS[device.type]):
        for variant, loss in _variants(name, precision, positives, device).items():
            with matmul_precision(precision):
                time = measure_captured if variant.endswith("captured") else measure
                timed = time(partial(with_gradients, loss, q, x), device, repeats=10)
            if "peak_mib" in timed:
                timed["beyond_mib"] = round(timed.pop("peak_mib") - gradients, 1)
            row = {"case": case, "work": f"{name}, {precision}", "variant": variant}
            yield row | limits.against(timed, gflop=gflop(*sizes), to=precision)


def gflop(queries: int, entities: int, width: int) -> float:
    """Three products: the scores, and the gradients of queries and of candidates."""
    return 3 * 2 * queries * entities * width / 1e9


def drawn(
    queries: int, entities: int, width: int, device: torch.device
) -> tuple[Tensor, Tensor, Positives]:
    """Vectors of queries and candidates, and one right candidate of each query."""
    q = torch.randn(queries, width, device=device, requires_grad=True)
    x = torch.randn(entities, width, device=device, requires_grad=True)
    pointers = torch.arange(queries + 1, device=device)
    tails = torch.randint(entities, (queries,), device=device)
    return q, x, Positives(pointers, tails, pointers[:-1])


def with_gradients(loss: Callable[[Tensor, Tensor], Tensor], q: Tensor, x: Tensor) -> None:
    torch.autograd.grad(loss(q, x), (q, x))


def _variants(
    name: str, precision: str, positives: Positives, device: torch.device
) -> dict[str, Callable[[Tensor, Tensor], Tensor]]:
    how: dict[str, Any] = {"positives": positives, "product_dtype": PRODUCTS[precision]}
    tiles = partial(LOSSES[name], **how)
    found: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"in tiles": tiles}
    if device.type == "cuda":
        found["in tiles, captured"] = tiles
    if PRODUCTS[precision] is None:  # torch would round the scores too
        found["all scores at once"] = partial(_at_once, name, positives.tails)
    return found


def _at_once(name: str, tails: Tensor, q: Tensor, x: Tensor) -> Tensor:
    """The loss out of the matrix of scores, as one writes it."""
    scores = q @ x.T
    if name == "cross-entropy":
        return F.cross_entropy(scores, tails)
    labels = torch.zeros_like(scores).scatter_(1, tails[:, None], 1.0)
    return F.binary_cross_entropy_with_logits(scores, labels)
