"""Runs what a table lacks, and searches on validation data."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from quatgraph import config as configs
from quatgraph.presets import preset, protocols
from quatgraph.reproduce.table import PROTOCOLS, Table
from quatgraph.tasks import TASKS
from quatgraph.training.checkpoint import remove_checkpoint
from quatgraph.training.record import RunRecord, append_records, read_records
from quatgraph.training.runtime import NO_DEADLINE, Deadline

Progress = Callable[[str, int, int], None]


def read_results(results: Path) -> list[RunRecord]:
    """All records below a results folder."""
    records = results / "records"
    return read_records(records) if records.exists() else []


def run_missing(
    table: Table,
    results: Path,
    *,
    only: Sequence[str] = (),
    device: torch.device,
    deadline: Deadline = NO_DEADLINE,
    progress: Progress = lambda title, done, total: None,
) -> Iterator[list[RunRecord]]:
    """Runs the presets a table still lacks, under both protocols, and its ablations; never
    searches.

    Records are appended as each ensemble finishes, so an interrupted call goes on from there.
    """
    done = _done(read_results(results))
    for dataset, method in table.cells(only):
        name = table.preset_of(dataset, method)
        if name is None:
            continue
        wanted = [(preset(name, protocol), f"{table.task}-{dataset}") for protocol in PROTOCOLS]
        for changes in table.ablations.get(method, []):
            values = configs.override(preset(name, "paper"), changes)
            wanted.append((values, f"{table.task}-fidelity"))
        for values, file in wanted:
            yield from _run_configs(
                table.task,
                [values | {"seeds": table.seeds}],
                method,
                results,
                file,
                done,
                table.splits,
                device,
                deadline,
                progress,
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
    values = configs.override(preset(name, "honest"), overrides) | {"seeds": seeds}
    task, cell_name = name.split("/")
    dataset, _, method = cell_name.partition("-")
    fixed = {item.partition("=")[0].strip() for item in overrides}
    grid = {key: choices for key, choices in protocols(task)["grid"].items() if key not in fixed}
    yield from _run_configs(
        task,
        configs.expand_grid(values, grid),
        method,
        results,
        f"{task}-{dataset}-search",
        _done(read_results(results)),
        None,
        device,
        deadline,
        progress,
    )


def _done(records: Sequence[RunRecord]) -> set[tuple[str, str, int, int]]:
    return {(r.method, r.config_digest, r.split, r.seed) for r in records}


def _run_configs(
    task: str,
    candidates: Sequence[dict[str, Any]],
    method: str,
    results: Path,
    file: str,
    done: set[tuple[str, str, int, int]],
    splits: int | None,
    device: torch.device,
    deadline: Deadline,
    progress: Progress,
) -> Iterator[list[RunRecord]]:
    """Runs configurations whose runs are not ``done``; ``splits`` of them, where that is known."""
    work = TASKS[task]
    built = [work.build(values) for values in candidates]
    digests = [configs.digest(config.identity()) for config in built]
    known = splits is not None and all(
        (method, digest, split, seed) in done
        for config, digest in zip(built, digests, strict=True)
        for split in range(splits)
        for seed in range(config.seeds)
    )
    if known:  # the data need not be at hand
        return
    data = work.load(built[0])
    missing = [
        member
        for config, digest in zip(built, digests, strict=True)
        for member in work.members(config, data)
        if (method, digest, member.split, member.seed) not in done
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
        append_records(results / "records" / f"{file}.jsonl", outcome.records)
        remove_checkpoint(checkpoints / outcome.records[0].ensemble)
        for empty in (checkpoints / outcome.records[0].ensemble, checkpoints):
            with suppress(OSError):  # not empty, or never made
                empty.rmdir()
        yield outcome.records
