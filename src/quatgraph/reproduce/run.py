"""Runs what a table lacks, and searches on validation data."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import torch

from quatgraph import config as configs
from quatgraph.presets import preset, protocols
from quatgraph.reproduce.table import PROTOCOLS, Table
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord, append_records, read_records
from quatgraph.training.runtime import NO_DEADLINE, Deadline, ensure_folder

Progress = Callable[[str, int, int], None]


def read_results(results: Path) -> list[RunRecord]:
    """All records below a results folder."""
    return read_records(ensure_folder(results / "records"))


def run_missing(
    table: Table,
    results: Path,
    *,
    only: Sequence[str] = (),
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    progress: Progress = lambda title, done, total: None,
) -> Iterator[list[RunRecord]]:
    """Runs the presets a table still lacks, under both protocols; never searches.

    Records are appended as each ensemble finishes, so an interrupted call goes on from there.
    """
    for dataset, method in table.cells(only):
        name = table.preset_of(dataset, method)
        if name is None:
            continue
        for protocol in PROTOCOLS:
            values = preset(name, protocol) | {"seeds": table.seeds}
            where = results / "records" / f"{table.task}-{dataset}.jsonl"
            yield from _run_configs(
                table.task, [values], method, where, results, device, deadline, progress
            )


def search(
    name: str,
    results: Path,
    *,
    seeds: int = 1,
    overrides: Sequence[str] = (),
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    progress: Progress = lambda title, done, total: None,
) -> Iterator[list[RunRecord]]:
    """Runs a preset under the protocol ``honest`` with every combination of its task's lists.

    Args:
        overrides: Settings that are fixed to one value, as ``key=value``.
    """
    task, cell_name = name.split("/")
    dataset, _, method = cell_name.partition("-")
    values = configs.override(preset(name, "honest"), overrides) | {"seeds": seeds}
    fixed = {item.partition("=")[0].strip() for item in overrides}
    grid = {key: choices for key, choices in protocols(task)["grid"].items() if key not in fixed}
    where = results / "records" / f"{task}-{dataset}-search.jsonl"
    yield from _run_configs(
        task, configs.expand_grid(values, grid), method, where, results, device, deadline, progress
    )


def _run_configs(
    task: str,
    candidates: Sequence[dict[str, object]],
    method: str,
    where: Path,
    results: Path,
    device: torch.device,
    deadline: Deadline,
    progress: Progress,
) -> Iterator[list[RunRecord]]:
    done = {(r.method, r.config_digest, r.split, r.seed) for r in read_results(results)}
    work = TASKS[task]
    built = [work.build(values) for values in candidates]
    data = work.load(built[0])
    missing = [
        member
        for config in built
        for member in work.members(config, data)
        if (method, configs.digest(config.identity()), member.split, member.seed) not in done
    ]
    checkpoints = results / "checkpoints"
    for outcome in work.run(
        missing,
        data,
        device=device,
        method=method,
        checkpoint=lambda ensemble: checkpoints / ensemble,
        resume=True,
        deadline=deadline,
        progress=progress,
    ):
        append_records(where, outcome.records)
        for empty in (checkpoints / outcome.records[0].ensemble, checkpoints):
            with suppress(OSError):  # not empty, or never made
                empty.rmdir()
        yield outcome.records
