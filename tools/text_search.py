"""The searches ``text-graphs`` and ``text-lift``: what each setting changes, and what validation
data selects."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.reproduce.render import format_difference, markdown_table
from quatgraph.reproduce.table import Table, select_runs
from quatgraph.tasks import TASKS
from quatgraph.tasks.selection import choose_by_validation
from quatgraph.training.record import RunRecord
from tools.finalists import format_runs
from tools.searches import expand_search, read_searches

SEARCH, LIFT_SEARCH = "text-graphs", "text-lift"
THIS, THAT = "textqgnn", "texting"
LIFT = "model.lift"
VALIDATION, TEST = "valid/accuracy", "test/accuracy"

Settings = tuple[tuple[str, Any], ...]
"""The values of the axes of a search."""
Runs = dict[Settings, list[RunRecord]]
Pairs = list[tuple[float, float]]
"""Differences on validation and on test data."""


def searched_runs(table: Table, records: Sequence[RunRecord], dataset: str, method: str) -> Runs:
    """The runs of every configuration of the search that is on record."""
    search, name = read_searches()[SEARCH], f"{table.task}/{dataset}-{method}"
    given = configs.flatten(configs.override({}, [*search["set"], *search["also"][name]]))
    axes = [key for key, values in given.items() if isinstance(values, list)]
    recorded = _recorded_runs(table, records, dataset, method)
    found = {}
    for values in expand_search(search, name):
        flat = configs.flatten(values)
        if runs := recorded.get(_digest(table, values)):
            found[tuple((axis, flat[axis]) for axis in axes)] = runs
    return found


def _recorded_runs(
    table: Table, records: Sequence[RunRecord], dataset: str, method: str
) -> dict[str, list[RunRecord]]:
    """The runs of every configuration by digest."""
    found: dict[str, list[RunRecord]] = {}
    for run in select_runs(table, records, dataset, method, "honest"):
        found.setdefault(run.config_digest, []).append(run)
    return found


def _digest(table: Table, values: configs.Values) -> str:
    return configs.digest(configs.build(TASKS[table.task].config, values).identity())


def render_effects(table: Table, records: Sequence[RunRecord]) -> str:
    """Mean differences between configurations that differ in one setting, with the first seed."""
    found = {
        (dataset, method): {key: _first(runs) for key, runs in tried.items()}
        for dataset in table.rows
        for method in (THIS, THAT)
        if (tried := searched_runs(table, records, dataset, method))
    }
    cells: dict[str, dict[str, str]] = {}
    for (dataset, method), runs in found.items():
        for change, pairs in _pair_settings(runs):
            label = f"{table.methods[method]}, {change}"
            cells.setdefault(label, {})[dataset] = _format_pairs(pairs)
    for dataset in table.rows:
        these, those = (found.get((dataset, method), {}) for method in (THIS, THAT))
        for lift, pairs in _pair_methods(these, those).items():
            label = f"{table.methods[THIS]}, lift {lift}, minus {table.methods[THAT]}"
            cells.setdefault(label, {})[dataset] = _format_pairs(pairs)
    rows = [[label, *(row.get(d, "") for d in table.rows)] for label, row in cells.items()]
    return markdown_table(["change", *table.rows], rows) if rows else "Not run yet."


def render_selected(table: Table, records: Sequence[RunRecord]) -> str:
    """The configuration of each method that is best on validation data with the first seed, with
    all of its seeds; the difference is paired by seed."""
    rows = []
    for dataset in table.rows:
        shown: dict[int, float] = {}
        for method in (THAT, THIS):
            tried = searched_runs(table, records, dataset, method)
            runs = choose_by_validation([run for one in tried.values() for run in one], table.score)
            if not runs:
                continue
            (settings,) = (key for key, one in tried.items() if runs[0] in one)
            values = {run.seed: run.metrics[TEST] for run in runs}
            pairs = [value - shown[seed] for seed, value in values.items() if seed in shown]
            shown = values
            rows.append(
                [
                    dataset,
                    table.methods[method],
                    ", ".join(f"{_short(axis)} {value}" for axis, value in settings),
                    format_runs(table, runs, VALIDATION),
                    format_runs(table, runs, TEST),
                    format_difference(pairs, TEST) if pairs else "",
                ]
            )
    head = ["dataset", "method", "settings", "validation", "test", "difference ± s.e."]
    return markdown_table(head, rows) if rows else "Not run yet."


def render_lift(table: Table, records: Sequence[RunRecord]) -> str:
    """The learned lift with fixed word vectors, minus the split and minus the other method with
    equal settings, paired by seed."""
    search, rows = read_searches()[LIFT_SEARCH], []
    for dataset in table.rows:
        name, other = (f"{table.task}/{dataset}-{method}" for method in (THIS, THAT))
        if name not in search["presets"]:
            continue
        these, those = (_recorded_runs(table, records, dataset, method) for method in (THIS, THAT))
        given = configs.flatten(configs.override({}, [*search["set"], *search["also"][name]]))
        for values in expand_search(search, name):
            runs = these.get(_digest(table, values), [])
            flat = configs.flatten(values)
            shared = [f"{axis}={json.dumps(flat[axis])}" for axis in given if axis != LIFT]
            split = these.get(_digest(table, configs.override(values, [f"{LIFT}='split'"])), [])
            real = those.get(_digest(table, configs.override(preset(other), shared)), [])
            if runs:
                rows.append(
                    [
                        dataset,
                        f"lr {flat['train.lr']}, dropout {flat['model.dropout']}",
                        format_runs(table, runs, VALIDATION),
                        format_runs(table, runs, TEST),
                        _format_pairs(_pair_seeds(runs, split)),
                        _format_pairs(_pair_seeds(runs, real)),
                    ]
                )
    head = ["dataset", "settings", "validation", "test", "minus the split", "minus TextING"]
    return markdown_table(head, rows) if rows else "Not run yet."


def _pair_seeds(these: Sequence[RunRecord], those: Sequence[RunRecord]) -> Pairs:
    by_seed = {run.seed: run.metrics for run in those}
    return [_subtract(run.metrics, by_seed[run.seed]) for run in these if run.seed in by_seed]


def _first(runs: Sequence[RunRecord]) -> Mapping[str, float]:
    return min(runs, key=lambda run: run.seed).metrics


def _pair_settings(runs: Mapping[Settings, Mapping[str, float]]) -> Iterator[tuple[str, Pairs]]:
    """Each change of one setting, and the differences that it makes."""
    for place, (axis, _) in enumerate(next(iter(runs))):
        values = list(dict.fromkeys(settings[place][1] for settings in runs))
        for old, new in pairwise(values):
            pairs = []
            for settings, metrics in runs.items():
                changed = (*settings[:place], (axis, new), *settings[place + 1 :])
                if settings[place][1] == old and changed in runs:
                    pairs.append(_subtract(runs[changed], metrics))
            yield f"{_short(axis)} {old} to {new}", pairs


def _pair_methods(
    these: Mapping[Settings, Mapping[str, float]], those: Mapping[Settings, Mapping[str, float]]
) -> dict[str, Pairs]:
    """By lift, the differences to the mean of the other method's runs with the same settings."""
    pairs: dict[str, Pairs] = {}
    for settings, metrics in these.items():
        shared = {(axis, value) for axis, value in settings if axis != LIFT}
        others = [other for key, other in those.items() if shared <= set(key)]
        if others:
            mean = {name: fmean(other[name] for other in others) for name in (VALIDATION, TEST)}
            pairs.setdefault(dict(settings)[LIFT], []).append(_subtract(metrics, mean))
    return pairs


def _subtract(this: Mapping[str, float], that: Mapping[str, float]) -> tuple[float, float]:
    return this[VALIDATION] - that[VALIDATION], this[TEST] - that[TEST]


def _short(axis: str) -> str:
    return axis.rpartition(".")[2].replace("_", " ")


def _format_pairs(pairs: Pairs) -> str:
    if not pairs:
        return ""
    return " / ".join(format_difference(apart, TEST) for apart in zip(*pairs, strict=True))
