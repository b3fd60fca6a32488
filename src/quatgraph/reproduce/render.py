"""Tables of the paper as Markdown or plain objects: the paper's numbers next to ours."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from quatgraph.metrics.classification import mean_std
from quatgraph.reproduce.rules import Selections, apply_rules, rule_cell
from quatgraph.reproduce.table import METRIC_FORMATS, PROTOCOLS, Cell, Rule, Table, cell, make_cell
from quatgraph.training.record import RunRecord

REFERENCE = "qgnn"
"""The method whose number of configurations is shown next to other numbers."""

RULE_NAMES: dict[Rule, str] = {
    "best-per-fold": "best epoch per fold (selected on test)",
    "gin": "`paper`: GIN's rule (selected on test)",
    "validation": "`honest`",
}


def cells(
    table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Every cell as a plain object."""
    selections = apply_rules(table, records) if table.rules else {}
    for dataset, method in table.cells(only):
        for rule in table.rules:
            yield dataclasses.asdict(rule_cell(table, selections, dataset, method, rule))
        for protocol in () if table.rules else PROTOCOLS:
            for metric in table.metrics:
                yield dataclasses.asdict(cell(table, records, dataset, method, protocol, metric))


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = (f"| {' | '.join(row)} |" for row in (header, *rows))
    return "\n".join((next(lines), "|---" * len(header) + "|", *lines))


def render(
    table: Table,
    records: Sequence[RunRecord],
    only: Sequence[str] = (),
    *,
    skip_missing: bool = False,
) -> str:
    """The table in Markdown: mean ± standard deviation (runs) of each metric.

    ``skip_missing`` leaves out methods without runs.
    """
    if table.rules:
        selections = apply_rules(table, records)
        rows = [_rule_row(table, selections, *names) for names in table.cells(only)]
    else:
        rows = [_protocol_row(table, records, *names) for names in table.cells(only)]
    shown = [row.values() for ran, row in rows if ran or not skip_missing]
    text = markdown_table(list(rows[0][1]), shown)
    return f"{text}\n\n{table.note}" if table.note else text


def render_combinations(table: Table, records: Sequence[RunRecord]) -> str:
    """The combinations of a table that have records, in Markdown; empty without any."""
    rows = []
    for dataset in table.rows:
        for name, combination in table.combinations.items():
            key = (table.task, dataset, name)
            runs = [r for r in records if (r.task, r.dataset, r.method) == key]
            if runs:
                found = [_combined_cell(table, runs, dataset, name, m) for m in table.metrics]
                used = [len(run.config["members"]) for run in runs]
                several = "" if min(used) == max(used) else f"{min(used)} to "
                row = [dataset, combination.title, format_cells(*found)]
                rows.append([*row, f"{several}{max(used)}", f"{max(r.parameters for r in runs):,}"])
    metrics = " / ".join(METRIC_FORMATS[metric][0] for metric in table.metrics)
    header = ["dataset", "combination", f"test, {metrics}", "members with weight", "weights"]
    return markdown_table(header, rows) if rows else ""


def _combined_cell(
    table: Table, runs: Sequence[RunRecord], dataset: str, name: str, metric: str
) -> Cell:
    values = [run.metrics[metric] for run in runs]
    key = {"dataset": dataset, "method": name, "metric": metric}
    return make_cell(table, values, runs, runs, protocol="honest", rule="validation", **key)


Row = tuple[bool, dict[str, str]]
"""Whether there are runs, and the text of each column."""


def _protocol_row(table: Table, records: Sequence[RunRecord], dataset: str, method: str) -> Row:
    published = "published"
    if table.extra_metrics:
        published += f", {' / '.join(METRIC_FORMATS[metric][0] for metric in table.metrics)}"
    paper, honest = (
        [cell(table, records, dataset, method, protocol, m) for m in table.metrics]
        for protocol in PROTOCOLS
    )
    reason = table.reason(dataset, method)
    return bool(paper[0].runs or honest[0].runs), {
        "dataset": dataset,
        "method": table.methods[method],
        published: _format_published(table, dataset, method),
        "ours, `paper`": format_cells(*paper, reason=reason),
        "difference": _format_differences(*paper),
        "ours, `honest`": format_cells(*honest, reason=reason),
        "configurations": str(honest[0].configs) if honest[0].runs else "",
        "weights": _format_weights(paper[0], honest[0]),
        "training time per run": _format_time(paper[0] if paper[0].runs else honest[0]),
    }


