"""Full trainings of graph classification under the paper's protocol."""

import time
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

import torch

from quatgraph import config as configs
from quatgraph.models.graph import LayeredOptions
from quatgraph.presets import preset, protocols
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.runs import run
from quatgraph.training.context import Context

DATASETS = {"cpu": ("mutag",), "cuda": ("mutag", "imdb-b")}
"""Trained with the preset of QGNN."""
GRIDS = {"cpu": (), "cuda": ("mutag",)}
"""Trained with every configuration of the paper's search."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for dataset in DATASETS[device.type]:
        yield _trained(f"{dataset}, QGNN", [preset(f"graph/{dataset}-qgnn")], device)
    for dataset in GRIDS[device.type]:
        grid = configs.expand_grid(preset(f"graph/{dataset}-qgnn"), protocols("graph")["grid"])
        yield _trained(f"{dataset}, QGNN, the paper's grid", grid, device)


def _trained(
    case: str, candidates: Sequence[dict[str, Any]], device: torch.device
) -> dict[str, Any]:
    """A row for all folds of the configurations, trained as ensembles."""
    tried = [configs.build(GraphConfig, values) for values in candidates]
    graphs = GRAPH.load(tried[0])
    members = [member for config in tried for member in GRAPH.members(config, graphs)]
    seconds, tests = 0.0, []
    began = time.perf_counter()
    for outcome in run(GRAPH, members, graphs, Context(device)):
        seconds += outcome.fit.seconds
        tests += [record.metrics["test/accuracy"] for record in outcome.records]
    whole = time.perf_counter() - began
    return {
        "case": f"{case}, {len(members):,} runs, {tried[0].train.epochs} epochs",
        "variant": _shape(tried),
        "work": "training",
        "seconds": round(seconds, 4),
        "seconds_with_start": round(whole, 4),
        "test_accuracy": round(fmean(tests), 4),
    }


def _shape(tried: Sequence[GraphConfig]) -> str:
    if len(tried) > 1:
        return f"{len(tried)} configurations"
    (config,) = tried
    model = config.model
    assert isinstance(model, LayeredOptions)
    sizes = f"{model.num_layers} layers, {model.hidden_quats} quaternions"
    return f"{sizes}, batch {config.train.batch_size}"
