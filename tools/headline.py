"""README's table of results: quaternion models beside their real-valued counterparts.

The pairs are fixed here, the same for all datasets of a task. All numbers are those of the protocol
``honest``, which selects epoch and configuration on validation data. Only the last column looks at
test results: it names the best method without quaternions, which can favour it, never ours.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from quatgraph.reproduce.render import printed, with_error, with_spread
from quatgraph.reproduce.rules import Choices, choices, ruled_cell
from quatgraph.reproduce.table import Cell, Table, cell, chosen_of, runs_of
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord


@dataclass(frozen=True, slots=True)
class Pair:
    """A quaternion model and the real-valued model that is built like it."""

    label: str
    task: str
    ours: str
    real: str


PAIRS = (
    Pair("nodes: QGNN vs GCN", "node", "qgnn", "gcn"),
    Pair("graphs: QGNN, normalised adjacency vs GCN", "graph", "qgnn-symmetric", "gcn"),
    Pair("triples, MRR: SimQGNN vs SimRGCN", "link", "simqgnn", "simrgcn"),
    Pair("triples, MRR: QuatE-N3 vs ComplEx-N3", "link", "quate-n3", "complex-n3"),
    Pair("texts: TextQGNN vs TextING", "text", "textqgnn", "texting"),
)
QUATERNION = frozenset(
    {
        "qgnn",
        "qgnn-norm",
        "qgnn-symmetric",
        "quate",
        "quate-n3",
        "simqgnn",
        "simqgnn-n3",
        "textqgnn",
        "textqgnn-random",
    }
)
"""Methods with quaternion weights or vectors."""
HEADS = (
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
    """One line for each pair and dataset on which both were run, and how many differ by more than
    two standard errors."""
    by_task = {table.task: table for table in tables}
    lines = [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
    apart: list[list[float]] = []
    for pair in pairs:
        label = pair.label
        for row, differences in _rows(by_task[pair.task], records, pair):
            lines.append(f"| {' | '.join([label, *row])} |")
            apart.append(differences)
            label = ""
    return "\n".join([*lines, "", _summary(apart)])


def _rows(
    table: Table, records: Sequence[RunRecord], pair: Pair
) -> Iterator[tuple[list[str], list[float]]]:
    mine = [record for record in records if record.task == table.task]
    found = choices(table, mine) if table.rules else {}
    for dataset in table.rows:
        of = {
            method: _honest(table, mine, found, dataset, method)
            for method in table.columns
            if table.preset_of(dataset, method)
        }
        ours, real = (of.get(method) for method in (pair.ours, pair.real))
        if not (ours and real and ours.runs and real.runs):
            continue
        this, that = (_units(table, mine, found, dataset, one) for one in (pair.ours, pair.real))
        differences = [this[unit] - that[unit] for unit in sorted(this.keys() & that.keys())]
        best = max(
            (one for method, one in of.items() if method not in QUATERNION and one.runs),
            key=lambda one: one.mean or 0.0,
        )
        row = [dataset, with_spread(ours), with_spread(real), _shown(differences, table.metric)]
        yield [*row, f"{table.methods[best.method]}: {with_spread(best)}"], differences


def _honest(
    table: Table, records: Sequence[RunRecord], found: Choices, dataset: str, method: str
) -> Cell:
    if table.rules:
        return ruled_cell(table, found, dataset, method, "validation")
    return cell(table, records, dataset, method, "honest")


def _units(
    table: Table, records: Sequence[RunRecord], found: Choices, dataset: str, method: str
) -> dict[int, float]:
    """The metric on each fold or split, the mean over its seeds; or, with one split, by seed."""
    if table.rules:
        return dict(enumerate(found[dataset, method, "validation"].folds))
    runs = chosen_of(table, runs_of(table, records, dataset, method, "honest"), "honest")
    values: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        values[run.split if table.splits > 1 else run.seed].append(run.metrics[table.metric])
    return {unit: fmean(seeds) for unit, seeds in values.items()}


def _shown(differences: Sequence[float], metric: str) -> str:
    """The mean, with its standard error where there are several."""
    if len(differences) > 1:
        return with_error(differences, metric)
    return "".join(printed(one, metric, "+") for one in differences)


def _summary(rows: Sequence[Sequence[float]]) -> str:
    scores = [_in_errors(row) for row in rows if len(row) > 1]
    ahead, behind = sum(score > 2 for score in scores), sum(score < -2 for score in scores)
    return (
        f"{len(scores)} of {len(rows)} rows have a standard error. By more than two of them the "
        f"quaternion model is ahead in {ahead} and behind in {behind}; the other "
        f"{len(scores) - ahead - behind} are within noise."
    )


def _in_errors(differences: Sequence[float]) -> float:
    """The mean difference as a multiple of its standard error."""
    mean, std = mean_std(differences)
    if std == 0:
        return 0.0 if mean == 0 else math.copysign(math.inf, mean)
    return mean / (std / len(differences) ** 0.5)
