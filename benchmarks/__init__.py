"""Benchmarks: each compares variants of the same work in one run and gives rows of numbers."""

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
    "text",
    "steps",
    "defaults",
)
"""Each a module of its name, which is imported when it is run: to list them needs no torch."""


def rows(name: str, device: "torch.device") -> Iterator[dict[str, Any]]:
    """What a benchmark measures on a device, row by row."""
    return import_module(f"benchmarks.{name}").rows(device)
