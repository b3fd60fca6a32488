"""Two-round searches: the configurations with all seeds, and methods paired by seed."""

from collections import defaultdict
from collections.abc import Sequence

from quatgraph import config as configs
from quatgraph.metrics.classification import mean_std
from quatgraph.presets import Protocol, protocols
from quatgraph.reproduce.render import format_difference, format_metric, markdown_table
from quatgraph.reproduce.table import PROTOCOLS, Table, select_runs, select_shown
from quatgraph.training.record import RunRecord

VALIDATION = "valid/accuracy"


def render_finalists(table: Table, records: Sequence[RunRecord]) -> str:
    """The configurations with all seeds where several were tried, the best on validation data
    first, with the protocols that show them."""
    searched = configs.grid_keys(protocols(table.task)["grid"])
    header = ["dataset", "method", *(key.rsplit(".", 1)[-1] for key in searched)]
    header += ["weights", "validation", "test", "shown under"]
    rows = []
    for dataset, method in table.cells():
        groups: dict[str, list[RunRecord]] = defaultdict(list)
        for run in select_runs(table, records, dataset, method, "honest"):
            groups[run.config_digest].append(run)
        shown = {p: _shown_runs(table, records, dataset, method, p) for p in PROTOCOLS}
        complete = [g for g in groups.values() if len(g) == table.seeds and len(groups) > 1]
        for group in sorted(complete, key=lambda runs: -_mean_std(runs, VALIDATION)[0]):
            settings = configs.flatten(group[0].config)
            values = ("none" if settings[key] is None else str(settings[key]) for key in searched)
            row = [dataset, table.methods[method], *values, f"{group[0].parameters:,}"]
            row += [_format_mean_std(table, group, m) for m in (VALIDATION, table.metric)]
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


def _mean_std(runs: Sequence[RunRecord], metric: str) -> tuple[float, float]:
    return mean_std([run.metrics[metric] for run in runs])


def _format_mean_std(table: Table, runs: Sequence[RunRecord], metric: str) -> str:
    return " ± ".join(format_metric(value, table.metric) for value in _mean_std(runs, metric))