def _rule_row(table: Table, selections: Selections, dataset: str, method: str) -> Row:
    ours = {rule: rule_cell(table, selections, dataset, method, rule) for rule in table.rules}
    honest = rule_cell(table, selections, dataset, method, "validation")
    timed = honest if honest.runs else ours[table.rules[0]]
    reason = table.reason(dataset, method)
    return any(one.runs for one in ours.values()), {
        "dataset": dataset,
        "method": table.methods[method],
        "published": _format_published(table, dataset, method),
        **{RULE_NAMES[rule]: format_cells(one, reason=reason) for rule, one in ours.items()},
        "configurations": _format_configurations(table, selections, dataset, method),
        "weights (max.)": f"{honest.parameters:,}" if honest.parameters else "",
        "training time per run": _format_time(timed),
    }


def _format_weights(paper: Cell, honest: Cell) -> str:
    """The weights of the preset, and those that ``honest`` selected if they differ."""
    if not paper.parameters:
        return ""
    selected = honest.parameters or paper.parameters
    other = f"; `honest` up to {selected:,}" if selected != paper.parameters else ""
    return f"{paper.parameters:,}{other}"


def _format_time(one: Cell) -> str:
    times = {
        name: f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
        for name, value in one.seconds_per_run.items()
    }
    return "; ".join(f"{time}, {name}" if name else time for name, time in times.items())


def _format_published(table: Table, dataset: str, method: str) -> str:
    found = {metric: table.published(dataset, method, metric) for metric in table.metrics}
    means = " / ".join(format_metric(value, m) for m, value in found.items() if value is not None)
    std = table.paper_std.get(dataset, {}).get(method)
    return means if std is None else f"{means} ± {format_metric(std, table.metric)}"


def _format_configurations(table: Table, selections: Selections, dataset: str, method: str) -> str:
    """The number of configurations, and that of :data:`REFERENCE` if it differs."""
    ours, reference = (
        _count_configurations(table, selections, dataset, one) for one in (method, REFERENCE)
    )
    differs = ours and reference and ours != reference
    return f"{ours}; {table.methods[REFERENCE]} {reference}" if differs else ours


def _count_configurations(table: Table, selections: Selections, dataset: str, method: str) -> str:
    found = [rule_cell(table, selections, dataset, method, rule) for rule in table.rules]
    counts = {one.protocol: one.configs for one in found}
    if not any(counts.values()):
        return ""
    if len(set(counts.values())) == 1:
        return str(found[0].configs)
    return ", ".join(f"`{protocol}` {count}" for protocol, count in counts.items())


def format_metric(fraction: float, metric: str, sign: str = "") -> str:
    """A metric as in the paper: an accuracy in percent, an MRR without its leading zero."""
    _, scale, decimals = METRIC_FORMATS[metric]
    text = f"{scale * fraction:{sign}.{decimals}f}"
    return text.replace("0.", ".", 1) if scale == 1 else text


def format_difference(differences: Sequence[float], metric: str) -> str:
    """The mean of paired differences and its standard error; a single one has none."""
    mean, std = mean_std(differences)
    error = std / len(differences) ** 0.5
    spread = f" ± {format_metric(error, metric)}" if len(differences) > 1 else ""
    return format_metric(mean, metric, "+") + spread


def format_cells(*metrics: Cell, reason: str = "") -> str:
    """Mean ± standard deviation (runs) of each metric; a single run has no deviation. ``reason``
    says why there are no runs."""
    formatted = [
        format_metric(one.mean, one.metric)
        + (f" ± {format_metric(one.std, one.metric)}" if one.runs > 1 else "")
        for one in metrics
        if one.mean is not None and one.std is not None
    ]
    if formatted:
        return f"{' / '.join(formatted)} ({metrics[0].runs})"
    return f"not run: {reason}" if reason else "not run"


def _format_differences(*metrics: Cell) -> str:
    return " / ".join(
        format_metric(one.mean - one.paper, one.metric, "+")
        for one in metrics
        if one.mean is not None and one.paper is not None
    )
