"""Benchmarks. Each compares variants of the same work in one process and yields rows of numbers."""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

BENCHES = (
    "aggregate",
    "hamilton",
    "loss",
    "fused",
    "kernels",
    "growth",
    "peers",
    "released",
    "conv",
    "node",
    "graph",
    "link",
    "link_methods",
    "text",
    "steps",
    "defaults",
    "own_data",
    "explain",
)
"""Names of modules, which are imported when they run."""


def rows(name: str, device: "torch.device", **options: Any) -> Iterator[dict[str, Any]]:
    """Runs a benchmark on a device, perhaps with options of its own, and yields its rows."""
    return import_module(f"benchmarks.{name}").rows(device, **options)
