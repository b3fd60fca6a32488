"""The default portfolio: which configurations are tried on the user's own data, and how their runs
become one bundle."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Generic

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.errors import check_known
from quatgraph.presets import protocols
from quatgraph.tasks.combination import (
    Pool,
    TrainedRun,
    Weights,
    fit_temperature,
    mean_score,
    select_single,
    select_weights,
)
from quatgraph.tasks.runs import Outcome, bundle_of
from quatgraph.tasks.selection import rank_groups
from quatgraph.tasks.task import AnyTask, Card, ConfigT, DataT, ProblemT, Task
from quatgraph.training.bundle import Bundle, load_bundle, save_bundle

RUNS = "runs"
"""The folder of trained runs, below that of a training, until they are combined."""
KEPT = 3
"""Configurations of an ensemble that may become members: the best on validation data."""
_MODEL = "model.name"
_FAST = "fast"


def default_candidates(
    task: Task[ConfigT, DataT, ProblemT],
    values: configs.Values | None = None,
    *,
    only: Sequence[str] = (),
    fast: bool = False,
) -> list[ConfigT]:
    """The configurations that are tried on the user's own data, in the order of the portfolio.

    Args:
        values: Settings that all of them have, as nested dictionaries. Models that do not read one
            of these settings are left out.
        only: Names of models; by default those of the portfolio.
        fast: Whether to try only the entries of the portfolio that are marked as fast.
    """
    values = values or {}
    given = configs.flatten(values)
    rules = protocols(task.name)
    for name in only:
        check_known(name, task.models, f"the task {task.name} has no model {name!r}")
    wanted = list(only) or ([given[_MODEL]] if _MODEL in given else [])
    entries: list[configs.Values] = rules["portfolio"]
    known = {entry[_MODEL] for entry in entries}
    # A model outside the portfolio is tried with the task's own grid.
    entries = entries + [{_MODEL: name, **rules["own"]} for name in wanted if name not in known]
    entries = [entry for entry in entries if not wanted or entry[_MODEL] in wanted]
    if fast and any(_FAST in entry for entry in entries):
        entries = [entry for entry in entries if _FAST in entry]
    found: dict[str, ConfigT] = {}
    for entry in entries:
        for config in _expand(task, values, rules.get("shared", {}) | entry):
            found.setdefault(configs.digest(config.identity()), config)
    # Where no model reads all settings, building one names the first that is unknown.
    named = {"model": {"name": wanted[0]}} if wanted else {}
    return list(found.values()) or [configs.build(task.config, configs.merge(named, values))]


def _expand(
    task: Task[ConfigT, DataT, ProblemT], values: configs.Values, entry: configs.Values
) -> list[ConfigT]:
    """The configurations of an entry of the portfolio; none if its model does not read all the
    settings that are given."""
    given = configs.flatten(values)
    if entry[_MODEL] not in task.models:
        return []
    plain = configs.build(task.config, {"model": {"name": entry[_MODEL]}})
    known = configs.to_dict(plain)
    if any(key.startswith("model.") and key not in configs.flatten(known) for key in given):
        return []
    axes = {
        axis: value if isinstance(value, list) else [value]
        for axis, value in entry.items()
        if axis == _MODEL or not any(key in given for key in axis.split())
    }
    grid = configs.restrict_grid(axes, known, fixed=())
    return [configs.build(task.config, made) for made in configs.expand_grid(values, grid)]


def save_runs(
    folder: Path,
    task: Task[ConfigT, DataT, ProblemT],
    outcome: Outcome[ConfigT, ProblemT],
    data: DataT,
) -> None:
    """Stores the runs of an ensemble that may become members, with their outputs."""
    ranked = [group for group in rank_groups(outcome.records) if group.healthy]
    # A configuration that diverged on some split is not combined.
    groups = sorted(ranked, key=lambda group: len(group.healthy) < len(group.runs))[:KEPT]
    places = [outcome.records.index(run) for group in groups for run in group.healthy]
    if not places:
        return
    bundle = bundle_of(task, [(outcome, place, 1) for place in places], data)
    for number, place in enumerate(places):
        if outcome.fit.outputs:
            outputs = outcome.fit.outputs[place]
            bundle.tensors.update({f"outputs.{number}.{key}": v for key, v in outputs.items()})
    save_bundle(folder / RUNS / outcome.records[0].ensemble, bundle)


def has_runs(folder: Path) -> bool:
    """Whether a training holds runs that are not combined yet."""
    return (folder / RUNS).is_dir()


def remove_runs(folder: Path) -> None:
    """Removes the stored runs; if the process is killed meanwhile, none of them count."""
    removed = folder / f".{RUNS}-removed"
    shutil.rmtree(removed, ignore_errors=True)
    if has_runs(folder):
        (folder / RUNS).replace(removed)
        shutil.rmtree(removed, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class _StoredRun(Generic[ConfigT]):
    """A run of a stored bundle."""

    bundle: Bundle
    index: int
    config: ConfigT

    @property
    def entry(self) -> Card:
        """Its entry in the bundle's card."""
        entry: Card = self.bundle.card["members"][self.index]
        return entry

    def as_trained(self) -> TrainedRun:
        return TrainedRun(
            self.config,
            self.bundle.select_tensors(f"members.{self.index}"),
            self.bundle.select_tensors(f"outputs.{self.index}"),
            self.entry["split"],
        )


