"""Full trainings compared with other libraries, in one process."""

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from benchmarks.made_up import LIKE_CORA, papers
from quatgraph.models.node.gcn import GCNOptions
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig, TrainConfig
from quatgraph.tasks.runs import run
from quatgraph.tasks.task import Member
from quatgraph.training.context import Context

GRAPH = LIKE_CORA
MODELS, EPOCHS, HIDDEN = 100, 100, 16
TRAINED = {"cpu": 4, "cuda": 5}
"""Models that are trained sequentially; the time of all is extrapolated."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    yield from _ensemble(device)
    if find_spec("pykeen") and device.type == "cpu":
        from benchmarks import peers_link

        yield from peers_link.rows()


def _ensemble(device: torch.device) -> Iterator[dict[str, Any]]:
    """Many small models as an ensemble, sequentially, and in a plain PyG loop."""
    data, few = papers(*GRAPH), min(MODELS, TRAINED[device.type])

    def alone(epochs: int, count: int) -> list[float]:
        return [_ours(data, epochs, [seed], device)[0] for seed in range(count)]

    def peer(epochs: int, count: int) -> list[float]:
        return [_with_pyg(data, epochs, seed, device) for seed in range(count)]

    def together(epochs: int, count: int) -> list[float]:
        return _ours(data, epochs, list(range(count)), device)

    note = f"{few} trained, times {MODELS / few:.3g}"
    first: float | None = None
    variants: list[tuple[str, Callable[[int, int], list[float]], int]] = [
        ("quatgraph, one ensemble", together, MODELS),
        (f"quatgraph, sequential ({note})", alone, few),
        (f"PyG GCNConv, dense features, plain loop ({note})", peer, few),
    ]
    for variant, train, count in variants:
        train(2, count)  # what is done once in a process
        began = time.perf_counter()
        accuracies = train(EPOCHS, count)
        ms = 1e3 * (time.perf_counter() - began) * MODELS / count
        first = first or ms
        yield {
            "case": f"GCN, {GRAPH[0]:,} nodes, {GRAPH[2]:,} features",
            "work": f"{MODELS} models, {EPOCHS} epochs, each evaluated",
            "variant": variant,
            "ms": round(ms, 1),
            "ratio": round(ms / first, 2),
            "trained": count,
            "test_accuracy": round(sum(accuracies) / count, 4),
        }


def _ours(data: Data, epochs: int, seeds: list[int], device: torch.device) -> list[float]:
    """Trains a model per seed and returns their test accuracies."""
    model = GCNOptions(hidden_quats=HIDDEN // 4, num_layers=1, skip=False, bias=True)
    config = NodeConfig(model=model, train=TrainConfig(epochs=epochs, patience=None))
    members = [Member(config, 0, seed) for seed in seeds]
    outcomes = run(NODE, members, data, Context(device))
    return [record.metrics["test/accuracy"] for o in outcomes for record in o.records]


def _with_pyg(data: Data, epochs: int, seed: int, device: torch.device) -> float:
    """The same as in PyG's examples; returns the test accuracy at the best validation epoch."""
    from torch_geometric.nn import GCNConv

    class GCN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = GCNConv(data.x.size(1), HIDDEN, cached=True)
            self.second = GCNConv(HIDDEN, len(data.label_names), cached=True)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            x = F.dropout(x, p=0.5, training=self.training)
            x = self.first(x, edge_index).relu()
            x = F.dropout(x, p=0.5, training=self.training)
            found: Tensor = self.second(x, edge_index)
            return found

    torch.manual_seed(seed)
    x, y, edge_index = data.x.to(device), data.y.to(device), data.edge_index.to(device)
    masks = [mask[:, 0].to(device) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    model = GCN().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    best, kept = 0.0, 0.0
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x, edge_index)[masks[0]], y[masks[0]])
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            right = model(x, edge_index).argmax(dim=-1) == y
        _, valid, test = (float(right[mask].float().mean()) for mask in masks)
        if valid > best:
            best, kept = valid, test
    return kept
