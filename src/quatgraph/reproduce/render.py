"""Tables as text: paper, ours under each protocol, difference."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from quatgraph.errors import Mistake
from quatgraph.reproduce.table import PROTOCOLS, Cell, Table, cell
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import write_atomic


def cells(
    table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Every cell as a plain object, for programs."""
    for dataset, method in table.cells(only):
        for protocol in PROTOCOLS:
            yield dataclasses.asdict(cell(table, records, dataset, method, protocol))


def render(table: Table, records: Sequence[RunRecord], only: Sequence[str] = ()) -> str:
    """The table in Markdown, in percent: mean +- std (runs)."""
    lines = [
        "| dataset | method | the paper | ours, protocol `paper` | difference "
        "| ours, protocol `honest` | configurations | weights |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for dataset, method in table.cells(only):
        paper, honest = (cell(table, records, dataset, method, p) for p in PROTOCOLS)
        shown = [
            dataset,
            table.methods[method],
            _percent(paper.paper),
            _with_spread(paper),
            _difference(paper),
            _with_spread(honest),
            str(honest.configs) if honest.runs else "",
            f"{paper.parameters:,}" if paper.parameters else "",
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines)


def write_between(path: Path, name: str, text: str) -> None:
    """Replaces what stands between ``<!-- name -->`` and ``<!-- /name -->`` in a file."""
    try:
        content = path.read_text(encoding="utf-8")
    except OSError as error:
        raise Mistake(f"cannot write into {path}: {error.strerror}") from error
    write_atomic(path, replaced_between(content, name, text))


def replaced_between(content: str, name: str, text: str) -> str:
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    head, _, rest = content.partition(begin)
    if content.count(begin) != 1 or content.count(end) != 1 or end not in rest:
        raise Mistake(f"the file needs one line {begin} and one line {end} to write between")
    return f"{head}{begin}\n{text}\n{end}{rest.partition(end)[2]}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def _with_spread(one: Cell) -> str:
    if one.mean is None or one.std is None:
        return "not run"
    return f"{_percent(one.mean)} ± {_percent(one.std)} ({one.runs})"


def _difference(one: Cell) -> str:
    if one.mean is None or one.paper is None:
        return ""
    return f"{100 * (one.mean - one.paper):+.2f}"
