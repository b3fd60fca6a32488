"""Benchmarks. Each compares variants of the same work in one process and yields rows of numbers."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from quatgraph.errors import UserError, did_you_mean

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
    "sampling",
    "large",
    "node",
    "graph",
    "graph_methods",
    "link",
    "link_methods",
    "sharded",
    "text",
    "steps",
    "defaults",
    "own_data",
    "explain",
    "missing",
    "serve",
)
"""Names of modules, which are imported when they run."""


def rows(name: str, device: "torch.device", **options: Any) -> Iterator[dict[str, Any]]:
    """Runs a benchmark on a device, perhaps with options of its own, and yields its rows."""
    return import_module(f"benchmarks.{name}").rows(device, **options)


def choose_datasets(only: Sequence[str], datasets: Sequence[str]) -> list[str]:
    """The datasets of a benchmark that are wanted, all by default."""
    for name in only:
        if name not in datasets:
            hint = did_you_mean(name, datasets) or f"; choose from {', '.join(datasets)}"
            raise UserError(f"the benchmark has no dataset {name!r}{hint}")
    return [name for name in datasets if not only or name in only]
