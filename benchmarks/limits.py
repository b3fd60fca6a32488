"""What the machine reaches, and how near to it an operation comes.

A device moves so many bytes a second and multiplies so fast, and no operation is quicker than the
slower of the two allows for what it must move and multiply. The share is that least time over the
time it takes. Bytes and products are counted by a formula beside each benchmark.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.measure import measure
from quatgraph.training.runtime import matmul_precision

REACHED = "what the machine reaches"
COPIED = {"cpu": 1 << 28, "cuda": 1 << 31}
"""Bytes of the tensor that is copied: more than any cache holds."""
SQUARE = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the matrices that are multiplied."""
PRECISIONS = {"cpu": ("float32",), "cuda": ("float32", "tf32", "bfloat16")}
"""Of products. Not bfloat16 on a CPU, some of which end the process."""
OF_FLOAT32 = {kind: tuple(p for p in of if p != "bfloat16") for kind, of in PRECISIONS.items()}
"""Those of products whose factors are float32 in memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device, measured; see :func:`reached`."""

    copy: float
    """Gigabytes read and written in a millisecond."""
    products: dict[str, float]
    """Billions of floating-point operations in a millisecond, by precision."""
    rows: list[dict[str, Any]]
    """The same as rows of a benchmark."""

    def against(
        self, timed: dict[str, Any], *, gb: float = 0.0, gflop: float = 0.0, to: str = "float32"
    ) -> dict[str, Any]:
        """What was timed, with what it moves, what it multiplies, and its share of the limit.

        Args:
            gb: Gigabytes that it must read and write.
            gflop: Billions of operations of its products.
            to: The precision of the products.
        """
        moving = gb / self.copy
        multiplying = gflop / self.products[to] if gflop else 0.0
        counted = {"gb": gb} if gb else {}
        counted |= {"gflop": gflop} if gflop else {}
        return (
            timed
            | {name: float(f"{value:.4g}") for name, value in counted.items()}
            | {
                "share": round(max(moving, multiplying) / timed["ms"], 4),
                "limit": "product" if multiplying > moving else "copy",
            }
        )


def reached(device: torch.device, precisions: Sequence[str] = ()) -> Limits:
    """Measures the limits: of copies, and of products in the given precisions."""
    rows = [_copied(device)]
    rows += [_multiplied(device, precision) for precision in precisions]
    first, *others = rows
    products = {row["variant"]: row["gflop"] / row["ms"] for row in others}
    return Limits(first["gb"] / first["ms"], products, rows)


def _copied(device: torch.device) -> dict[str, Any]:
    """A copy of a large tensor, which reads and writes each byte once."""
    size = COPIED[device.type]
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    timed = _timed(lambda: target.copy_(source), device)
    return {"case": REACHED, "work": "copy", "variant": "float32", **timed, "gb": 2 * size / 1e9}


def _multiplied(device: torch.device, precision: str) -> dict[str, Any]:
    """The product of two large square matrices, ``2 n^3`` operations."""
    size = SQUARE[device.type]
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(kind) for _ in range(2))
    out = torch.empty_like(a)
    with matmul_precision(precision):
        timed = _timed(lambda: torch.mm(a, b, out=out), device)
    row = {"case": REACHED, "work": "matrix product", "variant": precision}
    return row | timed | {"gflop": 2 * size**3 / 1e9}


def _timed(work: Callable[[], object], device: torch.device) -> dict[str, Any]:
    timed = measure(work, device, repeats=10)
    timed.pop("peak_mib", None)  # nothing: the result has its place
    return timed