def combine_runs(
    task: Task[ConfigT, DataT, ProblemT],
    folder: Path,
    ensembles: Sequence[str],
    data: DataT,
    device: torch.device,
) -> Bundle | None:
    """Makes a bundle of the stored runs of some ensembles; validation data selects its members.

    Every configuration has a run for each split and seed. The weights of the configurations are
    selected by the mean over splits and seeds. The bundle holds the runs of the split and seed that
    is best with them, or all if the task averages runs. Its card reports, as ``selection``, the
    metrics of each split and seed with weights selected on its own validation data: of the single
    best run and of the combination.

    Returns None if no configuration has a healthy run for every split and seed, or without
    validation data.
    """
    groups: dict[tuple[int, int], dict[str, _StoredRun[ConfigT]]] = {}
    for path in (folder / RUNS / key for key in dict.fromkeys(ensembles)):
        if not path.is_dir():
            continue
        bundle = load_bundle(path, task=task.name)
        for index, entry in enumerate(bundle.card["members"]):
            config = configs.build(task.config, entry["config"])
            runs = groups.setdefault((entry["split"], entry["seed"]), {})
            runs[configs.digest(config.identity())] = _StoredRun(bundle, index, config)
    if not groups:
        return None
    shared = [key for key in next(iter(groups.values())) if all(key in g for g in groups.values())]
    if not shared:
        return None
    pools = {
        key: task.pool([runs[digest].as_trained() for digest in shared], data, device)
        for key, runs in groups.items()
    }
    every = list(pools.values())
    if not all(pool.num_valid for pool in every):
        return None
    weights = select_weights(lambda trial: mean_score(every, trial), len(shared))
    temperature = _fit_temperature(every, weights)
    best = max(pools, key=lambda key: pools[key].score(weights))
    bundled = list(pools) if task.averages_runs else [best]
    merged = _merge(
        [
            (groups[key][digest], weight)
            for key in bundled
            for digest, weight in zip(shared, weights, strict=True)
            if weight
        ]
    )
    refined = task.refine(every, weights, temperature)
    measured = [pools[key].metrics(weights, temperature) for key in bundled]
    merged.card["metrics"] = {name: fmean(each[name] for each in measured) for name in measured[0]}
    merged.card.update(refined, temperature=temperature)
    merged.card["selection"] = [
        {"split": split, "seed": seed, **_measure_selected(task, pool, len(shared))}
        for (split, seed), pool in pools.items()
    ]
    return merged


def _measure_selected(task: AnyTask, pool: Pool, count: int) -> dict[str, dict[str, float]]:
    """The metrics of the single best run and of the best combination on the pool's own validation
    data."""
    measured = {}
    for name, select in (("single", select_single), ("combination", select_weights)):
        weights = select(pool.score, count)
        temperature = _fit_temperature([pool], weights)
        task.refine([pool], weights, temperature)
        measured[name] = pool.metrics(weights, temperature)
    return measured


def _fit_temperature(pools: Sequence[Pool], weights: Weights) -> float:
    found = [own for pool in pools if (own := pool.log_probabilities(weights)) is not None]
    if not sum(len(labels) for _, labels in found):
        return 1.0
    scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
    return fit_temperature(scores, labels)


def _merge(picks: Sequence[tuple[_StoredRun[ConfigT], int]]) -> Bundle:
    """A bundle of runs out of several bundles of the same data, with their weights."""
    own = {"members", "metrics", "key", "environment", "finished", "format", "sha256"}
    card = {k: v for k, v in picks[0][0].bundle.card.items() if k != "card_sha256"}
    tensors: dict[str, Tensor] = {}
    members = []
    for number, (run, weight) in enumerate(picks):
        others = {
            key: value
            for key, value in run.bundle.card.items()
            if key in card and key not in own and value != card[key]
        }
        members.append(others | run.entry | {"weight": weight})
        tensors |= {f"data.{k}": v for k, v in run.bundle.select_tensors("data").items()}
        states = run.bundle.select_tensors(f"members.{run.index}").items()
        tensors |= {f"members.{number}.{name}": value for name, value in states}
    return Bundle(card | {"members": members}, tensors)
