"""Full trainings of node classification under the paper's protocol."""

import dataclasses
import time
from collections.abc import Iterator
from typing import Any

import torch

from quatgraph import config as configs
from quatgraph.models.node import QGNN
from quatgraph.presets import preset
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig

SEEDS = {"cpu": 1, "cuda": 10}
DATASETS = {"cpu": ("cora",), "cuda": ("cora", "citeseer", "pubmed")}


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for dataset in DATASETS[device.type]:
        base = configs.build(NodeConfig, preset(f"node/{dataset}-qgnn"))
        data = NODE.load(base)
        for masks in ("real", "quaternion"):
            assert isinstance(base.model, QGNN.Options)
            model = dataclasses.replace(base.model, masks=masks)
            config = dataclasses.replace(base, seeds=SEEDS[device.type], model=model)
            for layout in ("sparse", "dense") if device.type == "cuda" else ("sparse",):
                problem = NODE.prepare(data, config, device, layout=layout)
                runs = NODE.members(config, data)
                began = time.perf_counter()
                fit = NODE.train(runs, problem, NODE.plan(runs))
                whole = time.perf_counter() - began
                yield {
                    "case": f"{dataset}, {len(runs)} runs, {config.train.epochs} epochs",
                    "variant": f"{4 if masks == 'real' else 1} masks, {layout} features",
                    "work": "training",
                    "seconds": round(fit.seconds, 4),
                    "seconds_with_start": round(whole, 4),
                    "test_accuracy": round(float(fit.metrics["test/accuracy"].mean()), 4),
                }
