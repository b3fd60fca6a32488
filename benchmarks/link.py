"""Knowledge-graph completion: a training epoch, filtered ranks, and a very large loss."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch

from benchmarks.limits import PRECISIONS
from benchmarks.loss import drawn
from benchmarks.measure import held, measure, peak, shortened, training_seconds
from quatgraph import config as configs
from quatgraph.data.link import Triples, random_triples
from quatgraph.ops import one_vs_all_bce
from quatgraph.presets import preset
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import rank_part
from quatgraph.tasks.runs import run
from quatgraph.training.context import Context

Load = Callable[[], Triples]

GRAPHS: dict[str, list[tuple[str, Load, str, int]]] = {
    "cpu": [("codex-s", lambda: _loaded("codex-s"), "link/codex-s-simqgnn", 20)],
    "cuda": [
        ("codex-s", lambda: _loaded("codex-s"), "link/codex-s-simqgnn", 200),
        ("codex-m", lambda: _loaded("codex-m"), "link/codex-m-simqgnn", 20),
        (
            "made up, as large as codex-l",
            lambda: random_triples(77_951, 69, 612_437),
            "link/codex-l-simqgnn",
            3,
        ),
    ],
}
"""Name, loader, preset and epochs of each dataset."""

WHOLE = {"cpu": (), "cuda": ("link/codex-s-simqgnn",)}
"""Presets that are trained in full."""

MANY: dict[str, list[tuple[int, int, int]]] = {"cpu": [], "cuda": [(4_600_000, 256, 1024)]}
"""Entities, reals per vector and queries; the full score matrix would fill the memory."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for case, load, name, epochs in GRAPHS[device.type]:
        triples = load()
        for precision in PRECISIONS[device.type]:
            config = shortened(name, epochs, f"train.precision={precision}")
            row = {"case": case, "work": "training epoch", "variant": f"SimQGNN, {precision}"}
            yield row | _epoch(config, triples, device)
        yield _ranked(case, preset(name), triples, device)
    for name in WHOLE[device.type]:
        yield _whole(name, device)
    for sizes in MANY[device.type]:
        yield _loss(*sizes, device)


def _loaded(name: str) -> Triples:
    return LINK.load(configs.build(LinkConfig, preset(f"link/{name}-simqgnn")))


def _epoch(config: LinkConfig, triples: Triples, device: torch.device) -> dict[str, Any]:
    """The mean time of an epoch, without validation."""
    before = held(device)
    seconds = training_seconds(LINK, LINK.members(config, triples), triples, device)
    return {"ms": round(1e3 * seconds / config.train.epochs, 3), **peak(device, before)}


def _whole(name: str, device: torch.device) -> dict[str, Any]:
    """All epochs with validation, and everything before them."""
    config = configs.build(LinkConfig, preset(name))
    triples = LINK.load(config)
    began = time.perf_counter()
    for _ in run(LINK, LINK.members(config, triples), triples, Context(device)):
        pass
    return {
        "case": config.data.name,
        "work": f"training, {config.train.epochs:,} epochs, each validated",
        "variant": f"SimQGNN, {config.train.precision}",
        "ms": round(1e3 * (time.perf_counter() - began), 1),
    }


def _ranked(
    case: str, values: dict[str, Any], triples: Triples, device: torch.device
) -> dict[str, Any]:
    """Ranks the validation triples from both sides with an untrained model."""
    config = configs.build(LinkConfig, values)
    problem = LINK.prepare(triples, config, device)
    model = LINK.build(config, problem).to(device).eval()
    row = {
        "case": case,
        "work": "filtered ranks of valid triples, both sides",
        "variant": "SimQGNN",
    }
    repeats = 20 if device.type == "cuda" else 5
    return row | measure(partial(rank_part, model, problem, "valid"), device, repeats=repeats)


def _loss(entities: int, width: int, queries: int, device: torch.device) -> dict[str, Any]:
    """The 1-N loss and its gradients; peak memory is without the vectors."""
    q, x, positives = drawn(queries, entities, width, device)

    def both() -> None:
        one_vs_all_bce(q, x, positives).backward()
        x.grad = q.grad = None  # or a gradient would pass for what was held before

    row = {
        "case": f"{queries:,} queries, {entities:,} entities, {width} wide",
        "work": "1-N loss, forward and backward",
        "variant": "tiled",
    }
    return row | measure(both, device, repeats=5)
