"""Benchmarks: each compares variants of the same work in one run and gives rows of numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from quatgraph.bench import aggregate, conv, defaults, graph, kernels, link, node, text

BENCHES: dict[str, Callable[[torch.device], Iterator[dict[str, Any]]]] = {
    "aggregate": aggregate.rows,
    "kernels": kernels.rows,
    "conv": conv.rows,
    "node": node.rows,
    "graph": graph.rows,
    "link": link.rows,
    "text": text.rows,
    "defaults": defaults.rows,
}
