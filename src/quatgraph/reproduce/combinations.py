"""Combinations of methods for a table: several seeds or methods that predict together.

Validation data selects the weights of the members, as for a person's own data. A combination is a
method of its own, never mixed with single models. The score of every test item is stored, of the
combinations and of their members alone, so that any two can be compared item by item.
"""

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import ensure_folder, write_atomic
from quatgraph.reproduce.run import recorded_runs
from quatgraph.reproduce.table import Table, select_runs, select_shown
from quatgraph.tasks import TASKS
from quatgraph.tasks.combination import Pool, TrainedRun, select_weights
from quatgraph.tasks.runs import Outcome, run, select_state
from quatgraph.tasks.task import AnyTask
from quatgraph.training.context import Context
from quatgraph.training.record import RunRecord, append_records

Trained = tuple[str, RunRecord, TrainedRun]
"""A method, the record of a run and its weights."""


def run_combinations(
    table: Table,
    records: Sequence[RunRecord],
    results: Path,
    context: Context,
    only: Sequence[str] = (),
) -> Iterator[RunRecord]:
    """Trains and measures the combinations of a table that have no record yet.

    The configuration of each member is the one that ``honest`` shows.

    Args:
        only: Datasets and methods; by default all. A combination is a method.
    """
    task = TASKS[table.task]
    done = {(record.dataset, record.method) for record in records}
    for dataset in [name for name in table.rows if not only or name in only]:
        names = [name for name in table.combinations if (dataset, name) not in done]
        names = [name for name in names if not {*only} & {*table.combinations} or name in only]
        chosen = {
            method: select_shown(
                table, select_runs(table, records, dataset, method, "honest"), "honest"
            )
            for name in names
            for method in table.combinations[name].members
        }
        names = [n for n in names if all(chosen[m] for m in table.combinations[n].members)]
        if not names:
            continue
        seeds = {
            method: max(table.combinations[name].members.get(method, 0) for name in names)
            for method in chosen
        }
        wanted = {m: (chosen[m][0].config, count) for m, count in seeds.items() if count}
        finished = _run_dataset(task, table, names, wanted, context)
        _save(results, f"{table.task}-{dataset}", finished, records)
        yield from finished.combined


class _Finished(NamedTuple):
    singles: list[RunRecord]
    """Of the first seeds, as many as a table has."""
    combined: list[RunRecord]
    items: dict[str, Tensor]
    """The scores of test items, see :func:`read_items`."""


def _run_dataset(
    task: AnyTask,
    table: Table,
    names: Sequence[str],
    wanted: dict[str, tuple[dict[str, Any], int]],
    context: Context,
) -> _Finished:
    """Trains the members of one dataset once, then measures each combination, split by split."""
    built = {
        method: configs.build(task.config, values | {"seeds": count})
        for method, (values, count) in wanted.items()
    }
    data = task.load_for(list(built.values()))
    trained: dict[int, list[Trained]] = defaultdict(list)
    for method, config in built.items():
        members = task.members(config, data)
        for outcome in run(task, members, data, context, method=method):
            for number, record in enumerate(outcome.records):
                trained[record.split].append((method, record, _as_trained(task, outcome, number)))
    items: dict[str, Tensor] = {}
    made: list[RunRecord] = []
    for split, every in trained.items():
        pool = task.pool([one for *_, one in every], data, context.device)
        for number, (method, record, _) in enumerate(every):
            alone = [int(number == other) for other in range(len(every))]
            items[f"{method}/{split}/{record.seed}"] = pool.item_scores(alone)
        for name in names:
            weights = _select(pool, every, table.combinations[name].members)
            items[f"{name}/{split}/0"] = pool.item_scores(weights)
            made.append(_record_of(name, every, weights, pool))
    runs = [record for every in trained.values() for _, record, _ in every]
    return _Finished([run for run in runs if run.seed < table.seeds], made, items)


def _save(results: Path, name: str, finished: _Finished, records: Sequence[RunRecord]) -> None:
    """Saves what ``records`` do not hold yet; combinations last, since their record says that they
    are done."""
    _save_items(results / "items" / f"{name}.npz", finished.items)
    done = recorded_runs(records)
    new = [run for run in finished.singles if not recorded_runs([run]) <= done]
    append_records(results / "records" / f"{name}-search.jsonl", new)
    append_records(results / "records" / f"{name}-combined.jsonl", finished.combined)


def _as_trained(task: AnyTask, outcome: Outcome[Any, Any], number: int) -> TrainedRun:
    state = select_state(task, outcome, number)
    return TrainedRun(
        outcome.members[number].config,
        {name: value.cpu() for name, value in state.items()},
        outcome.fit.outputs[number] if outcome.fit.outputs else {},
        outcome.records[number].split,
    )


def _select(pool: Pool, every: Sequence[Trained], members: dict[str, int]) -> list[int]:
    """The weights of all trained runs, zero for those that are no members of the combination."""
    places = [
        place
        for place, (method, record, _) in enumerate(every)
        if record.seed < members.get(method, 0)
    ]

    def spread(weights: Sequence[int]) -> list[int]:
        found = [0] * len(every)
        for place, weight in zip(places, weights, strict=True):
            found[place] = weight
        return found

    return spread(select_weights(lambda trial: pool.score(spread(trial)), len(places)))


def _record_of(
    name: str, every: Sequence[Trained], weights: Sequence[int], pool: Pool
) -> RunRecord:
    """The record of a combination: its configuration lists the members."""
    used = [(one, weight) for one, weight in zip(every, weights, strict=True) if weight]
    first = used[0][0][1]
    config = {
        "members": [
            {"method": method, "config": run.config_digest, "seed": run.seed, "weight": weight}
            for (method, run, _), weight in used
        ]
    }
    digest = configs.digest(config)
    return RunRecord(
        task=first.task,
        dataset=first.dataset,
        method=name,
        protocol="honest",
        split=first.split,
        seed=0,
        config=config,
        config_digest=digest,
        data_digest=first.data_digest,
        members={"product": {"split": [first.split]}},
        metrics=pool.metrics(weights, 1.0),
        best_epoch=0,
        epochs_run=max(record.epochs_run for (_, record, _), _ in used),
        parameters=sum(record.parameters for (_, record, _), _ in used),
        seconds=sum(record.share for (_, record, _), _ in used),
        ensemble=configs.digest({"name": name, "split": first.split, **config}),
        curves={},
        environment=first.environment,
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _save_items(path: Path, items: dict[str, Tensor]) -> None:
    """Adds the scores of test items to those that a file has."""
    held = read_items(path) if path.exists() else {}
    values = held | {name: scores.float().cpu().numpy() for name, scores in items.items()}
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **values)
    ensure_folder(path.parent)
    write_atomic(path, content.getvalue())


def read_items(path: Path) -> dict[str, np.ndarray]:
    """The scores of test items by ``method/split/seed``, each ``(N,)``."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the scores of test items in {path}: {error}") from error
