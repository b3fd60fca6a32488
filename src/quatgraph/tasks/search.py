"""A search over hyperparameters in a folder: it can be stopped and continued, and ends with the
configurations ranked by validation data."""

import math
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.files import lock_folder
from quatgraph.metrics.classification import mean_std
from quatgraph.presets import protocols
from quatgraph.tasks.config import Config
from quatgraph.tasks.runs import UNITS, run
from quatgraph.tasks.selection import DIVERGED, RunGroup
from quatgraph.tasks.stored import RECORDS
from quatgraph.tasks.task import AnyTask, Dataset
from quatgraph.training.bundle import BUNDLE
from quatgraph.training.checkpoint import remove_checkpoint
from quatgraph.training.context import Context
from quatgraph.training.record import RunRecord, append_records, read_records

BEST = "best.toml"
"""The file of the best configuration."""
MAX_CONFIGURATIONS = 10_000
REPORT_EVERY = 10.0
"""Seconds between two reports of the remaining time."""
_CHECKPOINTS = "checkpoints"
_SETTINGS = ("model", "train")


@dataclass(frozen=True, slots=True)
class Trial:
    """A configuration and its runs on all splits and seeds."""

    config: Config
    runs: list[RunRecord]

    def validation(self, metric: str) -> tuple[float, float]:
        """Mean and standard deviation of a validation metric over the runs that did not diverge."""
        return mean_std([run.metrics[f"valid/{metric}"] for run in RunGroup(self.runs).healthy])

    def settings(self, keys: Sequence[str]) -> configs.Values:
        """The values of these settings; empty for one that the model does not have."""
        flat = configs.flatten(configs.to_dict(self.config))
        return {key: flat.get(key, "") for key in keys}


def search_candidates(
    task: AnyTask,
    values: configs.Values,
    overrides: Sequence[str],
    *,
    sample: int | None = None,
    seed: int = 0,
) -> list[Config]:
    """The configurations to search.

    Args:
        values: What all of them share: data, protocol and number of seeds.
        overrides: ``key=value`` fixes a setting, ``key=[value, ...]`` searches a list. Without any
            list, the task's grid is searched, as far as the model reads it.
        sample: How many configurations to sample from the grid, without replacement; all if None.
        seed: Seed of the sample.
    """
    chosen = configs.flatten(configs.override({}, overrides))
    for key, value in chosen.items():
        if isinstance(value, list) and key.partition(".")[0] not in _SETTINGS:
            raise UserError(f"{key} must have one value; a search varies model and train settings")
    grids = _make_grids(task, values, chosen)
    sizes = [configs.grid_size(grid) for _, grid in grids]
    total = sum(sizes)
    if sample is not None and sample < 1:
        raise UserError(f"--random must be at least 1, got {sample}")
    count = total if sample is None else min(sample, total)
    if count > MAX_CONFIGURATIONS:
        raise UserError(
            f"the lists make {count:,} configurations, more than {MAX_CONFIGURATIONS:,}: shorten "
            "them, or sample some with --random 100"
        )
    places: Sequence[int] = range(total)
    if count < total:
        places = sorted(random.Random(seed).sample(places, count))
    candidates: dict[str, Config] = {}
    start = 0
    for (base, grid), size in zip(grids, sizes, strict=True):
        own = [place - start for place in places if start <= place < start + size]
        for made in configs.expand_grid(base, grid, own):
            config: Config = configs.build(task.config, made)
            candidates.setdefault(configs.digest(config.identity()), config)
        start += size
    return list(candidates.values())


def _make_grids(
    task: AnyTask, values: configs.Values, chosen: configs.Values
) -> list[tuple[configs.Values, configs.Values]]:
    """For each model to search, what its configurations share and the grid of the rest."""
    default = protocols(task.name)["grid"]
    if any(isinstance(value, list) for value in chosen.values()):
        default = {}
    axes = {key: value if isinstance(value, list) else [value] for key, value in chosen.items()}
    names = axes.pop("model.name", [None])
    grids, unread = [], set(axes)
    for name in names:
        base = values | ({} if name is None else {"model": {"name": name}})
        known = configs.to_dict(configs.build(task.config, base))
        own = configs.restrict_grid(axes, known, fixed=())
        unread -= own.keys()
        grids.append((base, configs.restrict_grid(default, known, fixed=chosen) | own))
    if unread:  # no model reads them: the last one says what it reads
        base, _ = grids[-1]
        configs.build(task.config, configs.expand_grid(base, {k: axes[k] for k in unread}, [0])[0])
    return grids


