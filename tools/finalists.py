"""Two-round searches: the configurations with several seeds, and methods paired by seed."""

from collections import defaultdict
from collections.abc import Sequence

from quatgraph import config as configs
from quatgraph.metrics.classification import mean_std
from quatgraph.presets import Protocol, protocols
from quatgraph.reproduce.render import format_difference, format_metric, markdown_table
from quatgraph.reproduce.table import (
    PROTOCOLS,
    Table,
    diff_settings,
    preset_settings,
    select_runs,
    select_shown,
)
from quatgraph.training.record import RunRecord

VALIDATION = "valid/accuracy"


def render_finalists(table: Table, records: Sequence[RunRecord]) -> str:
    """The configurations with several seeds where several were tried, the best on validation data
    first, with the protocols that show them."""
    searched = configs.grid_keys(protocols(table.task)["grid"])
    header = ["dataset", "method", *(key.rsplit(".", 1)[-1] for key in searched)]
    header += ["else", "weights", "validation", "test", "shown under"]
    rows = []
    for dataset, method in table.cells():
        groups: dict[str, list[RunRecord]] = defaultdict(list)
        for run in select_runs(table, records, dataset, method, "honest"):
            groups[run.config_digest].append(run)
        shown = {p: _shown_runs(table, records, dataset, method, p) for p in PROTOCOLS}
        repeated = [g for g in groups.values() if len(g) > 1 and len(groups) > 1]
        for group in sorted(repeated, key=lambda runs: -_mean_std(runs, VALIDATION)[0]):
            settings = configs.flatten(group[0].config)
            values = ("none" if settings[key] is None else str(settings[key]) for key in searched)
            row = [dataset, table.methods[method], *values]
            row += [_format_others(table, group[0], searched), f"{group[0].parameters:,}"]
            row += [format_runs(table, group, m) for m in (VALIDATION, table.metric)]
            row += [", ".join(f"`{p}`" for p, runs in shown.items() if group[0] in runs)]
            rows.append(row)
    return markdown_table(header, rows)


def render_by_seed(table: Table, records: Sequence[RunRecord]) -> str:
    """The pairs of a table under both protocols: mean difference over seeds and its standard
    error."""
    rows = []
    for pair in table.pairs:
        (this,), (that,) = pair["this"], pair["that"]
        for protocol in PROTOCOLS:
            row = [f"{table.methods[this]} minus {table.methods[that]}", f"`{protocol}`"]
            for dataset in table.rows:
                ours, theirs = (
                    _shown_runs(table, records, dataset, m, protocol) for m in (this, that)
                )
                row.append(_format_paired(table, ours, theirs))
            rows.append(row)
    return markdown_table(["comparison", "protocol", *table.rows], rows)


def _shown_runs(
    table: Table, records: Sequence[RunRecord], dataset: str, method: str, protocol: Protocol
) -> list[RunRecord]:
    return select_shown(table, select_runs(table, records, dataset, method, protocol), protocol)


def _format_paired(table: Table, this: Sequence[RunRecord], that: Sequence[RunRecord]) -> str:
    ours, theirs = ({run.seed: run.metrics[table.metric] for run in runs} for runs in (this, that))
    both = ours.keys() & theirs.keys()
    if not both:
        return "not run"
    return format_difference([ours[seed] - theirs[seed] for seed in both], table.metric)


def _format_others(table: Table, run: RunRecord, searched: Sequence[str]) -> str:
    """The settings of the model that differ from the preset's, but for those with a column."""
    name = table.preset_of(run.dataset, run.method)
    changed = diff_settings(run.config, preset_settings(table.task, name) if name else {})
    named = (key for key in changed if key.startswith("model.") and key not in searched)
    return ", ".join(f"{key.removeprefix('model.')} {changed[key]}" for key in sorted(named))


def _mean_std(runs: Sequence[RunRecord], metric: str) -> tuple[float, float]:
    return mean_std([run.metrics[metric] for run in runs])


def format_runs(table: Table, runs: Sequence[RunRecord], metric: str) -> str:
    """Mean and deviation of a metric, and the number of runs: ``93.1 ± 0.2 (10)``."""
    values = (format_metric(value, table.metric) for value in _mean_std(runs, metric))
    return f"{' ± '.join(values)} ({len(runs)})"
