"""Records of runs that were never made."""

import dataclasses
from pathlib import Path
from typing import Any

from quatgraph import config as configs
from quatgraph.presets import Protocol, preset
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord, append_records


def made_up(
    task: str,
    dataset: str,
    method: str,
    /,
    *changes: str,
    protocol: Protocol = "paper",
    **others: Any,
) -> RunRecord:
    """A run of a preset, with ``changes`` of its settings and ``others`` of the record's fields."""
    values = configs.override(preset(f"{task}/{dataset}-{method}", protocol), changes)
    config = configs.build(TASKS[task].config, values).identity()
    fields = {
        "task": task,
        "dataset": dataset,
        "method": method,
        "protocol": protocol,
        "split": 0,
        "seed": 0,
        "config": config,
        "config_digest": configs.digest(config),
        "data_digest": "d",
        "members": {},
        "metrics": {},
        "best_epoch": 1,
        "epochs_run": 1,
        "parameters": 100,
        "seconds": 2.0,
        "ensemble": "e",
        "curves": {},
        "environment": {},
        "finished": "2030-01-01T00:00:00+00:00",
    }
    return RunRecord(**fields | others)


def write_runs(path: Path, method: str, accuracy: float, /, **others: Any) -> None:
    """Runs of a method on three splits of cora, the second of this accuracy."""
    values = [accuracy - 0.02, accuracy, accuracy + 0.01]
    records = [
        made_up("node", "cora", method, split=split, curves={"valid/accuracy": values}, **others)
        for split in range(3)
    ]
    metrics = [{"valid/accuracy": 0.9, "test/accuracy": value} for value in values]
    pairs = zip(records, metrics, strict=True)
    append_records(path, [dataclasses.replace(one, metrics=own) for one, own in pairs])