def search_in_folder(
    task: AnyTask, candidates: Sequence[Config], folder: Path, context: Context
) -> None:
    """Trains every candidate on every split and seed, in as few ensembles as possible.

    Appends the records of each finished ensemble to ``records.jsonl``. A repeated call trains what
    has no record, and continues from checkpoints.

    Raises:
        Paused: The deadline passed.
    """
    with lock_folder(folder):
        if any((folder / name).exists() for name in BUNDLE):
            raise UserError(f"{folder} holds a trained model: choose another folder for the search")
        data = task.load(candidates[0])
        if not task.has_validation(candidates[0], data):
            raise UserError("there is no validation data, so a search has nothing to choose by")
        settled, notes = task.settle(candidates, data, context.device)
        if list(settled) != list(candidates):
            raise UserError(f"{notes[-1]}; a search needs one choice for all that it tries")
        done = {_run_key(record) for record in _read_earlier(folder, task, data)}
        members = [member for config in candidates for member in task.members(config, data)]
        missing = [
            m for m in members if (configs.digest(m.config.identity()), m.split, m.seed) not in done
        ]
        for note in notes:
            context.log(note)
        context.log(_announce(len(candidates), len(members), len(members) - len(missing)))
        checkpoints = folder / _CHECKPOINTS
        outcomes = run(
            task,
            missing,
            data,
            replace(context, resume=True),
            checkpoint=lambda ensemble: checkpoints / ensemble,
        )
        timer = _Timer(context, len(missing))
        for outcome in outcomes:
            append_records(folder / RECORDS, outcome.records)
            checkpoint = checkpoints / outcome.records[0].ensemble
            remove_checkpoint(checkpoint)
            for path in (checkpoint, checkpoints):
                with suppress(OSError):  # not empty, or never made
                    path.rmdir()
            timer.advance(len(outcome.records))
            del outcome  # and with it the weights, before the next ones are trained


class _Timer:
    """Logs the runs done and the time left, every few seconds."""

    def __init__(self, context: Context, total: int) -> None:
        self._context, self._total, self._done = context, total, 0
        self._start = self._reported = time.monotonic()

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if self._done == self._total or now - self._reported < REPORT_EVERY:
            return
        self._reported = now
        left = (now - self._start) / self._done * (self._total - self._done)
        unit, size = next(((u, s) for u, s in UNITS.items() if left >= 1.5 * s), ("s", 1))
        self._context.log(
            f"{self._done:,} of {self._total:,} runs done, about {left / size:.0f} {unit} left"
        )


def _announce(num_configs: int, num_runs: int, num_done: int) -> str:
    count = "1 configuration" if num_configs == 1 else f"{num_configs:,} configurations"
    recorded = f", of which {num_done:,} are on record" if num_done else ""
    return f"searching {count}: {num_runs:,} {'run' if num_runs == 1 else 'runs'}{recorded}"


def _read_earlier(folder: Path, task: AnyTask, data: Dataset) -> list[RunRecord]:
    """The records of earlier searches in the folder, which must be of the same data."""
    path = folder / RECORDS
    earlier = read_records(path) if path.exists() else []
    if any((r.task, r.data_digest) != (task.name, data.digest) for r in earlier):
        raise UserError(f"{folder} holds a search of other data: choose another folder")
    return earlier


def _run_key(record: RunRecord) -> tuple[str, int, int]:
    return record.config_digest, record.split, record.seed


def rank_trials(candidates: Sequence[Config], folder: Path) -> list[Trial]:
    """The finished candidates, best on validation data first; see
    :func:`quatgraph.tasks.selection.selection_score`.

    Only candidates with as many runs as any other are compared. Those that diverged are left out.
    """
    path = folder / RECORDS
    runs: dict[str, list[RunRecord]] = {}
    unique = {_run_key(r): r for r in read_records(path)} if path.exists() else {}
    for record in unique.values():
        runs.setdefault(record.config_digest, []).append(record)
    found = []
    for config in candidates:
        own = runs.get(configs.digest(config.identity()), [])
        if own := [record for record in own if record.seed < config.seeds]:
            found.append(Trial(config, own))
    if not found:
        return []
    most = max(len(trial.runs) for trial in found)
    whole = [trial for trial in found if len(trial.runs) == most]
    healthy = [trial for trial in whole if RunGroup(trial.runs).score != DIVERGED]
    if not healthy:
        raise UserError("every run diverged: search lower values of train.lr")
    return sorted(healthy, key=lambda trial: RunGroup(trial.runs).score, reverse=True)


def varied_settings(candidates: Sequence[Config]) -> list[str]:
    """The settings, as ``train.lr``, in which configurations that have them differ."""
    values: dict[str, list[Any]] = {}
    for config in candidates:
        for key, value in configs.flatten(config.identity()).items():
            values.setdefault(key, []).append(value)
    return [key for key, found in values.items() if any(value != found[0] for value in found)]


def validation_metric(task: AnyTask, config: Config) -> str:
    """The metric by which configurations are compared: ``accuracy``."""
    return getattr(config.train, "monitor", task.reported_metrics[0])


def summarize_test(task: AnyTask, runs: Sequence[RunRecord]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of the test metrics; empty without test data."""
    found = {
        metric: mean_std([run.metrics[f"test/{metric}"] for run in runs])
        for metric in task.reported_metrics
    }
    return {metric: pair for metric, pair in found.items() if not math.isnan(pair[0])}
