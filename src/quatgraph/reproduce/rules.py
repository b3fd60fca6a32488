"""The rules by which a cross-validated table chooses epoch and configuration.

Two of them choose on the test folds, among runs under the protocol ``paper``, and are there to show
what that adds; the third, ``validation``, never sees a test number before it has chosen.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from quatgraph import config as configs
from quatgraph.presets import Protocol, protocols
from quatgraph.reproduce.table import (
    Cell,
    Rule,
    Table,
    changes_of,
    distinct,
    published_settings,
    shares,
)
from quatgraph.tasks.selection import choose_by_validation
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

Configuration = list[list[RunRecord]]
"""The runs of one configuration: by fold, then by seed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rule chose."""

    folds: list[float]
    """The metric on each test fold, the mean over seeds."""
    runs: list[RunRecord]
    """The runs behind it."""
    tried: Sequence[Configuration]
    """What it was chosen among."""


Choices = Mapping[tuple[str, str, Rule], Choice]
"""By dataset, method and rule; what has not been run is missing."""


def best_per_fold(tried: Sequence[Configuration], metric: str) -> Choice:
    """Each fold at its own best epoch; the configuration with the best mean of these."""
    return _best(tried, lambda configuration: _curves(configuration, metric).max(axis=1))


def gin(tried: Sequence[Configuration], metric: str) -> Choice:
    """The rule of GIN's code: all folds at the epoch with the best mean over the folds; the
    configuration with the best such mean."""

    def folds(configuration: Configuration) -> NDArray[np.float64]:
        curves = _curves(configuration, metric)
        return curves[:, curves.mean(axis=0).argmax()]

    return _best(tried, folds)


def validation(tried: Sequence[Configuration], metric: str) -> Choice:
    """For each fold the configuration with the best validation accuracy, among equals the one with
    the lower validation loss; each run has chosen its epoch likewise."""
    runs = choose_by_validation([run for one in tried for run in _flat(one)])
    seeds: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        value = run.metrics[metric]
        seeds[run.split].append(0.0 if math.isnan(value) else value)
    return Choice([fmean(values) for values in seeds.values()], runs, tried)


RULES: dict[Rule, tuple[Protocol, Callable[[Sequence[Configuration], str], Choice]]] = {
    "best-per-fold": ("paper", best_per_fold),
    "gin": ("paper", gin),
    "validation": ("honest", validation),
}


def choices(table: Table, records: Sequence[RunRecord], *, alone: bool = False) -> Choices:
    """What each of a table's rules chooses among the configurations on record.

    A configuration counts if it has run on every fold, and differs from the preset in nothing but
    what the task searches; or, where the presets are wanted alone, in nothing.
    """
    found: dict[tuple[str, str, Rule], Choice] = {}
    searched = [] if alone else configs.settings_of(protocols(table.task)["grid"])
    for (dataset, method, protocol), tried in _tried(table, records, set(searched)):
        for rule in table.rules:
            home, choose = RULES[rule]
            if home == protocol:
                found[dataset, method, rule] = choose(tried, table.metric)
    return found


def ruled_cell(table: Table, found: Choices, dataset: str, method: str, rule: Rule) -> Cell:
    """One cell, out of what the rules chose."""
    choice = found.get((dataset, method, rule), Choice([], [], []))
    mean, std = mean_std(choice.folds) if choice.folds else (None, None)
    ensembles = {run.ensemble: run.seconds for one in choice.tried for run in _flat(one)}
    return Cell(
        task=table.task,
        dataset=dataset,
        method=method,
        protocol=RULES[rule][0],
        rule=rule,
        metric=table.metric,
        mean=mean,
        std=std,
        runs=len(choice.runs),
        configs=len(choice.tried),
        paper=table.published(dataset, method, table.metric),
        seconds=sum(ensembles.values()),
        each=shares(choice.runs),
        parameters=max((run.parameters for run in choice.runs), default=None),
    )


def _tried(
    table: Table, records: Sequence[RunRecord], searched: set[str]
) -> Iterator[tuple[tuple[str, str, Protocol], list[Configuration]]]:
    """The configurations that count, by dataset, method and protocol."""
    groups: dict[tuple[str, str, Protocol], dict[str, list[RunRecord]]] = {}
    for record in distinct(records):
        if record.task == table.task:
            home = groups.setdefault((record.dataset, record.method, record.protocol), {})
            home.setdefault(record.config_digest, []).append(record)
    for (dataset, method, protocol), by_config in groups.items():
        name = table.preset_of(dataset, method)
        if name is None:
            continue
        published = published_settings(table.task, name, protocol)
        tried = [
            _by_fold(runs, table.splits)
            for runs in by_config.values()
            if changes_of(runs[0].config, published).keys() <= searched
            and {run.split for run in runs} == set(range(table.splits))
        ]
        if tried:
            yield (dataset, method, protocol), tried


def _by_fold(runs: Sequence[RunRecord], splits: int) -> Configuration:
    folds: Configuration = [[] for _ in range(splits)]
    for run in runs:
        folds[run.split].append(run)
    return folds


def _flat(configuration: Configuration) -> list[RunRecord]:
    return [run for seeds in configuration for run in seeds]


def _best(
    tried: Sequence[Configuration], folds: Callable[[Configuration], NDArray[np.float64]]
) -> Choice:
    """The configuration with the best mean over its folds, which are test folds."""
    values = [folds(configuration) for configuration in tried]
    place = max(range(len(tried)), key=lambda index: values[index].mean())
    return Choice(values[place].tolist(), _flat(tried[place]), tried)


def _curves(configuration: Configuration, metric: str) -> NDArray[np.float64]:
    """A metric by fold and epoch, the mean over seeds; where a run diverged it is 0."""
    seeds = ([run.curves[metric] for run in runs] for runs in configuration)
    return np.stack([np.nan_to_num(np.array(curves)).mean(axis=0) for curves in seeds])
