"""Scaling of time with size: series of rows, and the exponent of each.

A series repeats the same work at several sizes. Its ``floor_ms`` is the time at almost zero size,
that is, the call overhead. Sizes that take less than ten times as long are left out of the fit. On
a GPU the work is a captured CUDA graph, as in training.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmarks.loss import drawn, with_gradients
from benchmarks.made_up import CLASSES, LIKE_CORA, papers
from benchmarks.measure import measure, measure_captured, training_seconds
from quatgraph.adjacency import Adjacency
from quatgraph.layers import QGNNConv
from quatgraph.models.node import QGNN
from quatgraph.ops import one_vs_all_bce
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig, TrainConfig
from quatgraph.tasks.task import Member

CONV = "QGNNConv, forward and backward"
ABOVE_FLOOR = 10
"""A time counts if it is at least this many times the floor."""
FEWEST = 3
"""The least number of sizes for a fit."""

EDGES = {
    "cpu": (10_000, 64, (200_000, 400_000, 800_000, 1_600_000, 3_200_000)),
    "cuda": (100_000, 64, (2_000_000, 4_000_000, 8_000_000, 16_000_000, 32_000_000)),
}
"""Nodes, width, and numbers of edges."""
NODES = {
    "cpu": (64, (5_000, 10_000, 20_000, 40_000, 80_000)),
    "cuda": (256, (62_500, 125_000, 250_000, 500_000, 1_000_000)),
}
"""Width, and numbers of nodes with ten edges each."""
WIDTHS = {
    "cpu": (5_000, 50_000, (32, 64, 128, 256, 512)),
    "cuda": (200_000, 2_000_000, (64, 128, 256, 512, 1024)),
}
"""Nodes, edges, and widths."""
ENTITIES = {
    "cpu": (128, 64, (5_000, 10_000, 20_000, 40_000, 80_000)),
    "cuda": (1_024, 256, (40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000)),
}
"""Queries, width, and numbers of entities."""
MEMBERS = {
    "cpu": (LIKE_CORA, 10, (1, 10, 30, 100)),
    "cuda": (LIKE_CORA, 100, (1, 10, 100, 300, 1_000)),
}
"""The graph, epochs, and numbers of members."""


@dataclass(frozen=True, slots=True)
class _Series:
    name: str
    beside: str
    """The fixed sizes."""
    grows: str
    sizes: Sequence[int]
    timed: Callable[[int], dict[str, Any]]
    least: Callable[[], dict[str, Any]]
    """Times the work at almost zero size."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for series in _all_series(device):
        floor = series.least()["ms"]
        for size in sorted(series.sizes, reverse=True):  # small work shows a process that is cold
            yield {
                "case": f"{series.grows}: {size:,}",
                "work": f"{series.name}, {series.beside}",
                "variant": "quatgraph",
                "series": series.name,
                "grows": series.grows,
                "size": size,
                "floor_ms": floor,
                **series.timed(size),
            }


def exponent(rows: Sequence[dict[str, Any]]) -> float | None:
    """The least-squares slope of log time over log size; None if too few sizes count."""
    counted = [row for row in rows if row["ms"] >= ABOVE_FLOOR * row["floor_ms"]]
    if len(counted) < FEWEST:
        return None
    sizes, times = ([math.log(row[key]) for row in counted] for key in ("size", "ms"))
    return statistics.linear_regression(sizes, times).slope


def _all_series(device: torch.device) -> Iterator[_Series]:
    conv = partial(_conv, device=device)
    least_conv = partial(_conv, 8, 8, 4, device=device)
    nodes, width, edges = EDGES[device.type]
    yield _Series(
        CONV,
        f"{nodes:,} nodes, {width} wide",
        "edges",
        edges,
        lambda size: conv(nodes, size, width),
        least_conv,
    )
    wide, counts = NODES[device.type]
    yield _Series(
        CONV,
        f"ten edges per node, {wide} wide",
        "nodes",
        counts,
        lambda size: conv(size, 10 * size, wide),
        least_conv,
    )
    many, links, widths = WIDTHS[device.type]
    yield _Series(
        CONV,
        f"{many:,} nodes, {links:,} edges",
        "width",
        widths,
        lambda size: conv(many, links, size),
        least_conv,
    )
    queries, reals, entities = ENTITIES[device.type]
    yield _Series(
        "1-N loss, forward and backward",
        f"{queries:,} queries, {reals} wide",
        "entities",
        entities,
        lambda size: _loss(queries, size, reals, device),
        partial(_loss, 4, 64, 4, device),
    )
    graph, epochs, members = MEMBERS[device.type]
    yield _Series(
        "QGNN, training epoch",
        f"{graph[0]:,} nodes, {graph[2]:,} features",
        "members",
        members,
        lambda size: _epoch(graph, size, epochs, device),
        partial(_epoch, (4 * CLASSES, 4 * CLASSES, 2 * CLASSES), 1, epochs, device),
    )


def _conv(nodes: int, edges: int, width: int, device: torch.device) -> dict[str, Any]:
    draw = torch.Generator(device).manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges), generator=draw, device=device)
    adjacency = Adjacency.of(edge_index, nodes)
    del edge_index
    conv = QGNNConv(width, width).to(device)
    x = torch.randn(nodes, width, generator=draw, device=device).requires_grad_()
    wanted, probe = (x, *conv.parameters()), torch.randn_like(x)
    return _timed(lambda: torch.autograd.grad(conv(x, adjacency), wanted, probe), device)


def _loss(queries: int, entities: int, width: int, device: torch.device) -> dict[str, Any]:
    q, x, positives = drawn(queries, entities, width, device)
    loss = partial(one_vs_all_bce, positives=positives)
    return _timed(partial(with_gradients, loss, q, x), device)


def _timed(work: Callable[[], object], device: torch.device) -> dict[str, Any]:
    timed = measure_captured if device.type == "cuda" else measure
    return timed(work, device, repeats=10)


def _epoch(
    graph: tuple[int, int, int], members: int, epochs: int, device: torch.device
) -> dict[str, Any]:
    """The mean time of an epoch of all members, without validation."""
    config = NodeConfig(
        model=QGNN.Options(hidden_quats=4, num_layers=1, skip=False),
        train=TrainConfig(epochs=epochs, select="last"),
    )
    seeds = [Member(config, 0, seed) for seed in range(members)]
    seconds = training_seconds(NODE, seeds, papers(*graph), device)
    return {"ms": round(1e3 * seconds / epochs, 4)}
