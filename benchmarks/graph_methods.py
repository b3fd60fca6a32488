"""Graph models: an epoch of all folds on MUTAG, alternating with QGNN, and the memory of the
largest steps and evaluation on COLLAB, each in a separate process."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.measure import held, peak, reset_resident, resident_peak, shortened
from quatgraph.errors import UserError
from quatgraph.presets import names
from quatgraph.reproduce.table import load_table
from quatgraph.tasks.ensembles import split_group
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph import task as graph_task
from quatgraph.tasks.graph.evaluation import build_chunks
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit

TIMED = {
    "QGNN": ("qgnn",),
    "DGCNN, batch 50": ("dgcnn",),
    "DGCNN, batch 4": ("dgcnn", "train.batch_size=4"),
}
"""The preset of each variant, and what is changed in it; the first is what the others are timed
beside."""
SMALL, LARGE = "mutag", "collab"
EPOCHS, ROUNDS = 5, 5
MOST, SPARED = 12 << 30, 4 << 30
"""Bytes that a process may allocate, and that it leaves to the machine."""
SECONDS = 900
"""After which a process is given up."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    yield from _epochs(device)
    for method in methods():
        yield _memory(method, device)


def methods() -> list[str]:
    """The methods of the table that have a preset on the large dataset."""
    table = load_table("graph")
    return [name for name in table.columns if f"graph/{LARGE}-{name}" in names("graph")]


def _epochs(device: torch.device) -> Iterator[dict[str, Any]]:
    """The median milliseconds of an epoch, and the median of paired ratios."""
    members = {
        title: _members(f"graph/{SMALL}-{name}", EPOCHS, *settings)
        for title, (name, *settings) in TIMED.items()
    }
    found: dict[str, list[float]] = {title: [] for title in TIMED}
    for turn in range(ROUNDS + 1):  # the first is a warm-up
        for title in sorted(TIMED, reverse=bool(turn % 2)):
            found[title].append(1e3 * _train(members[title], device) / EPOCHS)
    first = next(iter(TIMED))
    for title, times in found.items():
        pairs = zip(times[1:], found[first][1:], strict=True)
        yield {
            "case": f"{SMALL}, {len(members[title])} folds",
            "work": "training epoch",
            "variant": title,
            "ms": round(median(times[1:]), 3),
            "ratio": round(median(own / other for own, other in pairs), 2),
        }


def _members(name: str, epochs: int, *settings: str) -> list[Member]:
    config = shortened(name, epochs, *settings)
    return GRAPH.members(config, GRAPH.load(config))


def _train(members: list[Member], device: torch.device) -> float:
    """Trains all runs, without an evaluation before the last epoch; the seconds."""
    problem = GRAPH.prepare(GRAPH.load(members[0].config), members[0].config, device)
    return GRAPH.train(members, problem, GRAPH.plan(members)).seconds


def _memory(method: str, device: torch.device) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.graph_methods", method, device.type]
    row = {"case": f"{LARGE}, all folds", "work": "the largest steps and chunk", "variant": method}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return row | {"outcome": f"no result in {SECONDS // 60} minutes"}
    except subprocess.CalledProcessError as error:
        last = error.stderr.strip().splitlines()[-1:] or [f"exit code {error.returncode}"]
        return row | {"outcome": last[0]}
    return row | json.loads(done.stdout.splitlines()[-1])


class _Measured(Exception):  # noqa: N818
    """Stops training after its largest steps and the largest chunk of its evaluation."""


def measure_memory(method: str, device: torch.device) -> dict[str, Any]:
    """The peak memory of the first ensemble of all folds: with the steps that have the most nodes,
    the most entries and the largest graph."""
    config = shortened(f"graph/{LARGE}-{method}", 1)
    data = GRAPH.load(config)
    problem = GRAPH.prepare(data, config, device)
    members = GRAPH.members(config, data)
    try:
        together = GRAPH.max_members(problem, config)
    except UserError as error:
        return {"outcome": f"refused: {error}"}
    group = split_group(members, together)[0]

    def largest_steps(
        ensemble: Any, optimizer: Any, *, loss: Any, evaluate: Any, batches: Any, plan: Any
    ) -> Fit:
        ensemble.train()
        for step in _largest(batches.draw(0)):
            value = loss(*batches.load(step))
            optimizer.zero_grad()
            value.sum().backward()
            optimizer.step()
        with torch.no_grad():
            ensemble.eval()
            evaluate()
        raise _Measured

    with ExitStack() as stack:
        first = patch.object(
            graph_task, "build_chunks", lambda *args, **how: build_chunks(*args, **how)[:1]
        )
        for change in (patch.object(graph_task, "fit", largest_steps), first):
            stack.enter_context(change)
        before = held(device)
        with suppress(_Measured):
            GRAPH.train(group, problem, GRAPH.plan(group))
    used = peak(device, before) or resident_peak()
    return {"members": len(group)} | used


def _largest(capacities: Sequence[Any]) -> list[int]:
    """The steps with the largest capacity of each kind."""
    kinds = ("nodes", "entries", "largest")
    steps = range(len(capacities))
    return sorted(
        {max(steps, key=lambda step: getattr(capacities[step], kind) or 0) for kind in kinds}
    )


def _limit_memory() -> None:
    """Lets the process allocate as much as the machine can spare, on Linux."""
    import resource

    free = Path("/proc/meminfo")
    if free.is_file():
        (kib,) = (
            line.split()[1]
            for line in free.read_text().splitlines()
            if line.startswith("MemAvailable:")
        )
        limit = min(MOST, max(0, 1024 * int(kib) - SPARED))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def main() -> None:
    method, device = sys.argv[1:]
    if device == "cpu":
        _limit_memory()
        reset_resident()
    print(json.dumps(measure_memory(method, torch.device(device))))


if __name__ == "__main__":
    main()
