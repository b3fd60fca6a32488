"""What choosing on test data is worth, and who is ahead when nothing is chosen on it."""

from collections.abc import Sequence
from statistics import fmean

from quatgraph.reproduce.render import HEADS, with_error
from quatgraph.reproduce.rules import Choice, choices
from quatgraph.reproduce.table import Rule, Table
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

HONEST: Rule = "validation"


def render_worth(table: Table, records: Sequence[RunRecord]) -> str:
    """By how much each rule that looks at the test folds is above ``honest``: per method, the mean
    over the datasets that have all rules."""
    found = choices(table, records)
    others = [rule for rule in table.rules if rule != HONEST]
    heads = ["method", "datasets", *(f"{HEADS[rule]}, less {HEADS[HONEST]}" for rule in others)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for method in _runnable(table):
        rows = [[found.get((dataset, method, r)) for r in table.rules] for dataset in table.rows]
        whole = [dataset for dataset, row in zip(table.rows, rows, strict=True) if all(row)]
        gains = [
            _points(
                [_mean(found[d, method, rule]) - _mean(found[d, method, HONEST]) for d in whole]
            )
            for rule in others
        ]
        lines.append(f"| {' | '.join([table.methods[method], str(len(whole)), *gains])} |")
    return "\n".join(lines)


def render_paired(table: Table, records: Sequence[RunRecord], *, alone: bool = False) -> str:
    """The table's pairs under ``honest``, or their presets alone: the mean difference over the
    folds and its standard error."""
    found = choices(table, records, alone=alone)
    lines = [
        f"| this, less that | {' | '.join(table.rows)} |",
        "|---" * (len(table.rows) + 1) + "|",
    ]
    for pair in table.pairs:
        (this,), (that,) = pair["this"], pair["that"]
        shown = [
            _difference(
                found.get((dataset, this, HONEST)), found.get((dataset, that, HONEST)), table.metric
            )
            for dataset in table.rows
        ]
        said = f"{table.methods[this]}, less {table.methods[that]}"
        lines.append(f"| {said} | {' | '.join(shown)} |")
    return "\n".join(lines)


def render_search(table: Table, records: Sequence[RunRecord]) -> str:
    """What a search brought under ``honest``: the preset alone, and what validation data chose
    among all that were tried, with the mean difference over the folds and its standard error."""
    found, alone = choices(table, records), choices(table, records, alone=True)
    heads = ["dataset", "method", "configurations", "the preset alone", "chosen among all"]
    lines = [f"| {' | '.join(heads)} | difference |", "|---" * (len(heads) + 1) + "|"]
    for dataset, method in table.cells():
        chosen, preset = (these.get((dataset, method, HONEST)) for these in (found, alone))
        if chosen and preset and len(chosen.tried) > 1:
            row = [dataset, table.methods[method], str(len(chosen.tried))]
            row += [_spread(*mean_std(one.folds)) for one in (preset, chosen)]
            row += [_difference(chosen, preset, table.metric)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def render_nested(table: Table, records: Sequence[RunRecord]) -> str:
    """What others published under nested selection, and ours under ``honest``."""
    found = choices(table, records)
    datasets = [dataset for dataset in table.rows if dataset in table.nested]
    lines = [
        f"| method | whose | {' | '.join(datasets)} |",
        "|---" * (len(datasets) + 2) + "|",
    ]
    for method in table.columns:
        theirs = [table.nested[dataset].get(method) for dataset in datasets]
        ours = [found.get((dataset, method, HONEST)) for dataset in datasets]
        if any(theirs):
            shown = ["" if one is None else _spread(*one) for one in theirs]
            lines.append(f"| {table.methods[method]} | theirs | {' | '.join(shown)} |")
        if any(ours):
            shown = ["not run" if one is None else _spread(*mean_std(one.folds)) for one in ours]
            lines.append(f"| {table.methods[method]} | ours | {' | '.join(shown)} |")
    return "\n".join(lines)


def _runnable(table: Table) -> list[str]:
    """Methods with a preset for some dataset."""
    return [m for m in table.columns if any(table.preset_of(d, m) for d in table.rows)]


def _mean(choice: Choice) -> float:
    return fmean(choice.folds)


def _points(differences: Sequence[float]) -> str:
    return f"{100 * fmean(differences):+.2f}" if differences else "not run"


def _difference(this: Choice | None, that: Choice | None, metric: str) -> str:
    if this is None or that is None:
        return "not run"
    return with_error([a - b for a, b in zip(this.folds, that.folds, strict=True)], metric)


def _spread(mean: float, std: float) -> str:
    return f"{100 * mean:.1f} ± {100 * std:.1f}"
