"""Triples of names: rows in memory, frames of pandas and polars, and the columns of a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quatgraph.data.io.columns import (
    TRIPLE_COLUMNS,
    places_by_role,
    refuse_repeated,
    unused_columns,
)
from quatgraph.data.io.files import to_plain
from quatgraph.data.io.frame import Frame, is_frame, to_frame
from quatgraph.data.io.messages import quote_some
from quatgraph.errors import UserError, did_you_mean

NAME_THEM = "name three of them head, relation and tail"
"""The end of an error about columns that cannot be told apart."""
SELECT_THEM = (
    f"{NAME_THEM}, or select them: --set data.head=NAME, and data.relation and data.tail likewise"
)
"""The same, where settings may name the columns."""


@dataclass(frozen=True, slots=True)
class NamedTriples:
    """Triples by their names.

    Attributes:
        where: The source, for messages.
        columns: Heads, relations and tails.
        note: Which columns of the source these are; empty if there is no choice.
    """

    where: str
    columns: Sequence[Sequence[str]]
    note: str = ""


def name_rows(rows: object, columns: Mapping[str, str] = {}) -> NamedTriples:
    """Rows of head, relation and tail, or a frame with such columns; names may be whole numbers.

    Args:
        columns: Names of the columns ``head``, ``relation`` and ``tail`` of a frame, where they
            have others.
    """
    if is_frame(rows):
        return name_columns(to_frame(rows, "the frame"), columns)
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise UserError(
            f"triples must be rows of head, relation and tail, or a path, not {type(rows).__name__}"
        )
    rows = [to_plain(row) for row in to_plain(rows)]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, list | tuple) or len(row) != len(TRIPLE_COLUMNS):
            raise UserError(f"triple {number} is {row!r}; give head, relation and tail of each")
    if not rows:
        raise UserError("there are no triples; give head, relation and tail of each")
    columns_of_names = [
        [_parse_name(cell, number, role) for number, cell in enumerate(cells, 1)]
        for role, cells in zip(TRIPLE_COLUMNS, zip(*rows, strict=True), strict=True)
    ]
    return NamedTriples("the list", columns_of_names)


def name_columns(frame: Frame, columns: Mapping[str, str] = {}) -> NamedTriples:
    """The triples in a table, see :func:`read_columns`; one without a name is refused."""
    triples = read_columns(frame, columns)
    if not len(frame):
        raise UserError(f"{frame.where} has no triples; give head, relation and tail of each")
    for role, words in zip(TRIPLE_COLUMNS, triples.columns, strict=True):
        if "" in words:
            raise UserError(
                f"{frame.at(words.index(''))} has no {role}; fill it in or leave the triple out"
            )
    return triples


def read_columns(
    frame: Frame, columns: Mapping[str, str] = {}, *, remedy: str = SELECT_THEM
) -> NamedTriples:
    """Heads, relations and tails in a table, empty where missing: by the names of its columns, or
    by place if it has three.

    The remedy ends an error about columns that cannot be told apart.
    """
    names, where = list(frame.columns), frame.where
    found = find_columns(names, where, columns)
    if any(columns.values()):
        complete_columns(names, found)
    if all(found.values()):
        places, note = select_columns(names, found, where)
    elif len(names) == len(TRIPLE_COLUMNS):
        places = list(range(len(names)))
        used = map("{!r} as {}".format, names, TRIPLE_COLUMNS)
        note = f"the columns of {where} are read by place: {', '.join(used)}"
    else:
        raise UserError(
            f"{where} has the columns {quote_some(names) or 'none'} where head, relation and tail "
            f"are needed; {remedy}"
        )
    return NamedTriples(where, [frame.words(names[place]) for place in places], note)


def find_columns(
    cells: Sequence[str], where: str, columns: Mapping[str, str]
) -> dict[str, list[int]]:
    """The columns of each role: those that ``columns`` names, and by their usual names."""
    found = places_by_role(cells, TRIPLE_COLUMNS)
    for role, name in columns.items():
        if not name:
            continue
        places = [place for place, cell in enumerate(cells) if cell == name]
        if not places:
            hint = did_you_mean(name, cells) or f"; its columns are {quote_some(cells) or 'none'}"
            raise UserError(f"{where} has no column {name!r}{hint}")
        for other, taken in found.items():
            if not columns.get(other):
                found[other] = [place for place in taken if place not in places]
        found[role] = places
    chosen = [name for name in columns.values() if name]
    if len(set(chosen)) < len(chosen):
        raise UserError(
            "data.head, data.relation and data.tail name the same column; name one for each"
        )
    return found


def complete_columns(cells: Sequence[str], found: dict[str, list[int]]) -> None:
    """Gives the roles that have no column those that are left, if there are as many."""
    taken = {place for places in found.values() for place in places}
    left = [place for place in range(len(cells)) if place not in taken]
    lacking = [role for role, places in found.items() if not places]
    if len(left) == len(lacking):
        found.update((role, [place]) for role, place in zip(lacking, left, strict=True))


def select_columns(
    cells: Sequence[str], found: Mapping[str, Sequence[int]], where: str
) -> tuple[list[int], str]:
    """The columns of head, relation and tail, and a note that names them."""
    refuse_repeated(cells, found, where)
    places = [place for (place,) in found.values()]
    used = ", ".join(f"{cells[place]!r} as {role}" for role, (place,) in found.items())
    unused = unused_columns(cells, places)
    return places, f"the columns of {where} are read by name: {used}{unused}"


def _parse_name(cell: object, number: int, role: str) -> str:
    """The name in a cell: text or a whole number."""
    cell = to_plain(cell)
    if isinstance(cell, str | int) and not isinstance(cell, bool):
        if name := str(cell).strip():
            return name
    elif not (cell is None or type(cell).__name__ == "NAType" or cell != cell):
        raise UserError(
            f"triple {number} has a {role} of type {type(cell).__name__}; give text or a whole "
            "number"
        )
    raise UserError(f"triple {number} has no {role}; fill it in or leave the triple out")
