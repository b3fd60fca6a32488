"""Models of triples: a training epoch of each at equal width and batch size and, on a CPU, of the
same model in PyKEEN."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.measure import held, peak, training_seconds
from quatgraph import config as configs
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig

DATASETS = {"cpu": ("codex-s", 3), "cuda": ("codex-m", 10)}
"""A dataset and a number of epochs for each kind of device."""
MODELS: dict[str, dict[str, Any]] = {
    "SimQGNN": {"name": "simqgnn"},
    "ConvE": {"name": "conve"},
    "TuckER": {"name": "tucker"},
    "R-GCN": {"name": "rgcn", "num_layers": 1},
    "SACN": {"name": "sacn", "num_layers": 1},
    "CompGCN, correlation": {"name": "compgcn"},
    "CompGCN, product": {"name": "compgcn", "composition": "mult"},
    "RelQGNN": {"name": "relqgnn"},
    "RESCAL": {"name": "rescal"},
    "DistMult": {"name": "embeddings"},
}
WIDTH, BATCH = 128, 1024
TRAIN = {
    "batch_size": BATCH,
    "loss": "bce",
    "precision": "tf32",
    "select": "last",
    "patience": "none",
}


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    dataset, epochs = DATASETS[device.type]
    row = {"case": f"{dataset}, {WIDTH} wide", "work": f"training epoch, batches of {BATCH:,}"}
    triples = LINK.load(configs.build(LinkConfig, {"data": {"name": dataset}}))

    def measure(model: dict[str, Any]) -> dict[str, Any]:
        values = {
            "data": {"name": dataset},
            "model": model | {"dim_quats": WIDTH // 4},
            "train": TRAIN | {"epochs": epochs},
        }
        config = configs.build(LinkConfig, values)
        before = held(device)
        seconds = training_seconds(LINK, LINK.members(config, triples), triples, device)
        return {"ms": round(1e3 * seconds / epochs, 3), **peak(device, before)}

    measure(MODELS["SimQGNN"])  # has one-time costs
    first = 0.0
    for title, model in MODELS.items():
        found = measure(model)
        first = first or found["ms"]
        yield row | {"variant": title, **found, "ratio": round(found["ms"] / first, 2)}
    if device.type == "cpu" and find_spec("pykeen"):
        from benchmarks.peers_link import epochs_of_models

        yield from epochs_of_models(WIDTH, BATCH)
