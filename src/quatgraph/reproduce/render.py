"""Tables as text: paper, ours under each protocol or by each rule."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from quatgraph.reproduce.rules import Choices, choices, ruled_cell
from quatgraph.reproduce.table import PRINTED, PROTOCOLS, Cell, Rule, Table, cell
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

OWN = "qgnn"
"""The paper's own method: how many configurations the others should have had."""

HEADS: dict[Rule, str] = {
    "best-per-fold": "best epoch per fold (chosen on test)",
    "gin": "`paper`: GIN's rule (chosen on test)",
    "validation": "`honest`",
}
"""How rules are called in print."""


def cells(
    table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Every cell as a plain object, for programs."""
    found = choices(table, records) if table.rules else {}
    for dataset, method in table.cells(only):
        for rule in table.rules:
            yield dataclasses.asdict(ruled_cell(table, found, dataset, method, rule))
        for protocol in () if table.rules else PROTOCOLS:
            for metric in table.metrics:
                yield dataclasses.asdict(cell(table, records, dataset, method, protocol, metric))


def render(
    table: Table, records: Sequence[RunRecord], only: Sequence[str] = (), *, ran: bool = False
) -> str:
    """The table in Markdown: mean +- std of each metric (runs).

    Args:
        ran: Whether to leave out what was not run.
    """
    if table.rules:
        return _render_rules(table, records, only, ran)
    names = " / ".join(PRINTED[metric][0] for metric in table.metrics)
    lines = [
        f"| dataset | method | the paper{f', {names}' if table.beside else ''} "
        "| ours, protocol `paper` | difference | ours, protocol `honest` | configurations "
        "| weights | training of a run |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for dataset, method in table.cells(only):
        paper, honest = (
            [cell(table, records, dataset, method, protocol, m) for m in table.metrics]
            for protocol in PROTOCOLS
        )
        if ran and not (paper[0].runs or honest[0].runs):
            continue
        shown = [
            dataset,
            table.methods[method],
            _published(table, dataset, method),
            with_spread(*paper),
            _difference(*paper),
            with_spread(*honest),
            str(honest[0].configs) if honest[0].runs else "",
            _weights(paper[0], honest[0]),
            _time(paper[0] if paper[0].runs else honest[0]),
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join([*lines, "", table.note] if table.note else lines)


def _render_rules(
    table: Table, records: Sequence[RunRecord], only: Sequence[str], ran: bool
) -> str:
    """The table with a column for each of its rules."""
    found = choices(table, records)
    heads = [HEADS[rule] for rule in table.rules]
    shown = ["dataset", "method", "the paper", *heads, "configurations", "weights, at most"]
    shown.append("training of a run")
    lines = [f"| {' | '.join(shown)} |", "|---" * len(shown) + "|"]
    for dataset, method in table.cells(only):
        row = [ruled_cell(table, found, dataset, method, rule) for rule in table.rules]
        if ran and not any(one.runs for one in row):
            continue
        honest = ruled_cell(table, found, dataset, method, "validation")
        shown = [
            dataset,
            table.methods[method],
            _published(table, dataset, method),
            *(with_spread(one) for one in row),
            _configurations(table, found, dataset, method),
            f"{honest.parameters:,}" if honest.parameters else "",
            _time(honest if honest.runs else row[0]),
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def _weights(paper: Cell, honest: Cell) -> str:
    """Those of the preset, and of what ``honest`` chose where it has others."""
    if not paper.parameters:
        return ""
    chosen = honest.parameters or paper.parameters
    other = f"; `honest` up to {chosen:,}" if chosen != paper.parameters else ""
    return f"{paper.parameters:,}{other}"


def _time(one: Cell) -> str:
    times = {
        name: f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"
        for name, value in one.each.items()
    }
    return "; ".join(f"{said}, {name}" if name else said for name, said in times.items())


def _published(table: Table, dataset: str, method: str) -> str:
    found = {metric: table.published(dataset, method, metric) for metric in table.metrics}
    said = " / ".join(printed(value, m) for m, value in found.items() if value is not None)
    spread = table.paper_std.get(dataset, {}).get(method)
    return said if spread is None else f"{said} ± {printed(spread, table.metric)}"


def _configurations(table: Table, found: Choices, dataset: str, method: str) -> str:
    """How many were tried, under each protocol where they differ; and how many of the paper's own
    method, where it had others."""
    mine, own = (_counted(table, found, dataset, one) for one in (method, OWN))
    other = mine and own and mine != own
    return f"{mine}; {table.methods[OWN]} {own}" if other else mine


def _counted(table: Table, found: Choices, dataset: str, method: str) -> str:
    cells = [ruled_cell(table, found, dataset, method, rule) for rule in table.rules]
    counts = {one.protocol: one.configs for one in cells}
    if not any(counts.values()):
        return ""
    if len(set(counts.values())) == 1:
        return str(cells[0].configs)
    return ", ".join(f"`{protocol}` {count}" for protocol, count in counts.items())


def printed(fraction: float, metric: str, sign: str = "") -> str:
    """As tables print it: an accuracy in percent, an MRR without its leading zero."""
    _, times, decimals = PRINTED[metric]
    text = f"{times * fraction:{sign}.{decimals}f}"
    return text.replace("0.", ".", 1) if times == 1 else text


def with_error(differences: Sequence[float], metric: str) -> str:
    """The mean of differences, and its standard error."""
    mean, std = mean_std(differences)
    return f"{printed(mean, metric, '+')} ± {printed(std / len(differences) ** 0.5, metric)}"


def with_spread(*metrics: Cell) -> str:
    """Means with their standard deviations, which a single run has none of."""
    shown = [
        printed(one.mean, one.metric)
        + (f" ± {printed(one.std, one.metric)}" if one.runs > 1 else "")
        for one in metrics
        if one.mean is not None and one.std is not None
    ]
    return f"{' / '.join(shown)} ({metrics[0].runs})" if shown else "not run"


def _difference(*metrics: Cell) -> str:
    return " / ".join(
        printed(one.mean - one.paper, one.metric, "+")
        for one in metrics
        if one.mean is not None and one.paper is not None
    )
