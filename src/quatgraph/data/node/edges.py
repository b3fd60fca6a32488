"""Tables of edges, such as ``edges.csv`` with or without column names.

The columns are those that the options name. Otherwise a first line that names a pair of
``EDGE_ENDS``, in any letter case, selects the columns of source and target; ``weight`` or
``edge_weight`` is optional, and other columns are not used. Without such a line the columns are
source, target and optionally weight. Notes report what was inferred; an ambiguous table is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.edges import merge_edges, merge_notes
from quatgraph.data.io.columns import (
    EDGE_ENDS,
    column_word,
    places_by_role,
    refuse_repeated,
    unused_columns,
)
from quatgraph.data.io.decimals import number_style, to_plain_numbers
from quatgraph.data.io.files import TABLE_SUFFIXES, unpacked_suffix
from quatgraph.data.io.frame import INDEX, Frame, named_columns, read_frame
from quatgraph.data.io.messages import count_noun, quote_some
from quatgraph.data.io.numbers import column_numbers, is_number
from quatgraph.data.io.table import Table, read_table
from quatgraph.data.node.options import ReadOptions
from quatgraph.errors import UserError, did_you_mean

_ROLES = {
    "source": frozenset(EDGE_ENDS),
    "target": frozenset(EDGE_ENDS.values()),
    "weight": frozenset({"weight", "edge_weight"}),
}

Index = Mapping[str, int]
"""Number of each node by its id."""
_Layout = tuple[list[str], list[str]]
"""The columns of source, target and perhaps weight, and notes."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges ``(2, E)`` and weights ``(E,)``, see :func:`merge_edges`, and notes for the user."""

    index: Tensor
    weight: Tensor | None
    notes: list[str]


def read_edges(path: Path, index: Index, options: ReadOptions) -> Edges:
    """Reads and merges the edges of a file."""
    if unpacked_suffix(path) not in TABLE_SUFFIXES:
        return edges_of(read_frame(path, "edge"), index, options)
    table = read_table(path)
    if not len(table):
        raise UserError(
            f"{path} is empty; write an edge per line, or only a line of names if there is none"
        )
    cells = table.row(0)
    if options.source or options.target or options.weight or _has_names(cells, index):
        return edges_of(named_columns(table), index, options)
    columns, notes = _infer_layout(cells, str(path), _remedy(options))
    return merge_columns(_numbered_columns(table), columns, index, options, notes)


def edges_of(frame: Frame, index: Index, options: ReadOptions) -> Edges:
    """The edges of a table with column names, merged; one to an unknown node is a
    :class:`UserError`."""
    columns, notes = _layout_by_name(frame, options)
    return merge_columns(frame, columns, index, options, notes)


def merge_columns(
    frame: Frame,
    columns: Sequence[str],
    index: Index,
    options: ReadOptions,
    notes: Sequence[str] = (),
) -> Edges:
    """The edges in the columns of source, target and perhaps weight, merged."""
    ends = [frame.words(name) for name in columns[:2]]
    sender, receiver = (
        np.fromiter(map(index.get, ids, repeat(-1)), dtype=np.int64, count=len(ids)) for ids in ends
    )
    unknown = (sender < 0) | (receiver < 0)
    if unknown.any():
        row = int(unknown.argmax())
        node = ends[0 if sender[row] < 0 else 1][row]
        raise UserError(
            f"{frame.at(row)} has an edge to the unknown node {node!r}; add it to the nodes or "
            f"remove the edge{did_you_mean(node, index)}"
        )
    weight = None
    if len(columns) == 3:
        weight, styled = _read_weights(frame, columns[2])
        notes = [*notes, *styled]
    edges = merge_edges(
        sender, receiver, len(index), directed=options.directed, weight=weight, node_ids=list(index)
    )
    merged = merge_notes(sender, receiver, len(index), directed=options.directed, weight=weight)
    return Edges(*edges, [*notes, *(f"{frame.where}: {note}" for note in merged)])


def _read_weights(frame: Frame, name: str) -> tuple[NDArray[np.float64], list[str]]:
    cells, notes, shown = frame.numbers_or_words(name), [], name or "weight"
    if isinstance(cells, list):
        style = number_style(set(cells), frame.delimiter) or "plain"
        if style != "plain":
            kind = "decimal commas" if style == "comma" else "thousands separators"
            notes.append(f"{frame.where}: {shown!r} is read with {kind}")
        weight = column_numbers(to_plain_numbers(cells, style), shown, frame.at)
    else:
        weight = cells
        if (bad := ~(np.abs(weight) <= np.finfo(np.float32).max)).any():
            row = int(bad.argmax())
            raise UserError(
                f"{frame.at(row)} has '{weight[row]:g}' in column {shown!r}; write a finite number"
            )
    if (weight < 0).any():
        row = int((weight < 0).argmax())
        raise UserError(
            f"{frame.at(row)} has the negative weight {weight[row]:g}; weights must be zero or more"
        )
    return weight, notes


