"""Edge files such as ``edges.csv``, with or without column names.

A first line that names a pair of ``EDGE_ENDS``, in any letter case, selects the columns of source
and target; ``weight`` or ``edge_weight`` is optional, and other columns are not used. Without such
a line the columns are source, target and optionally weight. Notes report what was inferred; an
ambiguous file is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.io.columns import (
    EDGE_ENDS,
    column_word,
    places_by_role,
    refuse_repeated,
    unused_columns,
)
from quatgraph.data.io.messages import count_noun
from quatgraph.data.io.numbers import column_numbers, is_number
from quatgraph.data.io.table import Table, read_table
from quatgraph.errors import Mistake, did_you_mean

_ROLES = {
    "source": frozenset(EDGE_ENDS),
    "target": frozenset(EDGE_ENDS.values()),
    "weight": frozenset({"weight", "edge_weight"}),
}
_REMEDY = "name the columns source, target and optionally weight"

Index = Mapping[str, int]
"""Number of each node by its id."""


class Edges(NamedTuple):
    """The edges of a file as node numbers; ``(E,)`` each."""

    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Layout:
    """The columns of a file, and whether its first line is a header."""

    source: int
    target: int
    weight: int | None
    header: bool
    notes: list[str]


def read_edges(path: Path, index: Index) -> Edges:
    """Reads a file of edges; one to an unknown node is a :class:`Mistake`."""
    table = read_table(path)
    if not len(table):
        raise Mistake(
            f"{path} is empty; write an edge per line, or only a line of names if there is none"
        )
    layout = _infer_layout(table, index)
    skipped = int(layout.header)
    ends = []
    for place in (layout.source, layout.target):
        cells = table.columns[place][skipped:]
        ids = np.fromiter(map(index.get, cells, repeat(-1)), dtype=np.int64, count=len(cells))
        ends.append(ids)
    unknown = (ends[0] < 0) | (ends[1] < 0)
    if unknown.any():
        row = int(unknown.argmax())
        node = table.row(row + skipped)[layout.source if ends[0][row] < 0 else layout.target]
        raise Mistake(
            f"{table.at(row + skipped)} has an edge to the unknown node {node!r}; "
            f"add it to nodes.csv or remove the edge{did_you_mean(node, index)}"
        )
    weight = None if layout.weight is None else _parse_weights(table, layout.weight, skipped)
    return Edges(ends[0], ends[1], weight, layout.notes)


def _parse_weights(table: Table, place: int, skipped: int) -> NDArray[np.float64]:
    name = table.columns[place][0] if skipped else "weight"
    cells = table.columns[place][skipped:]
    weight = column_numbers(cells, name, lambda row: table.at(row + skipped))
    if (weight < 0).any():
        row = int((weight < 0).argmax())
        raise Mistake(
            f"{table.at(row + skipped)} has the negative weight {weight[row]:g}; "
            "weights must be zero or more"
        )
    return weight


def _infer_layout(table: Table, index: Index) -> _Layout:
    cells, where = table.row(0), str(table.path)
    found = places_by_role(cells, _ROLES)
    named = bool(found["source"] and found["target"])
    if named and not _is_edge(cells, index):
        return _layout_by_name(cells, found, where)
    if not named and _names_columns(cells, index):
        if len(cells) > 2 or any(found.values()):
            shown = ", ".join(map(repr, cells[:5]))
            raise Mistake(f"the first line of {where} is {shown}, which is no edge; {_REMEDY}")
        first, second = map(repr, cells)
        note = (
            f"the first line of {where} is read as column names because it names no node: {first} "
            f"as source, {second} as target"
        )
        return _Layout(0, 1, None, True, [note])
    if len(cells) not in (2, 3):
        raise Mistake(
            f"{where} has {count_noun(len(cells), 'column')} and no first line that names them; "
            f"{_REMEDY}, separated by commas, tabs or semicolons"
        )
    notes = []
    if named:
        shown = " and ".join(map(repr, cells[:2]))
        notes.append(
            f"the first line of {where} is read as an edge because {shown} are nodes; "
            "rename the columns if it names them"
        )
    if len(cells) == 3:
        notes.append(f"{where} has no column names; its third column is read as weight")
    return _Layout(0, 1, 2 if len(cells) == 3 else None, False, notes)


def _layout_by_name(cells: list[str], found: dict[str, list[int]], where: str) -> _Layout:
    refuse_repeated(cells, found, where)
    (source,), (target,) = found["source"], found["target"]
    if EDGE_ENDS[column_word(cells[source])] != column_word(cells[target]):
        raise Mistake(
            f"the first line of {where} names the ends of an edge {cells[source]!r} and "
            f"{cells[target]!r}, which are no pair; call them source and target"
        )
    weight = found["weight"][0] if found["weight"] else None
    used = f"{cells[source]!r} as source, {cells[target]!r} as target"
    used += "" if weight is None else f", {cells[weight]!r} as weight"
    unused = unused_columns(cells, [place for places in found.values() for place in places])
    note = f"the columns of {where} are read by name: {used}{unused}"
    return _Layout(source, target, weight, True, [note])


def _is_edge(cells: list[str], index: Index) -> bool:
    """Whether a first line can be read as an edge between known nodes."""
    ends, more = cells[:2], cells[2:]
    return all(cell in index for cell in ends) and len(more) < 2 and all(map(is_number, more))


def _names_columns(cells: list[str], index: Index) -> bool:
    """Whether no cell of a first line is a node or a number."""
    return len(cells) > 1 and not any(cell in index or is_number(cell) for cell in cells)
