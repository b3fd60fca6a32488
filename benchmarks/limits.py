"""The measured limits of a machine, and the share of them that an operation reaches.

The limits are bandwidth and throughput. The minimum time of an operation is the slower of the two
for the bytes it must move and the products it must compute; the share is that minimum divided by
the measured time. A formula next to each benchmark counts bytes and products.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.measure import measure
from quatgraph.training.runtime import matmul_precision

REACHED = "what the machine reaches"
COPIED = {"cpu": 1 << 28, "cuda": 1 << 31}
"""Bytes of the copied tensor, larger than any cache."""
SQUARE = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the multiplied matrices."""
PRECISIONS = {"cpu": ("float32",), "cuda": ("float32", "tf32", "bfloat16")}
"""Precisions of products. Not bfloat16 on a CPU: some CPUs end the process."""
OF_FLOAT32 = {kind: tuple(p for p in of if p != "bfloat16") for kind, of in PRECISIONS.items()}
"""Those of products whose factors are float32 in memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The measured limits of a device; see :func:`reached`."""

    copy: float
    """Gigabytes read and written per millisecond."""
    products: dict[str, float]
    """GFLOP per millisecond, by precision."""
    rows: list[dict[str, Any]]
    """The same as rows of a benchmark."""

    def against(
        self, timed: dict[str, Any], *, gb: float = 0.0, gflop: float = 0.0, to: str = "float32"
    ) -> dict[str, Any]:
        """A timed row with its memory traffic, FLOPs and share of the limit.

        Args:
            gb: Gigabytes that the operation must read and write.
            gflop: GFLOP of its products.
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
    """Measures the bandwidth of copies and the throughput of products in the given precisions."""
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
