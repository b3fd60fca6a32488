"""The effect of selection on test data, and paired comparisons without it."""

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from quatgraph.metrics.classification import mean_std
from quatgraph.reproduce.render import RULE_NAMES, format_difference, markdown_table
from quatgraph.reproduce.rules import Selection, apply_rules, validation
from quatgraph.reproduce.table import Rule, Table
from quatgraph.training.record import RunRecord

HONEST: Rule = "validation"


def render_rule_effects(table: Table, records: Sequence[RunRecord]) -> str:
    """How much each rule that selects on the test folds adds to ``honest``: per method, the mean
    over the datasets that have all rules."""
    found = apply_rules(table, records)
    others = [rule for rule in table.rules if rule != HONEST]
    header = ["method", "datasets"]
    header += [f"{RULE_NAMES[rule]} minus {RULE_NAMES[HONEST]}" for rule in others]
    rows = []
    for method in table.columns:
        if not any(table.preset_of(dataset, method) for dataset in table.rows):
            continue
        complete = [
            dataset
            for dataset in table.rows
            if all((dataset, method, rule) in found for rule in table.rules)
        ]
        row = [table.methods[method], str(len(complete))]
        for rule in others:
            gains = [
                fmean(found[dataset, method, rule].folds)
                - fmean(found[dataset, method, HONEST].folds)
                for dataset in complete
            ]
            row.append(f"{100 * fmean(gains):+.2f}" if gains else "not run")
        rows.append(row)
    return markdown_table(header, rows)


def render_paired(table: Table, records: Sequence[RunRecord], *, presets_only: bool = False) -> str:
    """The pairs of a table under ``honest``: mean difference over folds and its standard error."""
    found = apply_rules(table, records, presets_only=presets_only)
    rows = []
    for pair in table.pairs:
        (this,), (that,) = pair["this"], pair["that"]
        cells = [
            _format_paired(
                found.get((dataset, this, HONEST)), found.get((dataset, that, HONEST)), table.metric
            )
            for dataset in table.rows
        ]
        rows.append([f"{table.methods[this]} minus {table.methods[that]}", *cells])
    return markdown_table(["comparison", *table.rows], rows)


def render_search(table: Table, records: Sequence[RunRecord]) -> str:
    """The gain of a search under ``honest``: the preset, the selected configurations, and the mean
    difference over folds with its standard error."""
    found, presets = (apply_rules(table, records, presets_only=only) for only in (False, True))
    rows = []
    for dataset, method in table.cells():
        selected, preset = (these.get((dataset, method, HONEST)) for these in (found, presets))
        if selected and preset and len(selected.candidates) > 1:
            row = [dataset, table.methods[method], str(len(selected.candidates))]
            row += [_format_mean_std(*mean_std(one.folds)) for one in (preset, selected)]
            rows.append([*row, _format_paired(selected, preset, table.metric)])
    header = ["dataset", "method", "configurations", "preset", "selected", "difference"]
    return markdown_table(header, rows)


def render_best(
    table: Table, records: Sequence[RunRecord], methods: Sequence[str], others: Sequence[str]
) -> str:
    """What validation data selects for each fold among all configurations of several methods, and
    the difference to other methods."""
    found = apply_rules(table, records)
    rows = []
    for dataset in table.rows:
        each = [found[dataset, m, HONEST] for m in methods if (dataset, m, HONEST) in found]
        candidates = [runs for one in each for runs in one.candidates]
        best = validation(candidates, table.metric)
        counts = Counter(table.methods[run.method] for run in best.runs)
        row = [dataset, str(len(candidates)), ", ".join(f"{counts[m]} {m}" for m in counts)]
        row.append(_format_mean_std(*mean_std(best.folds)))
        row += [_format_paired(best, found.get((dataset, m, HONEST)), table.metric) for m in others]
        rows.append(row)
    header = ["dataset", "configurations", "folds", "`honest`"]
    header += [f"minus {table.methods[method]}" for method in others]
    return markdown_table(header, rows)


def render_nested(table: Table, records: Sequence[RunRecord]) -> str:
    """Published results under nested selection, and ours under ``honest``."""
    found = apply_rules(table, records)
    datasets = [dataset for dataset in table.rows if dataset in table.nested]
    rows = []
    for method in table.columns:
        published = [table.nested[dataset].get(method) for dataset in datasets]
        ours = [found.get((dataset, method, HONEST)) for dataset in datasets]
        if any(published):
            cells = ["" if one is None else _format_mean_std(*one) for one in published]
            rows.append([table.methods[method], "published", *cells])
        if any(ours):
            cells = [
                "not run" if one is None else _format_mean_std(*mean_std(one.folds)) for one in ours
            ]
            rows.append([table.methods[method], "ours", *cells])
    return markdown_table(["method", "source", *datasets], rows)


def _format_paired(this: Selection | None, that: Selection | None, metric: str) -> str:
    if this is None or that is None:
        return "not run"
    return format_difference([a - b for a, b in zip(this.folds, that.folds, strict=True)], metric)


def _format_mean_std(mean: float, std: float) -> str:
    return f"{100 * mean:.1f} ± {100 * std:.1f}"
