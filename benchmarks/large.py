"""Graphs that are large for one device: training on sampled neighbours, or on the whole graph.

On a CPU, ``quatgraph train node`` runs in a separate process. Its peak memory covers everything it
does: reading, training, validation after each epoch, combination. On a GPU, training runs on a
graph of the size of ``ogbn-products``, whole and sampled on the GPU or the CPU.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from benchmarks.measure import held, measure, peak
from quatgraph.data.node import from_data
from quatgraph.models.node import QGNN
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig, TrainConfig
from quatgraph.tasks.node.problem import Problem
from quatgraph.tasks.node.sampled import NodeBatches, fan_out
from quatgraph.tasks.task import Member
from quatgraph.training.record import read_records


@dataclass(frozen=True, slots=True)
class Graph:
    """A synthetic graph with heavy-tailed degrees and half of the edges within a class."""

    nodes: int
    edges: int
    """In both directions."""
    features: int = 100
    classes: int = 40
    train: float = 0.1
    """The share of the nodes to train on; half as many are for validation and as many for test."""

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.edges:,} edges, heavy tail"

    def arrays(self) -> dict[str, np.ndarray]:
        random = np.random.default_rng(0)
        count = self.edges // 2
        ends = (self.nodes * random.random((2, count), dtype=np.float32) ** 2).astype(np.int64)
        np.minimum(ends, self.nodes - 1, out=ends)
        within = random.random(count, dtype=np.float32) < 0.5
        same = ends[1] - ends[1] % self.classes + ends[0] % self.classes
        ends[1, within & (same < self.nodes)] = same[within & (same < self.nodes)]
        y = np.arange(self.nodes) % self.classes
        x = random.standard_normal((self.nodes, self.features), dtype=np.float32)
        x += random.standard_normal((self.classes, self.features), dtype=np.float32)[y] / 4
        order = random.permutation(self.nodes)
        train, valid = int(self.train * self.nodes), int(self.train * self.nodes / 2)
        parts = np.split(order, [train, train + valid, 2 * train + valid])[:3]
        split = dict(zip(("train", "valid", "test"), parts, strict=True))
        return {"edge_index": np.concatenate((ends, ends[::-1]), axis=1), "x": x, "y": y, **split}

    def data(self) -> Data:
        made = {key: torch.from_numpy(value) for key, value in self.arrays().items()}
        parts = {}
        for mask, part in (("train_mask", "train"), ("val_mask", "valid"), ("test_mask", "test")):
            parts[mask] = torch.zeros(self.nodes, dtype=torch.bool)
            parts[mask][made.pop(part)] = True
        return from_data(Data(name="made up", **made, **parts))


COMMAND = Graph(1_000_000, 10_000_000)
PRODUCTS = Graph(2_450_000, 124_000_000, classes=47, train=0.08)
"""As large as ``ogbn-products``."""
SMALLER = (
    Graph(19_800, 1_000_000, classes=47, train=0.08),
    Graph(198_000, 10_000_000, classes=47, train=0.08),
)
"""With as many edges per node: what they take predicts what the large one takes."""
BATCH, WIDTH = 1_024, 256
EPOCHS, WHOLE_EPOCHS = 2, 20


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    """On a CPU what a user types, on a GPU the parts of a training."""
    if device.type == "cpu":
        yield train_by_command(COMMAND, [15, 10])
    else:
        for graph in SMALLER:
            yield from train_whole(graph, graph.data(), 3, device)
        data = PRODUCTS.data()
        yield from train_whole(PRODUCTS, data, 3, device)
        yield from train_sampled(PRODUCTS, data, [15, 10, 5], device)


def train_by_command(graph: Graph, drawn: list[int]) -> dict[str, Any]:
    """The time of an epoch, and the peak memory of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "graph", Path(folder) / "out"
        data.mkdir()
        for name, array in graph.arrays().items():
            np.save(data / f"{name}.npy", array)
        settings = {
            "train.num_neighbors": drawn,
            "train.batch_size": BATCH,
            "train.epochs": EPOCHS,
            "train.lr": 0.01,
            "train.weight_decay": 0.0,
            "model.num_layers": len(drawn) - 1,
            "model.dropout": 0.2,
            "model.skip": True,
            "model.bias": True,
        }
        given = [
            word
            for key, value in settings.items()
            for word in ("--set", f"{key}={json.dumps(value)}")
        ]
        command = [sys.executable, "-m", "quatgraph", "train", "node", "--only", "qgnn", *given]
        process = subprocess.Popen([*command, "--data", str(data), "--out", str(out)])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the training failed with exit code {process.returncode}")
        (record,) = read_records(out / "records.jsonl")
        train = json.loads((out / "card.json").read_text())["members"][0]["config"]["train"]
        assert train["num_neighbors"] == drawn
    steps = -(-int(graph.train * graph.nodes) // BATCH)
    return {
        "case": str(graph),
        "work": f"an epoch of {steps:,} batches of {BATCH:,}, {_named(drawn)}",
        "variant": "quatgraph train node, qgnn, 64 wide",
        "ms": round(1000 * record.seconds / record.epochs_run, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "test_accuracy": round(record.metrics["test/accuracy"], 4),
        "peak_mib": round(used.ru_maxrss / 2**10, 1),
    }


def train_whole(
    graph: Graph, data: Data, num_layers: int, device: torch.device
) -> Iterator[dict[str, Any]]:
    """The times of preparation and of an epoch on the whole graph."""
    config, case = config_of(num_layers), {"case": str(graph)}
    NODE.prepare(Graph(1_000, 10_000).data(), config, device)  # has one-time costs
    began = time.perf_counter()
    problem = NODE.prepare(data, config, device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    ms = round(1000 * (time.perf_counter() - began), 1)
    yield case | {"work": "preparation", "variant": "matrix and features", "ms": ms}
    found = timed(config, problem, device)
    row = {"work": f"a training epoch, {num_layers} layers of {WIDTH}", "variant": "whole graph"}
    yield case | row | found | {"edges": graph.edges}


def train_sampled(
    graph: Graph, data: Data, drawn: list[int], device: torch.device
) -> Iterator[dict[str, Any]]:
    """The times of drawing a sample and of a training step on it."""
    sampled = config_of(len(drawn), tuple(drawn))
    case, layers = {"case": str(graph)}, f"{len(drawn)} layers of {WIDTH}"
    problem = NODE.prepare(data, sampled, device)
    trained = timed(sampled, problem, device)
    steps = -(-int(problem.masks["train"].sum()) // BATCH)
    step = trained["ms"] / steps
    drawing = {"CPU": drawing_time(sampled, _on_cpu(problem), device)}
    if device.type != "cpu":
        drawing = {"GPU": drawing_time(sampled, problem, device)} | drawing
    own = next(iter(drawing))
    for where, ms in drawing.items():
        work = f"{_named(drawn)} of {BATCH:,} nodes, padded and on the device"
        yield case | {"work": work, "variant": f"drawn on the {where}", "ms": round(ms, 4)}
    yield (
        case
        | {
            "work": f"a training step on them, {layers}",
            "variant": f"drawn on the {own}",
            "ms": round(step, 4),
            "batches_per_second": round(1000 / step, 2),
            "share_of_drawing": round(drawing[own] / step, 4),
        }
        | {key: value for key, value in trained.items() if key == "peak_mib"}
    )


def config_of(num_layers: int, drawn: tuple[int, ...] = ()) -> NodeConfig:
    """Layers that aggregate: hidden ones and the prediction."""
    train = TrainConfig(
        epochs=EPOCHS if drawn else WHOLE_EPOCHS,
        select="last",
        num_neighbors=drawn or 0,
        batch_size=BATCH,
        patience=None,
    )
    model = QGNN.Options(hidden_quats=WIDTH // 4, num_layers=num_layers - 1, dropout=0.5)
    return NodeConfig(data=DataConfig(path="made up"), model=model, train=train)


def timed(config: NodeConfig, problem: Problem, device: torch.device) -> dict[str, Any]:
    """The time of an epoch, of a step if it is sampled, without evaluation."""
    members = [Member(config, 0, 0)]
    before = held(device)
    fit = NODE.train(members, problem, NODE.plan(members))
    return {"ms": round(1000 * fit.seconds / fit.epochs_run, 4)} | peak(device, before)


def drawing_time(config: NodeConfig, problem: Problem, device: torch.device) -> float:
    """The milliseconds to draw and pad a batch, and to bring it to the device."""
    nodes = problem.masks["train"][0].nonzero().flatten()
    batches = NodeBatches(problem.adjacency, fan_out(config), nodes, BATCH, 0)
    batches.padded = True
    number = count()
    steps = len(batches.draw(0))

    def draw() -> None:
        (batch,) = batches.load(next(number) % steps, 1)
        for tensor in batch.tensors():
            tensor.to(device, non_blocking=True)

    found: float = measure(draw, device)["ms"]
    return found


def _on_cpu(problem: Problem) -> Problem:
    masks = {part: mask.cpu() for part, mask in problem.masks.items()}
    return replace(problem, adjacency=problem.adjacency.to("cpu"), masks=masks)


def _named(drawn: list[int]) -> str:
    return f"{', '.join(map(str, drawn))} neighbours"
