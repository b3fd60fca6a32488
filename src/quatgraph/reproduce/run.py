"""Runs the missing cells of a table, and grid searches."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.presets import Protocol, parts, preset, protocols
from quatgraph.reproduce.table import Table, honest_finalists, protocols_to_run, select_runs
from quatgraph.tasks import TASKS
from quatgraph.tasks.config import Config
from quatgraph.tasks.ensembles import Problems
from quatgraph.tasks.runs import train_ensembles
from quatgraph.tasks.task import AnyTask, Member
from quatgraph.training.checkpoint import remove_checkpoint
from quatgraph.training.context import Context
from quatgraph.training.record import RunRecord, append_records, read_records

Done = set[tuple[str, str, int, int]]
"""Recorded runs: method, digest of the configuration, split and seed."""


class IncompleteError(UserError):
    """Some cells cannot be run, for want of data or memory; all others have been."""


def read_results(results: Path) -> list[RunRecord]:
    """All records in a results folder."""
    records = results / "records"
    return read_records(records) if records.exists() else []


def _records_file(results: Path, name: str) -> Path:
    return results / "records" / f"{name}.jsonl"


def run_missing(
    table: Table, results: Path, context: Context, *, only: Sequence[str] = ()
) -> Iterator[list[RunRecord]]:
    """Runs what is missing in a table: presets, ablations, seeds of finalists; never searches.

    Appends the records of each finished ensemble, so an interrupted call can be repeated.

    Raises:
        IncompleteError: Some cells cannot be run; all others have been.
    """
    task, records = TASKS[table.task], read_results(results)
    done = recorded_runs(records)
    mistakes: dict[str, list[str]] = {}
    for dataset, method in table.cells(only):
        for several, name in _plan_runs(table, dataset, method, records):
            file = _records_file(results, name)
            made = [configs.build(task.config, v | {"seeds": table.seeds}) for v in several]
            missing = [c for c in made if not _all_runs(c, method, table.splits) <= done]
            if not missing:  # then no data is needed
                continue
            try:  # later mistakes, such as a full disk, concern all cells
                trained = _run_configs(task, missing, method, file, done, context)
            except UserError as mistake:
                mistakes.setdefault(str(mistake), []).append(f"{dataset}-{method}")
                continue
            for finished in trained:
                records += finished
                done |= recorded_runs(finished)
                yield finished
    if mistakes:
        reasons = (f"{', '.join(cells)}: {mistake}" for mistake, cells in mistakes.items())
        raise IncompleteError(f"cannot run what is not recorded yet: {'; '.join(reasons)}")


def _plan_runs(
    table: Table, dataset: str, method: str, records: Sequence[RunRecord]
) -> Iterator[tuple[list[dict[str, Any]], str]]:
    """Yields groups of configurations of a cell to run together, and the name of their file.

    The caller adds new records to ``records`` between two groups.
    """
    name = table.preset_of(dataset, method)
    if name is None:
        return
    # Both protocols in one group: they share ensembles if the task allows it.
    run_protocols = protocols_to_run(table.task)
    yield [preset(name, protocol) for protocol in run_protocols], f"{table.task}-{dataset}"
    for changes in table.ablations.get(method, []):
        yield [configs.override(preset(name, "paper"), changes)], f"{table.task}-fidelity"
    if "honest" not in run_protocols:
        tried = select_runs(table, records, dataset, method, "honest")
        runs = honest_finalists(table, tried)
        finalists = {run.config_digest: run.config for run in runs}
        yield list(finalists.values()), f"{table.task}-{dataset}-search"


def search(
    name: str, results: Path, context: Context, *, seeds: int = 1, overrides: Sequence[str] = ()
) -> Iterator[list[RunRecord]]:
    """Runs a grid search around a preset, under each protocol that the task searches.

    The grid is that of the task, without hyperparameters that the model does not have. Runs of two
    protocols may share an ensemble.

    Args:
        overrides: ``key=value`` fixes a hyperparameter, ``key=[value, ...]`` sets its candidates.
    """
    task_name, dataset, method = parts(name)
    task, rules = TASKS[task_name], protocols(task_name)
    set_ = configs.flatten(configs.override({}, overrides))
    if "protocol" in set_:
        raise UserError(
            f"search always runs under {' and '.join(rules['searched'])}; do not set protocol"
        )
    fixed = {key: [value] for key, value in set_.items() if not isinstance(value, list)}

    def base_values(protocol: Protocol) -> dict[str, Any]:
        return configs.replace_model(task.config, preset(name, protocol), set_.get("model.name"))

    (plain,) = configs.expand_grid(base_values(rules["searched"][0]), fixed)
    values = configs.to_dict(configs.build(task.config, plain))
    lists = configs.restrict_grid(rules["grid"], values, fixed=set_)
    candidates = [
        configs.build(task.config, made | {"seeds": seeds})
        for protocol in rules["searched"]
        for made in configs.expand_grid(base_values(protocol), lists | set_ | fixed)
    ]
    done = recorded_runs(read_results(results))
    file = _records_file(results, f"{task_name}-{dataset}-search")
    yield from _run_configs(task, candidates, method, file, done, context)


def recorded_runs(records: Sequence[RunRecord]) -> Done:
    """What identifies the runs of some records."""
    return {(r.method, r.config_digest, r.split, r.seed) for r in records}


def _all_runs(config: Config, method: str, splits: int) -> Done:
    digest = configs.digest(config.identity())
    seeds = range(config.seeds)
    return {(method, digest, split, seed) for split in range(splits) for seed in seeds}


def _run_configs(
    task: AnyTask,
    candidates: Sequence[Config],
    method: str,
    file: Path,
    done: Done,
    context: Context,
) -> Iterator[list[RunRecord]]:
    """Prepares what is not ``done`` of configurations that share their data; the iterator trains
    and records it."""
    data = task.load(candidates[0])
    missing = []
    for config in candidates:
        digest = configs.digest(config.identity())
        for member in task.members(config, data):
            if (method, digest, member.split, member.seed) not in done:
                missing.append(member)
    problems = Problems(task, data, context.device)
    return _train(problems, problems.make_ensembles(missing), method, file, context)


def _train(
    problems: Problems[Any, Any, Any],
    ensembles: Sequence[list[Member[Any]]],
    method: str,
    file: Path,
    context: Context,
) -> Iterator[list[RunRecord]]:
    """Trains ensembles, and appends their records to a file."""
    checkpoints = file.parent.with_name("checkpoints")
    outcomes = train_ensembles(
        problems,
        ensembles,
        replace(context, resume=True),
        method=method,
        checkpoint=lambda ensemble: checkpoints / ensemble,
    )
    for outcome in outcomes:
        records = outcome.records
        del outcome  # and with it the weights, before the next ones are trained
        append_records(file, records)
        checkpoint = checkpoints / records[0].ensemble
        remove_checkpoint(checkpoint)
        for folder in (checkpoint, checkpoints):
            with suppress(OSError):  # not empty, or never made
                folder.rmdir()
        yield records
