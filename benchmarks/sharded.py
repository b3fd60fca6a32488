"""Entities of a knowledge graph sharded over two processes, compared with one process.

Every variant runs in separate processes, several times, alternating with the others. The time on
all cores shows how much a variant computes even if other work slows it down.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from benchmarks.measure import measure, reset_resident, resident_peak
from quatgraph import config as configs
from quatgraph.cli.common import retain_freed_memory
from quatgraph.data.link import Triples
from quatgraph.tasks.ensembles import Problems
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.sharded import ShardedLinkTask
from quatgraph.tasks.link.task import LinkTask
from quatgraph.tasks.task import Member
from quatgraph.training.launch import Launch
from quatgraph.training.loop import Plan

CPU = torch.device("cpu")
ENTITIES, SMALLER, QUATS, BATCH = 40_000, 20_000, 64, 1_024
RELATIONS, STEPS, EPOCHS, ROUNDS = 50, 1, 3, 2
"""Relations of the graph; steps of an epoch, epochs (the first warms up) and repetitions."""
BYTES = [1 << size for size in (12, 16, 18, 20, 22, 24, 26)]
VARIANTS = {
    "one process, two threads": (1, 2),
    "one process, one thread": (1, 1),
    "two processes, one thread each": (2, 1),
}
"""Processes, and threads of each."""


@dataclass(frozen=True)
class Work:
    """The work of a benchmark process: a training run, or all-reduces of a given size."""

    entities: int
    threads: int
    sizes: Sequence[int] = ()
    batch: int = BATCH
    quats: int = QUATS


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    """Times and memory of a training, with and without shards, and times of all-reduces; nothing on
    a GPU."""
    if device.type != "cpu":
        return
    found: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in VARIANTS}
    for _ in range(ROUNDS):
        for name, (processes, threads) in VARIANTS.items():
            work = Work(ENTITIES, threads, batch=BATCH, quats=QUATS)
            found[name].append(_run(processes, work))
    case = f"{ENTITIES:,} entities, {4 * QUATS} reals, batches of {BATCH:,}"
    least = 0.0
    for name, rounds in found.items():
        times = [ms for ranks in rounds for ms in ranks[0]["ms"]]
        low, *_, high = statistics.quantiles(times, n=5)
        middle = statistics.median(times)
        least = least or middle
        smaller = Work(SMALLER, VARIANTS[name][1], batch=BATCH, quats=QUATS)
        less = max(one["peak_mib"] for one in _run(VARIANTS[name][0], smaller))
        peak = statistics.median(max(one["peak_mib"] for one in ranks) for ranks in rounds)
        spent = statistics.median(sum(one["cpu_ms"] for one in ranks) for ranks in rounds)
        start = statistics.median(ranks[0]["start_mib"] for ranks in rounds)
        numbers = {
            "ms": round(middle, 1),
            "ms_20": round(low, 1),
            "ms_80": round(high, 1),
            "ratio": round(middle / least, 3),
            "cpu_ms": round(spent, 1),
            "peak_mib": round(peak, 1),
            "start_mib": round(start, 1),
            "width": 4 * QUATS,
            "bytes_per_entity": round(2**20 * (peak - less) / (ENTITIES - SMALLER)),
        }
        yield {"case": case, "work": "training step", "variant": name, **numbers}
    (first, _) = _run(2, Work(0, 1, BYTES))
    for size, timed in zip(BYTES, first["reduced"], strict=True):
        yield {"case": "gloo, two processes", "work": _size(size), "variant": "all-reduce", **timed}


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def _run(processes: int, work: Work) -> list[dict[str, Any]]:
    """What processes measure."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(work.threads),
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.sharded", json.dumps(asdict(work))],
            env=os.environ | shared | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError("a process of the benchmark failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def main(work: Work) -> None:
    """A process of the benchmark: prints what it measures."""
    retain_freed_memory()
    torch.set_num_threads(work.threads)
    launch = Launch.find()
    alone = launch is None or launch.world_size == 1
    with nullcontext() if alone or launch is None else launch.joined():
        measured = _reduce(work.sizes) if work.sizes else _train(work, None if alone else launch)
    print(json.dumps(measured))


def _reduce(sizes: Sequence[int]) -> dict[str, Any]:
    """Times all-reduces."""
    found = []
    for size in sizes:
        value = torch.ones(size // 4)

        def reduce(value: Tensor = value) -> None:
            dist.all_reduce(value)
            value.mul_(0.5)

        found.append(measure(reduce, CPU, repeats=20))
    return {"reduced": found}


def _train(work: Work, launch: Launch | None) -> dict[str, Any]:
    """Trains on random triples: the time of each step, by epochs, and the memory at its peak."""
    triples, config = made_triples(work), config_of(work)
    reset_resident()
    start = resident_peak().get("peak_mib", float("nan"))
    marks: list[tuple[float, float]] = []

    def mark(done: int, total: int) -> None:
        marks.append((time.perf_counter(), time.process_time()))

    if launch is None:
        _fit(LINK, triples, config, mark)
    else:
        task = _Marked(launch)
        task.mark = mark
        if launch.rank:
            task.follow(triples, CPU)
        else:
            with task.leading():
                _fit(task, triples, config, mark)
    # The last epoch is followed by an evaluation.
    steps = [1000 * (after - before) / STEPS for (before, _), (after, _) in pairwise(marks[:-1])]
    cpu = 1000 * statistics.median(b - a for (_, a), (_, b) in pairwise(marks[:-1])) / STEPS
    peak = resident_peak().get("peak_mib", start)
    return {"ms": steps, "cpu_ms": cpu, "start_mib": start, "peak_mib": peak}


class _Marked(ShardedLinkTask):
    """Marks the epochs of every rank."""

    mark: Callable[[int, int], None]

    def plan(self, members: Sequence[Member[LinkConfig]]) -> Plan:
        return replace(super().plan(members), progress=self.mark)


def _fit(
    task: LinkTask, triples: Triples, config: LinkConfig, mark: Callable[[int, int], None]
) -> None:
    members = [Member(config, 0, 0)]
    plan = replace(task.plan(members), progress=mark)
    task.train(members, Problems(task, triples, CPU).prepare(config), plan)


def made_triples(work: Work) -> Triples:
    """Random triples: so many queries that an epoch has :data:`STEPS` whole batches."""
    draw = torch.Generator().manual_seed(0)
    count = STEPS * work.batch // 2
    pairs = torch.randperm(work.entities * RELATIONS, generator=draw)[: count + 200]
    head, relation = pairs // RELATIONS, pairs % RELATIONS
    # Each tail once, so that no two triples share an inverse query.
    tail = torch.randperm(work.entities, generator=draw).repeat(1 + len(pairs) // work.entities)
    every = torch.stack((head, relation, tail[: len(pairs)]), dim=1)
    names = [str(entity) for entity in range(work.entities)]
    kinds = [str(kind) for kind in range(RELATIONS)]
    return Triples(
        name="random",
        train=every[:count],
        valid=every[count : count + 100],
        test=every[count + 100 :],
        entities=names,
        relations=kinds,
        entity_labels=names,
        relation_labels=kinds,
    )


def config_of(work: Work) -> LinkConfig:
    return configs.build(
        LinkConfig,
        {
            "data": {"path": "random"},
            "model": {"name": "embeddings", "decoder": "complex", "dim_quats": work.quats},
            "train": {
                "epochs": EPOCHS + 1,
                "batch_size": work.batch,
                "n3": 0.01,
                "evaluate_every": EPOCHS + 1,
            },
        },
    )


if __name__ == "__main__":
    main(Work(**json.loads(sys.argv[1])))
