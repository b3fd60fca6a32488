"""Edge files such as ``edges.csv``, with or without column names.

A first line that names a pair of ``EDGE_ENDS``, in any letter case, selects the columns of source
and target; ``weight`` or ``edge_weight`` is optional, and other columns are not used. Without such
a line the columns are source, target and optionally weight. Notes report what was inferred; an
ambiguous file is refused.
"""

from collections.abc import Mapping
from itertools import repeat
from pathlib import Path

import numpy as np
from torch import Tensor

from quatgraph.data.edges import merge_edges, merge_notes
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
from quatgraph.errors import UserError, did_you_mean

_ROLES = {
    "source": frozenset(EDGE_ENDS),
    "target": frozenset(EDGE_ENDS.values()),
    "weight": frozenset({"weight", "edge_weight"}),
}
_REMEDY = "name the columns source, target and optionally weight"

Index = Mapping[str, int]
"""Number of each node by its id."""
_Layout = tuple[list[int], bool, list[str]]
"""The columns of source, target and perhaps weight; whether the first line names them; notes."""


def read_edges(
    path: Path, index: Index, *, directed: bool
) -> tuple[Tensor, Tensor | None, list[str]]:
    """Reads and merges the edges of a file; one to an unknown node is a :class:`UserError`.

    Returns:
        Edges and weights, see :func:`merge_edges`, and notes for the user.
    """
    table = read_table(path)
    if not len(table):
        raise UserError(
            f"{path} is empty; write an edge per line, or only a line of names if there is none"
        )
    places, header, notes = _infer_layout(table, index)
    columns = [table.columns[place][header:] for place in places]

    def at(row: int) -> str:
        return table.at(row + header)

    sender, receiver = (
        np.fromiter(map(index.get, ids, repeat(-1)), dtype=np.int64, count=len(ids))
        for ids in columns[:2]
    )
    unknown = (sender < 0) | (receiver < 0)
    if unknown.any():
        row = int(unknown.argmax())
        node = columns[0 if sender[row] < 0 else 1][row]
        raise UserError(
            f"{at(row)} has an edge to the unknown node {node!r}; "
            f"add it to nodes.csv or remove the edge{did_you_mean(node, index)}"
        )
    weight = None
    if len(columns) == 3:
        name = table.row(0)[places[2]] if header else "weight"
        weight = column_numbers(columns[2], name, at)
        if (weight < 0).any():
            row = int((weight < 0).argmax())
            raise UserError(
                f"{at(row)} has the negative weight {weight[row]:g}; weights must be zero or more"
            )
    edges = merge_edges(
        sender, receiver, len(index), directed=directed, weight=weight, node_ids=list(index)
    )
    merged = merge_notes(sender, receiver, len(index), directed=directed, weight=weight)
    return *edges, notes + [f"{path}: {note}" for note in merged]


def _infer_layout(table: Table, index: Index) -> _Layout:
    cells, where = table.row(0), str(table.path)
    found = places_by_role(cells, _ROLES)
    named = bool(found["source"] and found["target"])
    if named and not _is_edge(cells, index):
        return _layout_by_name(cells, found, where)
    if not named and _names_columns(cells, index):
        if len(cells) > 2 or any(found.values()):
            shown = ", ".join(map(repr, cells[:5]))
            raise UserError(f"the first line of {where} is {shown}, which is no edge; {_REMEDY}")
        first, second = map(repr, cells)
        note = (
            f"the first line of {where} is read as column names because it names no node: {first} "
            f"as source, {second} as target"
        )
        return [0, 1], True, [note]
    if len(cells) not in (2, 3):
        raise UserError(
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
    return list(range(len(cells))), False, notes


def _layout_by_name(cells: list[str], found: dict[str, list[int]], where: str) -> _Layout:
    refuse_repeated(cells, found, where)
    places = [place for some in found.values() for place in some]
    source, target = (cells[place] for place in places[:2])
    if EDGE_ENDS[column_word(source)] != column_word(target):
        raise UserError(
            f"the first line of {where} names the ends of an edge {source!r} and {target!r}, which "
            "are no pair; call them source and target"
        )
    used = ", ".join(f"{cells[some[0]]!r} as {role}" for role, some in found.items() if some)
    note = f"the columns of {where} are read by name: {used}{unused_columns(cells, places)}"
    return places, True, [note]


def _is_edge(cells: list[str], index: Index) -> bool:
    """Whether a first line can be read as an edge between known nodes."""
    ends, more = cells[:2], cells[2:]
    return all(cell in index for cell in ends) and len(more) < 2 and all(map(is_number, more))


def _names_columns(cells: list[str], index: Index) -> bool:
    """Whether no cell of a first line is a node or a number."""
    return len(cells) > 1 and not any(cell in index or is_number(cell) for cell in cells)
