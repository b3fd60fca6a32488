"""Questions to a knowledge graph as people write them: rows of head, relation and tail.

An end that is asked for is empty or ``?``; a row without one is a triple whose worth is asked.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from quatgraph.data.io.columns import TRIPLE_COLUMNS
from quatgraph.data.io.files import read_packed
from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.name_table import NameTable
from quatgraph.data.link import Triples
from quatgraph.data.link.parts import without_header
from quatgraph.errors import Mistake

Row = Sequence[str | None]
AnyQuestions = Path | str | Iterable[Row]
OPEN = -1
"""The number of what is asked for."""


def numbered(questions: AnyQuestions, triples: Triples, notes: list[str] | None = None) -> Tensor:
    """Head, relation and tail of each question, ``(Q, 3)``; an end that is asked for is ``OPEN``.

    Args:
        questions: A file of three columns, see :mod:`quatgraph.data.io.name_table`, with or without
            a line that names them; or rows of names. Names are ids or labels.
        triples: What is asked about.
        notes: Where to add what a person should know of the file: sentences.
    """
    notes = [] if notes is None else notes
    rows = (
        _read(Path(questions), notes) if isinstance(questions, Path | str) else _checked(questions)
    )
    found = [_numbers(row, at, triples) for at, row in rows]
    return torch.tensor(found, dtype=torch.int64).view(-1, 3)


def example(triples: Triples) -> str:
    """A question about the graph, as options of the command line."""
    head, relation, _ = (triples.test if len(triples.test) else triples.train)[0].tolist()
    asked = {
        "head": (head, triples.entities, triples.entity_labels),
        "relation": (relation, triples.relations, triples.relation_labels),
    }
    return " ".join(f"--{what} {shlex.quote(_name(*which))}" for what, which in asked.items())


def _name(number: int, ids: list[str], labels: list[str]) -> str:
    """A name by which just this one is found."""
    return labels[number] if labels.count(labels[number]) == 1 else ids[number]


def _read(path: Path, notes: list[str]) -> Iterator[tuple[str, Row]]:
    """The rows of a file, each with the beginning of a message about it."""
    table, note = without_header(
        NameTable.parse(read_packed(path), str(path), tuple(TRIPLE_COLUMNS))
    )
    notes += [note] if note else []
    empty = True
    for chunk in table.chunks():
        cells = [column.cells() for column in chunk.columns]
        for line, *row in zip(chunk.lines.tolist(), *cells, strict=True):
            empty = False
            yield f"{path} line {line}: ", row
    if empty:
        raise Mistake(
            f"{path} has no questions; write head, relation and tail, ? for what is asked"
        )


def _checked(rows: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """The same of rows in memory; of a single one no message says which."""
    rows = list(rows)
    if not rows:
        raise Mistake("there are no questions; give rows of head, relation and tail")
    for number, row in enumerate(rows, 1):
        at = f"question {number}: " if len(rows) > 1 else ""
        if isinstance(row, str) or len(row) != len(TRIPLE_COLUMNS):
            raise Mistake(
                f"{at}{row!r} is no row of head, relation and tail, None for what is asked"
            )
        yield at, row


def _numbers(row: Row, at: str, triples: Triples) -> list[int]:
    head, relation, tail = ("" if cell is None else str(cell).strip() for cell in row)
    if _open(relation):
        raise Mistake(
            f"{at}the relation is missing; there are {quote_some(triples.relation_labels)}"
        )
    if _open(head) and _open(tail):
        raise Mistake(f"{at}head and tail are both missing; give one, or both to have them judged")
    try:
        ends = [OPEN if _open(end) else triples.entity(end) for end in (head, tail)]
        return [ends[0], triples.relation(relation), ends[1]]
    except Mistake as mistake:
        raise Mistake(f"{at}{mistake}") from None


def _open(cell: str) -> bool:
    return cell in ("", "?")
