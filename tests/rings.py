"""Rings against chains: graphs of one's own, as JSON lines and as a collection; their training."""

import json
from pathlib import Path
from typing import Any

import settings
from on_cpu import run

from quatgraph.data.graph import Graphs, read
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.runs import Outcome
from quatgraph.tasks.task import Member

SMALL: dict[str, Any] = {
    "data.num_folds": 3,
    "model.hidden_quats": 2,
    "model.num_layers": 2,
    "model.dropout": 0.0,
    "model.pooled_dropout": 0.0,
    "train.epochs": 4,
    "train.batch_size": 8,
    "train.lr": 0.02,
}


def config_of(**values: Any) -> GraphConfig:
    return settings.built(GraphConfig, values, SMALL)


def options(*left_out: str) -> list[str]:
    """The small settings on the command line, but for some."""
    kept = [f"{key}={value}" for key, value in SMALL.items() if key not in left_out]
    return [word for setting in kept for word in ("--set", setting)]


def ring_or_chain(place: int) -> dict[str, Any]:
    """One line; every second graph is a ring."""
    kind, size = ("ring", "chain")[place % 2], 3 + place % 5
    edges = [[node, node + 1] for node in range(size - 1)]
    return {
        "id": f"{kind}-{place}",
        "label": kind,
        "edges": [*edges, [size - 1, 0]] if kind == "ring" else edges,
        "node_labels": ["CNO"[(node + place) % 3] for node in range(size)],
    }


def lines(count: int = 30) -> list[dict[str, Any]]:
    return [ring_or_chain(place) for place in range(count)]


def without(graphs: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    return [{k: v for k, v in graph.items() if k not in keys} for graph in graphs]


def with_features(graphs: list[dict[str, Any]], width: int = 2) -> list[dict[str, Any]]:
    """The graphs with numbers for each node, which are different for every node."""
    return [
        graph | {"node_features": [[node - place / 7] * width for node in range(size)]}
        for place, graph in enumerate(graphs)
        for size in [1 + max(map(max, graph["edges"]))]
    ]


def written(path: Path, graphs: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(graph) + "\n" for graph in graphs))
    return path


def collection(folder: Path, graphs: list[dict[str, Any]] | None = None) -> Graphs:
    return read(written(folder / "rings.jsonl", lines() if graphs is None else graphs))


def outcome_of(members: list[Member], data: Graphs, **others: Any) -> Outcome:
    (outcome,) = run(GRAPH, members, data, **others)
    return outcome
