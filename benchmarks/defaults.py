"""The defaults for the user's own graph: variants of QGNN on generated graphs of several kinds.

Each row is the mean validation accuracy of a variant on a kind of graph, with the learning rate,
weight decay and dropout that are best on validation data. The defaults of ``NodeConfig`` are the
variant that does well on every kind.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch_geometric.data import Data

from quatgraph.data.node import from_data
from quatgraph.tasks.node import NODE
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.runs import run
from quatgraph.training.context import Context

# Probability of a link inside a class and between classes; distance of the classes' features,
# None for a graph without features.
KINDS: dict[str, tuple[float, float, float | None]] = {
    "like links to like": (0.02, 0.004, 0.5),
    "like avoids like": (0.0, 0.012, 0.5),
    "links mean nothing": (0.01, 0.01, 0.6),
    "no features": (0.03, 0.004, None),
}
NODES, CLASSES, FEATURES, GRAPHS = 800, 4, 32, 3


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for kind, skip, layers in product(KINDS, (False, True), (1, 2)):
        model = {"name": "qgnn", "skip": skip, "num_layers": layers}
        valid = []
        for seed in range(GRAPHS):
            data = random_graph(*KINDS[kind], seed=seed)
            candidates = default_candidates(NODE, {"model": model})
            members = [m for config in candidates for m in NODE.members(config, data)]
            outcomes = run(NODE, members, data, Context(device))
            records = [record for outcome in outcomes for record in outcome.records]
            valid.append(max(r.metrics["valid/accuracy"] for r in records))
        yield {
            "case": kind,
            "variant": f"{layers} layers, {'with' if skip else 'no'} skip connections",
            "work": f"{GRAPHS} graphs",
            "valid_accuracy": round(sum(valid) / len(valid), 4),
        }


def random_graph(inside: float, between: float, distance: float | None, *, seed: int) -> Data:
    """A stochastic block model whose classes may differ in the mean of their features."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(NODES) % CLASSES
    chance = torch.where(y[:, None] == y, inside, between)
    link = (torch.rand(NODES, NODES, generator=draw) < chance).triu(1).nonzero().T
    x = None
    if distance is not None:
        means = distance * torch.randn(CLASSES, FEATURES, generator=draw)
        x = means[y] + 2 * torch.randn(NODES, FEATURES, generator=draw)
    edges = torch.cat((link, link.flip(0)), dim=1)
    return from_data(Data(x=x, y=y, edge_index=edges, num_nodes=NODES), split_seed=seed)