def _has_names(cells: Sequence[str], index: Index) -> bool:
    """Whether a first line names columns; one that could also be an edge is read as an edge."""
    found = places_by_role(cells, _ROLES)
    if found["source"] and found["target"]:
        return not _is_edge(cells, index)
    return _names_no_node(cells, index)


def _remedy(options: ReadOptions) -> str:
    """How to tell the columns apart; `predict` and `evaluate` have no settings."""
    settings = ", or choose them with --set data.source=NAME --set data.target=NAME"
    names = "name the columns source, target and optionally weight"
    return f"{names}{settings * options.labels_needed}"


def _infer_layout(cells: list[str], where: str, remedy: str) -> _Layout:
    """The columns of a table whose first line is an edge; they are numbered."""
    if len(cells) not in (2, 3):
        raise UserError(
            f"{where} has {count_noun(len(cells), 'column')} and no first line that names them; "
            f"{remedy}, separated by commas, tabs or semicolons"
        )
    notes = []
    found = places_by_role(cells, _ROLES)
    if found["source"] and found["target"]:
        shown = " and ".join(map(repr, cells[:2]))
        notes.append(
            f"the first line of {where} is read as an edge because {shown} are nodes; "
            "rename the columns if it names them"
        )
    if len(cells) == 3:
        notes.append(f"{where} has no column names; its third column is read as weight")
    return list(_NUMBERED[: len(cells)]), notes


_NUMBERED = ("source", "target", "")


def _numbered_columns(table: Table) -> Frame:
    """The columns of a table without names: source, target and weight."""
    columns = dict(zip(_NUMBERED, table.columns, strict=False))
    return Frame(str(table.path), columns, table.at, table.delimiter)


def _layout_by_name(frame: Frame, options: ReadOptions) -> _Layout:
    cells, where = list(frame.columns), frame.where
    chosen = {"source": options.source, "target": options.target, "weight": options.weight}
    for role, name in chosen.items():
        if name and name not in cells:
            hint = did_you_mean(name, cells) or f"; its columns are {quote_some(cells)}"
            raise UserError(f"{where} has no column {name!r}, which data.{role} names{hint}")
    free = ["" if cell in chosen.values() else cell for cell in cells]
    found = places_by_role(free, _ROLES)
    found |= {role: [cells.index(name)] for role, name in chosen.items() if name}
    refuse_repeated(cells, found, where)
    if not (found["source"] and found["target"]):
        return _layout_by_place(cells, any(found.values()), where, _remedy(options))
    places = [place for some in found.values() for place in some]
    source, target = (cells[place] for place in places[:2])
    pair = options.source or options.target or EDGE_ENDS[column_word(source)] == column_word(target)
    if not pair:
        raise UserError(
            f"the first line of {where} names the ends of an edge {source!r} and {target!r}, which "
            "are no pair; call them source and target"
        )
    used = ", ".join(f"{cells[some[0]]!r} as {role}" for role, some in found.items() if some)
    note = f"the columns of {where} are read by name: {used}{unused_columns(cells, places)}"
    return [cells[place] for place in places], [note]


def _layout_by_place(cells: list[str], some_named: bool, where: str, remedy: str) -> _Layout:
    """Two columns with other names are source and target."""
    ends = [cell for cell in cells if cell != INDEX]
    if len(ends) != 2 or some_named:
        shown = ", ".join(map(repr, cells[:5]))
        raise UserError(f"the first line of {where} is {shown}, which is no edge; {remedy}")
    first, second = map(repr, ends)
    note = (
        f"the first line of {where} is read as column names because it names no node: {first} as "
        f"source, {second} as target"
    )
    return ends, [note]


def _is_edge(cells: Sequence[str], index: Index) -> bool:
    """Whether a first line can be read as an edge between known nodes."""
    ends, more = cells[:2], cells[2:]
    return all(cell in index for cell in ends) and len(more) < 2 and all(map(is_number, more))


def _names_no_node(cells: Sequence[str], index: Index) -> bool:
    """Whether no cell of a first line is a node or a number."""
    return len(cells) > 1 and not any(cell in index or is_number(cell) for cell in cells)
