"""Bundles whose members have different configurations, one for each task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cities
import karate
import reviews
import rings
import torch
from on_cpu import run

from quatgraph.tasks import TASKS
from quatgraph.tasks.runs import bundle_of
from quatgraph.training.bundle import save_bundle

Weighted = Sequence[tuple[Any, int]]


def bundled(task: str, members: Weighted, data: Any, folder: Path) -> list[Path]:
    """A bundle of all members, first runs of configurations with their weights; and one of each
    alone."""
    hooks, picks = TASKS[task], []
    for config, weight in members:
        (outcome,) = run(hooks, hooks.members(config, data)[:1], data)
        picks.append((outcome, 0, weight))
    paths = []
    for name, some in (("all", picks), *((str(n), [pick]) for n, pick in enumerate(picks))):
        save_bundle(folder / name, bundle_of(hooks, some, data))
        paths.append(folder / name)
    return paths


def node(folder: Path) -> tuple[list[Path], list[int]]:
    """Members that need another scaling, and another matrix, of the same graph."""
    folder.mkdir(exist_ok=True)
    x = torch.rand(24, 3, generator=torch.Generator().manual_seed(1))
    nodes = [f"n{k},{'ab'[k % 2]},{x[k, 0] + k % 2},{x[k, 1]},{x[k, 2]}" for k in range(24)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,u,v,w", *nodes]))
    edges = [f"n{k},n{(k + 2) % 24}" for k in range(24)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    here = {"data.name": "", "data.path": str(folder)}
    ways = {"data.scaling": "standard"}, {"model.name": "gcn", "data.scaling": "none"}
    configs = [karate.config_of(**here, **way) for way in ways]
    data = TASKS["node"].load(configs[0])
    return bundled("node", [(configs[0], 3), (configs[1], 1)], data, folder), [3, 1]


def graph(folder: Path) -> tuple[list[Path], list[int]]:
    """Members that start from tags, from degrees, and from propagated tags."""
    folder.mkdir(exist_ok=True)
    path = rings.written(folder / "rings.jsonl", rings.lines())
    ways: list[dict[str, Any]] = [
        {},
        {"data.features": "degrees", "model.name": "gat"},
        {"model.name": "gfn", "model.hidden_quats": 3},
    ]
    configs = [rings.config_of(**{"data.path": str(path)}, **way) for way in ways]
    weights = [2, 1, 1]
    data = TASKS["graph"].load(configs[0])
    return bundled("graph", list(zip(configs, weights, strict=True)), data, folder), weights


def link(folder: Path) -> tuple[list[Path], list[int]]:
    """SimQGNN and QuatE."""
    ways = {}, {"model.name": "embeddings", "model.decoder": "quate", "model.dim_quats": 3}
    configs = [cities.config_of(**way) for way in ways]
    data = cities.with_negatives(cities.cities())
    return bundled("link", [(configs[0], 1), (configs[1], 4)], data, folder), [1, 4]


def text(folder: Path) -> tuple[list[Path], list[int]]:
    """Members with fixed vectors, with learned ones, and with words of their own."""
    folder.mkdir(exist_ok=True)
    path = reviews.written(folder / "reviews.csv")
    vectors = reviews.vector_file(folder / "vectors.txt")
    ways: list[dict[str, Any]] = [
        {"model.learned_vectors": False},
        {"model.name": "texting", "model.learned_vectors": True, "data.window": 4},
        {"model.name": "fasttext"},
        {"model.name": "bilstm", "model.learned_vectors": False},
    ]
    here = {"data.path": str(path), "data.vectors": str(vectors)}
    configs = [reviews.config_of(**here, **way) for way in ways]
    weights = [1, 2, 1, 3]
    data = TASKS["text"].load(configs[0])
    return bundled("text", list(zip(configs, weights, strict=True)), data, folder), weights
