"""Tables of the paper as Markdown or plain objects: the paper's numbers next to ours."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from quatgraph.reproduce.rules import Selections, apply_rules, rule_cell
from quatgraph.reproduce.table import METRIC_FORMATS, PROTOCOLS, Cell, Rule, Table, cell
from quatgraph.training.metrics import mean_std
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


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
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

    Args:
        skip_missing: Whether to leave out methods without runs.
    """
    render_rows = _render_by_rule if table.rules else _render_by_protocol
    text = markdown_table(*render_rows(table, records, only, skip_missing))
    return f"{text}\n\n{table.note}" if table.note else text


def _render_by_protocol(
    table: Table, records: Sequence[RunRecord], only: Sequence[str], skip_missing: bool
) -> tuple[list[str], list[list[str]]]:
    names = " / ".join(METRIC_FORMATS[metric][0] for metric in table.metrics)
    header = ["dataset", "method", f"published, {names}" if table.extra_metrics else "published"]
    header += ["ours, `paper`", "difference", "ours, `honest`", "configurations", "weights"]
    rows = []
    for dataset, method in table.cells(only):
        paper, honest = (
            [cell(table, records, dataset, method, protocol, m) for m in table.metrics]
            for protocol in PROTOCOLS
        )
        if skip_missing and not (paper[0].runs or honest[0].runs):
            continue
        rows.append(
            [
                dataset,
                table.methods[method],
                _format_published(table, dataset, method),
                format_cells(*paper),
                _format_differences(*paper),
                format_cells(*honest),
                str(honest[0].configs) if honest[0].runs else "",
                _format_weights(paper[0], honest[0]),
                _format_time(paper[0] if paper[0].runs else honest[0]),
            ]
        )
    return [*header, "training time per run"], rows


def _render_by_rule(
    table: Table, records: Sequence[RunRecord], only: Sequence[str], skip_missing: bool
) -> tuple[list[str], list[list[str]]]:
    selections = apply_rules(table, records)
    header = ["dataset", "method", "published", *(RULE_NAMES[rule] for rule in table.rules)]
    header += ["configurations", "weights (max.)", "training time per run"]
    rows = []
    for dataset, method in table.cells(only):
        ours = [rule_cell(table, selections, dataset, method, rule) for rule in table.rules]
        if skip_missing and not any(one.runs for one in ours):
            continue
        honest = rule_cell(table, selections, dataset, method, "validation")
        rows.append(
            [
                dataset,
                table.methods[method],
                _format_published(table, dataset, method),
                *(format_cells(one) for one in ours),
                _format_configurations(table, selections, dataset, method),
                f"{honest.parameters:,}" if honest.parameters else "",
                _format_time(honest if honest.runs else ours[0]),
            ]
        )
    return header, rows


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
    """The mean of paired differences and its standard error."""
    mean, std = mean_std(differences)
    error = std / len(differences) ** 0.5
    return f"{format_metric(mean, metric, '+')} ± {format_metric(error, metric)}"


def format_cells(*metrics: Cell) -> str:
    """Mean ± standard deviation (runs) of each metric; a single run has no deviation."""
    formatted = [
        format_metric(one.mean, one.metric)
        + (f" ± {format_metric(one.std, one.metric)}" if one.runs > 1 else "")
        for one in metrics
        if one.mean is not None and one.std is not None
    ]
    return f"{' / '.join(formatted)} ({metrics[0].runs})" if formatted else "not run"


def _format_differences(*metrics: Cell) -> str:
    return " / ".join(
        format_metric(one.mean - one.paper, one.metric, "+")
        for one in metrics
        if one.mean is not None and one.paper is not None
    )
