"""Full trainings of node classification under the paper's protocol, and of a deep network."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any, Literal

import torch

from quatgraph import config as configs
from quatgraph.models.node import QGNN, DeepQGNN
from quatgraph.presets import preset
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig

SEEDS = {"cpu": 1, "cuda": 10}
DATASETS = {"cpu": ("cora",), "cuda": ("cora", "citeseer", "pubmed")}


Layout = Literal["sparse", "dense"]
LAYOUTS: dict[str, tuple[Layout, ...]] = {"cpu": ("sparse",), "cuda": ("sparse", "dense")}
DEEP_EPOCHS, DEEP_SEEDS = 700, 4


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for dataset in DATASETS[device.type]:
        base = configs.build(NodeConfig, preset(f"node/{dataset}-qgnn"))
        for masks in ("real", "quaternion"):
            assert isinstance(base.model, QGNN.Options)
            model = dataclasses.replace(base.model, masks=masks)
            config = dataclasses.replace(base, seeds=SEEDS[device.type], model=model)
            for layout in LAYOUTS[device.type]:
                variant = f"{4 if masks == 'real' else 1} masks, {layout} features"
                yield train(config, device, variant, layout)
    if device.type == "cuda":
        yield deep(device)


def deep(device: torch.device) -> dict[str, Any]:
    """Deep QGNN on Cora, all runs as one ensemble."""
    settings = [f"train.epochs={DEEP_EPOCHS}"]
    values = configs.override(preset("node/cora-deep-qgnn"), settings) | {"seeds": DEEP_SEEDS}
    config = configs.build(NodeConfig, values)
    assert isinstance(config.model, DeepQGNN.Options)
    variant = f"Deep QGNN, {config.model.num_layers} layers of {4 * config.model.hidden_quats}"
    return train(config, device, variant, "sparse")


def train(config: NodeConfig, device: torch.device, variant: str, layout: Layout) -> dict[str, Any]:
    """A row: the time of all runs of a configuration as one ensemble."""
    data = NODE.load(config)
    problem = NODE.prepare(data, config, device, layout=layout)
    runs = NODE.members(config, data)
    began = time.perf_counter()
    fit = NODE.train(runs, problem, NODE.plan(runs))
    whole = time.perf_counter() - began
    return {
        "case": f"{config.data.name}, {len(runs)} runs, {config.train.epochs} epochs",
        "variant": variant,
        "work": "training",
        "seconds": round(fit.seconds, 4),
        "seconds_with_start": round(whole, 4),
        "test_accuracy": round(float(fit.metrics["test/accuracy"].mean()), 4),
    }
