"""Queries to a knowledge graph: rows of head, relation and tail, in any format of triples.

The end to predict is empty or ``?``. A row with both ends is a triple to score.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor

from quatgraph.data.formats import refuse_foreign, select_reader
from quatgraph.data.io.columns import TRIPLE_COLUMNS
from quatgraph.data.io.files import to_plain
from quatgraph.data.io.frame import Frame, is_frame, to_frame
from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.name_table import NameTable
from quatgraph.data.link import READERS, Triples, find_featured
from quatgraph.data.link.names import NAME_THEM, NamedTriples, read_columns
from quatgraph.data.link.parts import without_header
from quatgraph.data.link.rdf import RdfReader
from quatgraph.data.link.tsv import find_part, read_any
from quatgraph.errors import UserError

Row = Sequence[str | None]
AnyQueries = Path | str | Triples | Iterable[Row]
"""Rows may also be an array, or a frame of pandas or polars."""
OPEN = -1
"""The number of an end to predict."""
_LONGEST = 60
"""Characters of a row that a message shows."""


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
        queries: A file in a format of :data:`quatgraph.data.link.READERS`, rows of names, a
            frame, or triples. Names are ids or labels.
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
        source: A file, rows or a frame, as of :func:`parse_queries`; or a folder with test triples.
        triples: The knowledge graph.
        notes: Gets notes on the triples.
        columns: See :func:`parse_queries`.
    """
    notes = [] if notes is None else notes
    if isinstance(source, Path | str) and Path(source).is_dir():
        source = _find_test(Path(source), notes)
    rows = _read(source, notes, columns)
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


def _find_test(folder: Path, notes: list[str]) -> Path:
    """The file of the test triples in a folder; adds a note."""
    select_reader("link", READERS, folder)
    if file := find_part(folder, "test"):
        notes.append(f"the triples that are ranked are those of {file}")
        return file
    train = find_part(folder, "train")
    example = f", such as {train}" if train else ""
    raise UserError(f"{folder} has no test.tsv; name the file of the triples to rank{example}")


def _read(
    source: AnyQueries, notes: list[str], columns: Mapping[str, str]
) -> Iterator[tuple[str, Row]]:
    """The rows of a file or in memory, each with the start of a message about it."""
    if is_frame(source):
        yield from _read_frame(to_frame(source, "the frame"), notes, columns)
    elif isinstance(source, Triples):
        yield from _check(_name_all(source))
    elif not isinstance(source, Path | str):
        yield from _check(source)
    else:
        yield from _read_file(Path(source), notes, columns)


def _read_file(
    path: Path, notes: list[str], columns: Mapping[str, str]
) -> Iterator[tuple[str, Row]]:
    if path.is_dir():
        example = find_part(path, "test") or path / "queries.tsv"
        raise UserError(f"{path} is a folder; name a file of queries, such as {example}")
    if not path.is_file():
        raise UserError(f"there is no file {path}; put it there or name another place")
    refuse_foreign(path)
    rdf = RdfReader()
    content = read_any(path, rdf)
    if isinstance(content, Frame):
        yield from _read_frame(content, notes, columns)
    elif isinstance(content, NamedTriples):
        notes += rdf.notes
        for number, names in enumerate(zip(*content.columns, strict=True), 1):
            yield f"{path} triple {number}: ", names
    else:
        where, text = content
        table = NameTable.parse(text, where, tuple(TRIPLE_COLUMNS))
        columns = _columns_of(table.first_row(), columns)
        table, note = without_header(table, columns=columns, remedy=NAME_THEM)
        notes += [note] if note else []
        empty = True
        for cells, lines in table.chunks():
            for line, *row in zip(lines.tolist(), *cells, strict=True):
                empty = False
                yield f"{path} line {line}: ", row
        if empty:
            raise _no_queries(where)


def _read_frame(
    frame: Frame, notes: list[str], columns: Mapping[str, str]
) -> Iterator[tuple[str, Row]]:
    if not len(frame):
        raise _no_queries(frame.where)
    named = read_columns(frame, _columns_of(list(frame.columns), columns), remedy=NAME_THEM)
    notes += [named.note] if named.note else []
    for number, row in enumerate(zip(*named.columns, strict=True)):
        yield f"{frame.at(number)}: ", row


def _columns_of(names: Sequence[str], columns: Mapping[str, str]) -> Mapping[str, str]:
    """The names of the columns of the training data, if a table has them."""
    return columns if {name for name in columns.values() if name} <= set(names) else {}


def _no_queries(where: str) -> UserError:
    return UserError(
        f"{where} has no queries; write head, relation and tail, ? for the end to predict"
    )


def _name_all(triples: Triples) -> list[Row]:
    """The ids of the triples of all parts."""
    rows = torch.cat((triples.train, triples.valid, triples.test)).tolist()
    entities, relations = triples.entities, triples.relations
    return [(entities[head], relations[kind], entities[tail]) for head, kind, tail in rows]


def _check(rows: Iterable[Row]) -> Iterator[tuple[str, Row]]:
    """Rows in memory, each with the start of a message about it; a single row needs none."""
    rows = to_plain(rows)
    if not isinstance(rows, Iterable) or isinstance(rows, bytes | Mapping):
        raise UserError(
            "queries must be rows of head, relation and tail, a frame or a path, not "
            f"{type(rows).__name__}"
        )
    rows = [to_plain(row) for row in rows]
    if not rows:
        raise UserError("there are no queries; give rows of head, relation and tail")
    for number, row in enumerate(rows, 1):
        at = f"query {number}: " if len(rows) > 1 else ""
        if not isinstance(row, list | tuple) or len(row) != len(TRIPLE_COLUMNS):
            shown = repr(row)
            shown = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]} ..."
            raise UserError(
                f"{at}{shown} is not a row of head, relation and tail, None for the end to predict"
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
