"""Where training time goes: the operations of an epoch, by kind."""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.measure import shortened
from quatgraph.tasks import TASKS
from quatgraph.tasks.ensembles import split_group
from quatgraph.tasks.task import Member

CASES: dict[str, list[tuple[str, int, int]]] = {
    "cpu": [
        ("node/cora-qgnn", 1, 10),
        ("graph/mutag-qgnn", 1, 1),
        ("link/codex-s-simqgnn", 1, 2),
        ("text/mr-textqgnn", 1, 1),
    ],
    "cuda": [
        ("node/cora-qgnn", 10, 100),
        ("graph/proteins-qgnn", 1, 4),
        ("link/codex-m-simqgnn", 1, 4),
        ("text/mr-textqgnn", 10, 4),
    ],
}
"""Presets, seeds, and epochs."""

KINDS = {
    "matrix products": r"gemm|nvjet|splitk|cutlass|aten::(b?add)?b?mm|aten::addmv",
    "neighbour sums": r"sum_rows|_join_pieces|_entry_products|embedding_bag|::aggregate",
    "score gradients": r"_score_grads|_log_sum_exp|_scaled|_padded|_cross_entropy",
    "norms and activations": r"_norm_|tanh|relu|aten::elu|softplus|sigmoid",
    "gates and attention": r"_open_gates|_update_(kernel|backward)|_pool_(kernel|backward)",
    "row lookups": r"_table|_batch_rows|aten::index|aten::gather|gather_kernel<|::lookup",
    "Adam and gradient layout": r"_adam|_adagrad|_squares|_concat_columns|_fused_adam",
    "dropout": r"distribution|rand|dropout|_take_step",
    "Hamilton matrices": r"_spread|_gather_kernel$",
    "copies and fills": r"memcpy|memset|fill|copy|aten::zero|aten::cat|aten::stack",
    "other": r"",
}
"""Kinds by the name of a kernel or an operation; the first match wins."""


def rows(device: torch.device) -> Iterator[dict[str, Any]]:
    for name, seeds, epochs in CASES[device.type]:
        yield _epoch(_Training(name, seeds, device), epochs)


class _Training:
    """Runs of a preset for a variable number of epochs."""

    def __init__(self, name: str, seeds: int, device: torch.device) -> None:
        self.name, self.seeds, self.device = name, seeds, device
        self.task = TASKS[name.partition("/")[0]]
        self.data = self.task.load(self._config(1))
        self.runs = len(self._members(1))

    def seconds(self, epochs: int) -> float:
        """The training time, with a single evaluation that takes no time."""
        members, seconds = self._members(epochs), 0.0
        problem = self.task.prepare(self.data, members[0].config, self.device)
        for part in split_group(members, self.task.max_members(problem, members[0].config)):
            plan = replace(self.task.plan(part), evaluate_every=epochs)
            seconds += self.task.train(part, problem, plan).seconds
        return seconds

    def work(self, epochs: int) -> dict[str, tuple[float, float]]:
        """Milliseconds and operations on the device, by kind."""
        on_gpu = self.device.type == "cuda"
        activity = ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or torch writes to the screen
        with profile(activities=[activity], acc_events=True) as profiled:
            self.seconds(epochs)
        found = dict.fromkeys(KINDS, (0.0, 0.0))
        for event in profiled.key_averages():
            ms, operations = found[kind := kind_of(event.key)]
            taken = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            found[kind] = ms + taken / 1e3, operations + event.count
        return found

    def _config(self, epochs: int) -> Any:
        return shortened(self.name, epochs, seeds=self.seeds)

    def _members(self, epochs: int) -> list[Member]:
        return self.task.members(self._config(epochs), self.data)


def _epoch(training: _Training, epochs: int) -> dict[str, Any]:
    """The time of an epoch of all runs without validation: milliseconds and operations by kind,
    the largest first."""
    once, seconds = training.work(epochs), training.seconds(epochs)
    twice = training.work(2 * epochs)
    # What twice the epochs take more: what is done once, as the evaluation, does not count, nor for
    # a GPU what its first step takes (but that of shapes which only the longer training meets).
    more = {
        kind: [(b - a) / epochs for a, b in zip(once[kind], twice[kind], strict=True)]
        for kind in KINDS
    }
    spent = sorted(more.items(), key=lambda item: -item[1][0])
    runs = "1 run" if training.runs == 1 else f"{training.runs} runs"
    return {
        "case": f"{training.name}, {runs}",
        "work": "training",
        "variant": "an epoch",
        "ms": round(1e3 * seconds / epochs, 4),
        "goes_to": {k: [round(ms, 4), round(count)] for k, (ms, count) in spent if ms >= 1e-4},
    }


def kind_of(name: str) -> str:
    """The kind of a kernel or an operation."""
    return next(kind for kind, names in KINDS.items() if re.search(names, name.lower()))
