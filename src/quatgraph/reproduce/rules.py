"""The rules that select epoch and configuration in cross-validated tables.

Two of them select on the test folds, from runs under the protocol ``paper``, to show how much that
adds. The third, ``validation``, selects on validation data only.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
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
    diff_settings,
    drop_duplicates,
    make_cell,
    preset_settings,
)
from quatgraph.tasks.selection import choose_by_validation
from quatgraph.training.record import RunRecord

Configuration = list[RunRecord]
"""The runs of one configuration on all folds."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The result of a rule."""

    folds: list[float]
    """The metric on each test fold, averaged over seeds."""
    runs: list[RunRecord]
    """The selected runs."""
    candidates: Sequence[Configuration]
    """The configurations that the rule selected from."""


Selections = Mapping[tuple[str, str, Rule], Selection]
"""Selections by dataset, method and rule; without those that were not run."""


def best_per_fold(candidates: Sequence[Configuration], metric: str) -> Selection:
    """Each fold at its own best epoch; the configuration with the best mean over folds."""
    return _select_best(candidates, metric, lambda curves: curves.max(axis=1))


def gin(candidates: Sequence[Configuration], metric: str) -> Selection:
    """The rule of GIN's code: all folds at the one epoch with the best mean over folds; the
    configuration with the best such mean."""
    return _select_best(candidates, metric, lambda curves: curves[:, curves.mean(axis=0).argmax()])


def validation(candidates: Sequence[Configuration], metric: str) -> Selection:
    """For each fold, the configuration with the best validation accuracy; ties: the lower loss.
    Each run has selected its epoch in the same way."""
    runs = choose_by_validation([run for runs in candidates for run in runs])
    seeds: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        value = run.metrics[metric]
        seeds[run.split].append(0.0 if math.isnan(value) else value)
    return Selection([fmean(values) for values in seeds.values()], runs, candidates)


RULES: dict[Rule, tuple[Protocol, Callable[[Sequence[Configuration], str], Selection]]] = {
    "best-per-fold": ("paper", best_per_fold),
    "gin": ("paper", gin),
    "validation": ("honest", validation),
}


def apply_rules(
    table: Table, records: Sequence[RunRecord], *, presets_only: bool = False
) -> Selections:
    """Applies the rules of a table to the recorded configurations.

    A configuration is eligible if it has run on every fold and differs from the preset only in
    searched hyperparameters, or not at all with ``presets_only``.
    """
    searched = [] if presets_only else configs.grid_keys(protocols(table.task)["grid"])
    groups: dict[tuple[str, str, Protocol], dict[str, Configuration]] = {}
    for record in drop_duplicates(records):
        if record.task == table.task:
            group = groups.setdefault((record.dataset, record.method, record.protocol), {})
            group.setdefault(record.config_digest, []).append(record)
    selections: dict[tuple[str, str, Rule], Selection] = {}
    for (dataset, method, protocol), by_config in groups.items():
        name = table.preset_of(dataset, method)
        if name is None:
            continue
        settings = preset_settings(table.task, name, protocol)
        eligible = [
            runs
            for runs in by_config.values()
            if diff_settings(runs[0].config, settings).keys() <= set(searched)
            and {run.split for run in runs} == set(range(table.splits))
        ]
        for rule in table.rules if eligible else []:
            home, select = RULES[rule]
            if home == protocol:
                selections[dataset, method, rule] = select(eligible, table.metric)
    return selections


def rule_cell(table: Table, selections: Selections, dataset: str, method: str, rule: Rule) -> Cell:
    """The cell of a table under a rule."""
    selection = selections.get((dataset, method, rule), Selection([], [], []))
    candidates = [run for runs in selection.candidates for run in runs]
    return make_cell(
        table,
        selection.folds,
        selection.runs,
        candidates,
        dataset=dataset,
        method=method,
        protocol=RULES[rule][0],
        rule=rule,
        metric=table.metric,
    )


def _select_best(
    candidates: Sequence[Configuration],
    metric: str,
    select_epochs: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Selection:
    """The configuration with the best mean over its test folds."""
    values = [select_epochs(_curves(configuration, metric)) for configuration in candidates]
    best = max(range(len(candidates)), key=lambda index: values[index].mean())
    return Selection(values[best].tolist(), candidates[best], candidates)


def _curves(configuration: Configuration, metric: str) -> NDArray[np.float64]:
    """A metric by fold and epoch, averaged over seeds; 0 where a run diverged."""
    seeds: dict[int, list[list[float]]] = defaultdict(list)
    for run in configuration:
        seeds[run.split].append(run.curves[metric])
    return np.stack([np.nan_to_num(np.array(seeds[fold])).mean(axis=0) for fold in sorted(seeds)])
