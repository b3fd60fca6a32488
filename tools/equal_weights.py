"""QGNN and GCN with equally many weights, as a quaternion map of twice the width has; and methods
that were searched with equal axes."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from quatgraph import config as configs
from quatgraph.metrics.classification import mean_std
from quatgraph.reproduce.render import format_difference, markdown_table
from quatgraph.reproduce.rules import validation
from quatgraph.reproduce.table import Table
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord
from tools.searches import expand_search, read_searches

OWN = ("model.name", "model.hidden_quats", "model.masks", "model.activation", "model.norm")
"""Settings that differ, or that GCN lacks; the matrix may differ too."""
BASELINES = ("gcn", "structure-free")
COMPARED = (*BASELINES, "qgnn-symmetric")
"""Methods that decide which configurations are compared."""
SEARCHES = {"": "graph-methods", ", perceptron": "graph-perceptron"}
"""The searches with equal axes, by what they add to the name of a method."""
Configuration = tuple[tuple[tuple[str, str], ...], int]
"""Settings of a configuration, and its width in quaternions."""


def render_equal_weights(table: Table, records: Sequence[RunRecord]) -> str:
    """All pairs of configurations on record under ``honest`` that differ in the width only: the
    difference of QGNN and GCN, as the mean over pairs of each fold."""
    rows = []
    for dataset in table.rows:
        for method in ("qgnn", "qgnn-symmetric"):
            pairs = pair_runs(table, records, dataset, method)
            if not pairs:
                continue
            folds = [
                fmean(
                    this[fold].metrics[table.metric] - that[fold].metrics[table.metric]
                    for this, that in pairs
                )
                for fold in range(table.splits)
            ]
            sizes = [[fmean(run.parameters for run in one.values()) for one in p] for p in pairs]
            ratio = fmean(this / that for this, that in sizes)
            names = [dataset, table.methods[method], str(len(pairs)), f"{ratio:.2f}"]
            rows.append([*names, format_difference(folds, table.metric)])
    head = ["dataset", "method", "pairs", "weights, of GCN's", "difference to GCN ± s.e."]
    return markdown_table(head, rows)


def pair_runs(
    table: Table, records: Sequence[RunRecord], dataset: str, method: str
) -> list[tuple[dict[int, RunRecord], dict[int, RunRecord]]]:
    """The runs by fold of a QGNN, and of the GCN of half its width with equal other settings."""
    this, that = (_runs_of(table, records, dataset, one) for one in (method, "gcn"))
    return [
        (runs, that[others, width // 2])
        for (others, width), runs in this.items()
        if (others, width // 2) in that and width % 2 == 0
    ]


def _runs_of(
    table: Table, records: Sequence[RunRecord], dataset: str, method: str
) -> dict[Configuration, dict[int, RunRecord]]:
    """The runs of each configuration that has all folds, by its settings and its width."""
    found: dict[Configuration, dict[int, RunRecord]] = {}
    for run in records:
        if (run.task, run.dataset, run.method) == (table.task, dataset, method):
            flat = configs.flatten(run.config)
            if run.protocol == "honest" and run.seed == 0:
                others = {k: v for k, v in flat.items() if k not in (*OWN, "model.normalization")}
                key = tuple(sorted((k, str(v)) for k, v in others.items()))
                found.setdefault((key, flat.get("model.hidden_quats", 0)), {})[run.split] = run
    return {key: runs for key, runs in found.items() if len(runs) == table.splits}


def render_equal_search(table: Table, records: Sequence[RunRecord]) -> str:
    """What validation data selects for each fold out of :data:`SEARCHES` alone, and the differences
    to two baselines. Methods are compared on the configurations that have run of all in
    :data:`COMPARED`, by their place on the axes; a method that lacks one of them has no row."""
    rows, searches = [], read_searches()
    for dataset in table.rows:
        tried: dict[str, list[list[RunRecord]]] = {}
        for suffix, search in SEARCHES.items():
            found = {
                method: _runs_of_search(table, records, searches[search], dataset, method)
                for method in dict.fromkeys([*COMPARED, *table.columns])
            }
            ran = [set(runs) for m in COMPARED if (runs := found[m]) is not None]
            shared = set.intersection(*ran) if ran else set()
            for method, runs in found.items():
                if shared and runs is not None and shared <= runs.keys():
                    tried[table.methods[method] + suffix] = [runs[place] for place in shared]
        every = [name for name in tried if name.startswith(table.methods["qgnn"])]
        if len(every) > 1:
            tried["every QGNN"] = [runs for name in every for runs in tried[name]]
        folds = {name: validation(found, table.metric).folds for name, found in tried.items()}
        for name, own in folds.items():
            mean, std = (100 * one for one in mean_std(own))
            row = [dataset, name, str(len(tried[name])), f"{mean:.2f} ± {std:.2f}"]
            for other in (table.methods[method] for method in BASELINES):
                apart = [a - b for a, b in zip(own, folds.get(other, []), strict=False)]
                shown = apart and name != other
                row.append(format_difference(apart, table.metric) if shown else "")
            rows.append(row)
    head = ["dataset", "method", "configurations", "`honest`"]
    head += [f"difference to {table.methods[method]} ± s.e." for method in BASELINES]
    return markdown_table(head, rows)


def _runs_of_search(
    table: Table, records: Sequence[RunRecord], search: dict[str, Any], dataset: str, method: str
) -> dict[int, list[RunRecord]] | None:
    """The runs of each configuration of a search that has all folds, by its place in the search;
    None if it does not search the method."""
    preset = f"{table.task}/{dataset}-{method}"
    if preset not in search["presets"]:
        return None
    runs: dict[str, dict[int, RunRecord]] = {}
    for run in records:
        if (run.task, run.dataset, run.method) == (table.task, dataset, method) and run.seed == 0:
            runs.setdefault(run.config_digest, {})[run.split] = run
    found: dict[int, list[RunRecord]] = {}
    for place, made in enumerate(expand_search(search, preset, "honest") if runs else ()):
        config = configs.build(TASKS[table.task].config, made)
        own = runs.get(configs.digest(config.identity()), {})
        if len(own) == table.splits:
            found[place] = [own[split] for split in sorted(own)]
    return found
