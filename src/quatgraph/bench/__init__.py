"""Benchmarks: each compares variants of the same work in one run and gives rows of numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from quatgraph.bench import (
    aggregate,
    conv,
    defaults,
    fused,
    graph,
    growth,
    hamilton,
    kernels,
    link,
    loss,
    node,
    peers,
    released,
    steps,
    text,
)

BENCHES: dict[str, Callable[[torch.device], Iterator[dict[str, Any]]]] = {
    "aggregate": aggregate.rows,
    "hamilton": hamilton.rows,
    "loss": loss.rows,
    "fused": fused.rows,
    "kernels": kernels.rows,
    "growth": growth.rows,
    "peers": peers.rows,
    "released": released.rows,
    "conv": conv.rows,
    "node": node.rows,
    "graph": graph.rows,
    "link": link.rows,
    "text": text.rows,
    "steps": steps.rows,
    "defaults": defaults.rows,
}
