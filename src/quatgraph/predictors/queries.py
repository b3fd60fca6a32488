"""Queries to a knowledge graph: rows of head, relation and tail.

The end to predict is empty or ``?``. A row with both ends is a triple to score.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from quatgraph.data.io.columns import TRIPLE_COLUMNS
from quatgraph.data.io.files import read_content
from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.name_table import NameTable
from quatgraph.data.link import Triples, find_featured
from quatgraph.data.link.names import NAME_THEM
from quatgraph.data.link.parts import without_header
from quatgraph.errors import UserError

Row = Sequence[str | None]
AnyQueries = Path | str | Iterable[Row]
OPEN = -1
"""The number of an end to predict."""


class SingleQuery(TypedDict, total=False):
    """A triple by names; the end that is not given is predicted."""

    head: str | None
    relation: str | None
    tail: str | None


def parse_queries(
    queries: AnyQueries,
    triples: Triples,
    notes: list[str] | None = None,
    columns: Mapping[str, str] = {},
) -> Tensor:
    """Numbers of head, relation and tail of each query, ``(Q, 3)``; ``OPEN`` for an end to predict.

    Args:
        queries: A file of three columns, see :mod:`quatgraph.data.io.name_table`, with or without a
            header; or rows of names. Names are ids or labels.
        triples: The knowledge graph.
        notes: Gets notes on the file.
        columns: Names of the columns of the training data by role; a file that has them is read
            likewise.
    """
    rows = _read(queries, notes := [] if notes is None else notes, columns)
    found = [_number_row(row, at, triples) for at, row in rows]
    return torch.tensor(found, dtype=torch.int64).view(-1, 3)


def parse_triples(
    source: AnyQueries,
    triples: Triples,
    notes: list[str] | None = None,
    columns: Mapping[str, str] = {},
) -> Tensor:
    """Numbers of head, relation and tail of whole triples, ``(N, 3)``, each once. Triples with an
    entity or a relation that the graph does not have are left out, with a note.

    Args:
        source: A file or rows, as of :func:`parse_queries`.
        triples: The knowledge graph.
        notes: Gets notes on the triples.
        columns: See :func:`parse_queries`.
    """
    rows = _read(source, notes := [] if notes is None else notes, columns)
    names = [
        {name.casefold() for name in (*ids, *labels)}
        for ids, labels in (
            (triples.entities, triples.entity_labels),
            (triples.relations, triples.relation_labels),
        )
    ]
    found, unknown, count = [], dict[str, None](), 0
    for at, row in rows:
        cells = ["" if cell is None else str(cell).strip() for cell in row]
        if any(map(_is_open, cells)):
            raise UserError(f"{at}a triple needs a head, a relation and a tail to be ranked")
        count += 1
        kinds = zip(cells, (names[0], names[1], names[0]), strict=True)
        if new := [cell for cell, known in kinds if cell.casefold() not in known]:
            unknown |= dict.fromkeys(new)
        else:
            found.append(_number_row(cells, at, triples))
    if not found:
        raise UserError(
            "no triple has only entities and relations that the model knows; it does not know "
            f"{quote_some(unknown)}"
        )
    distinct = torch.tensor(found, dtype=torch.int64).unique(dim=0)
    if left_out := count - len(found):
        notes.append(
            f"{left_out:,} of {count:,} triples left out: the model does not know "
            f"{quote_some(unknown)}"
        )
    if repeated := len(found) - len(distinct):
        notes.append(f"{repeated:,} of {count:,} triples repeat others; each counts once")
    return distinct


def example_query(triples: Triples) -> str:
    """A query to the graph, as options of the command line."""
    head, relation, _ = (triples.test if len(triples.test) else triples.train)[0].tolist()
    options = {
        "head": _unique_name(head, triples.entities, triples.entity_labels),
        "relation": _unique_name(relation, triples.relations, triples.relation_labels),
    }
    return " ".join(f"--{option} {shlex.quote(name)}" for option, name in options.items())


def _unique_name(number: int, ids: list[str], labels: list[str]) -> str:
    return labels[number] if labels.count(labels[number]) == 1 else ids[number]


def report_unseen(rows: Tensor, triples: Triples, *, by_features: bool) -> list[str]:
    """Notes on entities and relations of queries ``(Q, 3)`` that no training triple has.

    Args:
        by_features: Whether a model knows such entities by their features.
    """
    ends, kinds = rows[:, [0, 2]].flatten(), rows[:, 1]
    ends = ends[ends != OPEN]
    ends = ends[~triples.trained_entities[ends]].unique()
    kinds = kinds[~triples.trained_relations[kinds]].unique()
    if not len(ends) and not len(kinds):
        return []
    featured = torch.zeros_like(ends, dtype=torch.bool)
    if by_features and triples.features is not None:
        featured = find_featured(triples.features)[ends]
    known = [triples.entity_labels[end] for end in ends[featured].tolist()]
    unknown = [triples.entity_labels[end] for end in ends[~featured].tolist()]
    unknown += [triples.relation_labels[kind] for kind in kinds.tolist()]
    reasons = (unknown, "are guesses"), (known, "rest on its features")
    return [
        f"no training triple has {quote_some(names)}: predictions for it {why}"
        for names, why in reasons
        if names
    ]


def report_trained(parts: Sequence[str]) -> list[str]:
    """A note on triples that the model was trained on, by the part that has each triple."""
    trained = parts.count("train")
    if not trained:
        return []
    return [
        f"{trained:,} of {len(parts):,} triples are training triples, which makes the result look "
        "better than it is"
    ]


def _read(
    source: AnyQueries, notes: list[str], columns: Mapping[str, str]
) -> Iterator[tuple[str, Row]]:
    """The rows of a file or in memory, each with the start of a message about it."""
    if not isinstance(source, Path | str):
        yield from _check(source)
        return
    path = Path(source)
    table = NameTable.parse(read_content(path), str(path), tuple(TRIPLE_COLUMNS))
    if not {name for name in columns.values() if name} <= set(table.first_row()):
        columns = {}
    table, note = without_header(table, columns=columns, remedy=NAME_THEM)
    notes += [note] if note else []
    empty = True
    for cells, lines in table.chunks():
        for line, *row in zip(lines.tolist(), *cells, strict=True):
            empty = False
            yield f"{path} line {line}: ", row
    if empty:
        raise UserError(
            f"{path} has no queries; write head, relation and tail, ? for the end to predict"
        )


def _check(rows: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """Rows in memory, each with the start of a message about it; a single row needs none."""
    rows = list(rows)
    if not rows:
        raise UserError("there are no queries; give rows of head, relation and tail")
    for number, row in enumerate(rows, 1):
        at = f"query {number}: " if len(rows) > 1 else ""
        if isinstance(row, str) or len(row) != len(TRIPLE_COLUMNS):
            raise UserError(
                f"{at}{row!r} is not a row of head, relation and tail, None for the end to predict"
            )
        yield at, row


def _number_row(row: Row, at: str, triples: Triples) -> list[int]:
    head, relation, tail = ("" if cell is None else str(cell).strip() for cell in row)
    if _is_open(relation):
        raise UserError(
            f"{at}the relation is missing; choose from {quote_some(triples.relation_labels)}"
        )
    if _is_open(head) and _is_open(tail):
        raise UserError(
            f"{at}head and tail are both missing; give one, or both to score the triple"
        )
    try:
        ends = [OPEN if _is_open(end) else triples.entity(end) for end in (head, tail)]
        return [ends[0], triples.relation(relation), ends[1]]
    except UserError as mistake:
        raise UserError(f"{at}{mistake}") from None


def _is_open(cell: str) -> bool:
    return cell in ("", "?")
