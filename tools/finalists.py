"""A search in two rounds: the configurations that have all seeds, and methods seed by seed."""

from collections import defaultdict
from collections.abc import Sequence

from quatgraph import config as configs
from quatgraph.presets import Protocol, protocols
from quatgraph.reproduce.render import printed, with_error
from quatgraph.reproduce.table import PROTOCOLS, Table, chosen_of, runs_of
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

VALIDATION = "valid/accuracy"


def render_finalists(table: Table, records: Sequence[RunRecord]) -> str:
    """Where several configurations were tried: those with all seeds, the best on validation data
    first, with the protocols that show them."""
    searched = configs.grid_keys(protocols(table.task)["grid"])
    heads = ["dataset", "method", *(key.rsplit(".", 1)[-1] for key in searched)]
    heads += ["weights", "validation", "test", "shown by"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for dataset, method in table.cells():
        groups: dict[str, list[RunRecord]] = defaultdict(list)
        for run in runs_of(table, records, dataset, method, "honest"):
            groups[run.config_digest].append(run)
        shown = {p: _shown(table, records, dataset, method, p) for p in PROTOCOLS}
        whole = [g for g in groups.values() if len(g) == table.seeds and len(groups) > 1]
        for group in sorted(whole, key=lambda runs: -_mean_std(runs, VALIDATION)[0]):
            settings = configs.flatten(group[0].config)
            by = [f"`{p}`" for p, runs in shown.items() if group[0] in runs]
            row = [dataset, table.methods[method], *(_said(settings[key]) for key in searched)]
            row += [f"{group[0].parameters:,}", _spread(table, group, VALIDATION)]
            row += [_spread(table, group, table.metric), ", ".join(by)]
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def render_by_seed(table: Table, records: Sequence[RunRecord]) -> str:
    """The table's pairs under both protocols: the mean difference over the seeds and its standard
    error."""
    heads = ["this, less that", "protocol", *table.rows]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for pair in table.pairs:
        (this,), (that,) = pair["this"], pair["that"]
        for protocol in PROTOCOLS:
            row = [f"{table.methods[this]}, less {table.methods[that]}", f"`{protocol}`"]
            for dataset in table.rows:
                ours, theirs = (_shown(table, records, dataset, m, protocol) for m in (this, that))
                row.append(_difference(table, ours, theirs))
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _shown(
    table: Table, records: Sequence[RunRecord], dataset: str, method: str, protocol: Protocol
) -> list[RunRecord]:
    return chosen_of(table, runs_of(table, records, dataset, method, protocol), protocol)


def _difference(table: Table, this: Sequence[RunRecord], that: Sequence[RunRecord]) -> str:
    ours, theirs = ({run.seed: run.metrics[table.metric] for run in runs} for runs in (this, that))
    both = ours.keys() & theirs.keys()
    if not both:
        return "not run"
    return with_error([ours[seed] - theirs[seed] for seed in both], table.metric)


def _said(value: object) -> str:
    return "none" if value is None else str(value)


def _mean_std(runs: Sequence[RunRecord], metric: str) -> tuple[float, float]:
    return mean_std([run.metrics[metric] for run in runs])


def _spread(table: Table, runs: Sequence[RunRecord], metric: str) -> str:
    return " ± ".join(printed(value, table.metric) for value in _mean_std(runs, metric))
