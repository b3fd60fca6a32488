"""README's table of results: quaternion models and their real-valued counterparts.

The pairs are fixed and the same for all datasets of a task. All numbers follow the protocol
``honest``, which selects epoch and configuration on validation data. Only the last column uses test
results: it shows the best method without quaternions, which can favour that method but never ours.
Transductive text models are left out: they learn from the test texts.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from quatgraph.metrics.classification import mean_std
from quatgraph.presets import preset
from quatgraph.reproduce.render import (
    format_cells,
    format_difference,
    markdown_table,
)
from quatgraph.reproduce.rules import Selections, apply_rules, rule_cell
from quatgraph.reproduce.table import Cell, Table, cell, select_runs, select_shown
from quatgraph.tasks import TASKS
from quatgraph.training.record import RunRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """A quaternion model and its real-valued counterpart."""

    label: str
    task: str
    ours: str
    real: str


PAIRS = (
    Pair("nodes: QGNN vs GCN", "node", "qgnn", "gcn"),
    Pair("nodes: Deep QGNN vs GCNII", "node", "deep-qgnn", "gcnii"),
    Pair("graphs: QGNN, normalised adjacency vs GCN", "graph", "qgnn-symmetric", "gcn"),
    Pair("triples, MRR: SimQGNN vs SimRGCN", "link", "simqgnn", "simrgcn"),
    Pair("triples, MRR: Rotation4D-N3 vs ComplEx-N3", "link", "rotation4d-n3", "complex-n3"),
    Pair("texts: TextQGNN vs TextING", "text", "textqgnn", "texting"),
)
QUATERNION = frozenset(
    {
        "deep-qgnn",
        "qgnn",
        "qgnn-norm",
        "qgnn-symmetric",
        "hamilton-n3",
        "quate",
        "quate-n3",
        "relqgnn-n3",
        "rotation4d-n3",
        "simqgnn",
        "simqgnn-n3",
        "textqgnn",
        "textqgnn-random",
    }
)
"""Methods with quaternion weights or vectors."""
HEADER = (
    "task",
    "dataset",
    "quaternion",
    "real",
    "difference ± s.e.",
    "best without quaternions, by test result",
)


def render_headline(
    tables: Sequence[Table], records: Sequence[RunRecord], pairs: Sequence[Pair] = PAIRS
) -> str:
    """One row per pair and dataset on which both were run, and how many differ by more than two
    standard errors."""
    by_task = {table.task: table for table in tables}
    rows, all_differences = [], list[list[float]]()
    for pair in pairs:
        label = pair.label
        for row, differences in _compare(by_task[pair.task], records, pair):
            rows.append([label, *row])
            all_differences.append(differences)
            label = ""
    return f"{markdown_table(HEADER, rows)}\n\n{_summarize(all_differences)}"


def _compare(
    table: Table, records: Sequence[RunRecord], pair: Pair
) -> Iterator[tuple[list[str], list[float]]]:
    mine = [record for record in records if record.task == table.task]
    selections = apply_rules(table, mine) if table.rules else {}
    for dataset in table.rows:
        cells = {
            method: _honest_cell(table, mine, selections, dataset, method)
            for method in table.columns
            if (name := table.preset_of(dataset, method)) and not _is_transductive(table.task, name)
        }
        ours, real = (cells.get(method) for method in (pair.ours, pair.real))
        if not (ours and real and ours.runs and real.runs):
            continue
        this, that = (
            _metric_by_unit(table, mine, selections, dataset, one) for one in (pair.ours, pair.real)
        )
        differences = [this[unit] - that[unit] for unit in sorted(this.keys() & that.keys())]
        best = max(
            (one for method, one in cells.items() if method not in QUATERNION and one.runs),
            key=lambda one: one.mean or 0.0,
        )
        difference = format_difference(differences, table.metric) if differences else ""
        row = [dataset, format_cells(ours), format_cells(real), difference]
        yield [*row, f"{table.methods[best.method]}: {format_cells(best)}"], differences


def _is_transductive(task: str, name: str) -> bool:
    """Whether the model of a preset learns from the test data, without its labels, where others of
    its task do not."""
    model = TASKS[task].models[preset(name)["model"]["name"]]
    return getattr(model, "transductive", False)


def _honest_cell(
    table: Table, records: Sequence[RunRecord], selections: Selections, dataset: str, method: str
) -> Cell:
    if table.rules:
        return rule_cell(table, selections, dataset, method, "validation")
    return cell(table, records, dataset, method, "honest")


def _metric_by_unit(
    table: Table, records: Sequence[RunRecord], selections: Selections, dataset: str, method: str
) -> dict[int, float]:
    """The metric by fold or split, averaged over seeds; with one split, by seed."""
    if table.rules:
        return dict(enumerate(selections[dataset, method, "validation"].folds))
    runs = select_shown(table, select_runs(table, records, dataset, method, "honest"), "honest")
    values: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        values[run.split if table.splits > 1 else run.seed].append(run.metrics[table.metric])
    return {unit: fmean(seeds) for unit, seeds in values.items()}


def _summarize(rows: Sequence[Sequence[float]]) -> str:
    scores = [_z_score(row) for row in rows if len(row) > 1]
    ahead, behind = sum(score > 2 for score in scores), sum(score < -2 for score in scores)
    return (
        f"{len(scores)} of {len(rows)} rows have a standard error. By more than two of them the "
        f"quaternion model is ahead in {ahead} and behind in {behind}; the other "
        f"{len(scores) - ahead - behind} are within noise."
    )


def _z_score(differences: Sequence[float]) -> float:
    """The mean difference in units of its standard error."""
    mean, std = mean_std(differences)
    if std == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / (std / len(differences) ** 0.5)
