"""Mini-batches of a large graph: sampling neighbours, and training on them.

PyG's ``k_hop_subgraph`` takes all neighbours; its sampling needs a compiled library.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.nn import Sequential
from torch_geometric.utils import k_hop_subgraph

from benchmarks.measure import measure, resident_peak
from quatgraph.adjacency import Adjacency
from quatgraph.data.loader import NeighborLoader
from quatgraph.layers import QGNNConv
from quatgraph.sampling import NeighborSampler

NODES, EDGES, FEATURES, HIDDEN, CLASSES = 1_000_000, 10_000_000, 100, 256, 40
FAN_OUT, BATCH = [15, 10], 1_024


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    """Rows for two kinds of graphs, on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for kind in ("degrees alike", "heavy tail"):
            case = f"{NODES:,} nodes, {EDGES:,} edges, {kind}"
            edge_index = random_edges(kind == "heavy tail").to(device)
            for row in _rows_of(edge_index, device):
                yield {"case": case} | row
    finally:
        torch.set_num_threads(threads)


def _rows_of(edge_index: Tensor, device: torch.device) -> Iterator[dict[str, Any]]:
    order = torch.randperm(NODES, generator=torch.Generator().manual_seed(1)).to(device)
    nodes, step = order.split(min(BATCH, NODES)), count()
    sampler = NeighborSampler(edge_index, NODES, FAN_OUT)

    def draw() -> None:
        number = next(step)
        sampler.sample(nodes[number % len(nodes)], number)

    work = f"{FAN_OUT[0]} and {FAN_OUT[1]} neighbours of {BATCH:,} nodes"
    yield {"work": work, "variant": "NeighborSampler"} | _rated(measure(draw, device))

    def gather() -> None:
        k_hop_subgraph(nodes[next(step) % len(nodes)], len(FAN_OUT), edge_index, True, NODES)

    yield {"work": "all neighbours", "variant": "PyG's k_hop_subgraph"} | _rated(
        measure(gather, device, repeats=3)
    )
    data = Data(
        x=torch.randn(NODES, FEATURES, device=device),
        y=torch.randint(CLASSES, (NODES,), device=device),
        edge_index=edge_index,
    )
    batches = _endless(data)
    signature = "x, adjacency"
    layers: list[Any] = [
        (QGNNConv(FEATURES, HIDDEN, tiled=True), f"{signature} -> x"),
        nn.ReLU(),
        (QGNNConv(HIDDEN, HIDDEN), f"{signature} -> x"),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    ]
    model = Sequential(signature, layers).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=0.01)

    def train() -> None:
        batch = next(batches)
        adjacency = Adjacency.from_edge_index(
            batch.edge_index, batch.num_nodes, self_loops=True, normalization="row"
        )
        logits = model(batch.x, adjacency)[: batch.batch_size]
        adam.zero_grad()
        F.cross_entropy(logits, batch.y[: batch.batch_size]).backward()
        adam.step()

    row = {"work": f"a training step, two layers of {HIDDEN}", "variant": "NeighborLoader"}
    found = _rated(measure(train, device, repeats=5))
    yield row | resident_peak() | found


def _rated(found: dict[str, Any]) -> dict[str, Any]:
    return found | {"seeds_per_second": round(1000 * BATCH / found["ms"])}


def _endless(data: Data) -> Iterator[Data]:
    loader = NeighborLoader(data, FAN_OUT, batch_size=BATCH, shuffle=True)
    while True:
        yield from loader


def random_edges(heavy: bool) -> Tensor:
    """Random edges; with a heavy tail, both ends are drawn more often the smaller their number."""
    draw = torch.Generator().manual_seed(0)
    if not heavy:
        return torch.randint(NODES, (2, EDGES), generator=draw)
    return (NODES * torch.rand(2, EDGES, generator=draw).pow(2)).long()
