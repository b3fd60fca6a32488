"""Graphs in the raw format of the TU Dortmund collection: a folder of text files.

* ``NAME_A.txt``: an edge per line, two nodes, ``sender, receiver``; nodes count from 1
* ``NAME_graph_indicator.txt``: for each node its graph; graphs count from 1, and those whose number
  is skipped have no nodes and are left out
* ``NAME_graph_labels.txt``: for each graph its class; may be absent where no labels are needed
* ``NAME_node_labels.txt``, optional: for each node its tag
* ``NAME_node_attributes.txt``, optional: for each node its features
* ``NAME_edge_labels.txt``, ``NAME_edge_attributes.txt``, optional: the same for each line of
  ``NAME_A.txt``

Attributes of graphs are not read.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.graph.collection import Encoded, Graphs, Ids, merge_graphs
from quatgraph.data.graph.edge_data import with_edge_data
from quatgraph.data.io.files import read_content
from quatgraph.data.io.messages import count_noun
from quatgraph.data.io.numbers import Rows, real_numbers, whole_numbers
from quatgraph.data.io.table import Table, read_table
from quatgraph.data.labels import encode_labels, label_notes
from quatgraph.errors import UserError


def read_tu(folder: Path, *, missing: Sequence[str] = (), labels_needed: bool = True) -> Graphs:
    """Reads a folder; for the options see :func:`quatgraph.data.graph.read`."""
    name = _find_name(folder)
    indicator = folder / f"{name}_graph_indicator.txt"
    numbers, graph_of, sizes = _read_indicator(indicator)
    edges = _read_edges(folder / f"{name}_A.txt", numbers, graph_of)
    labels = _read_labels(folder / f"{name}_graph_labels.txt", numbers, needed=labels_needed)
    tags, attributes = _read_optional(folder, name, "node", len(graph_of))
    edge_tags, edge_attributes = _read_optional(folder, name, "edge", edges.shape[1])
    merged = merge_graphs(
        name=name,
        sizes=sizes,
        edges=edges,
        labels=encode_labels(labels, missing),
        tags=tags,
        attributes=attributes,
    )
    merged = with_edge_data(merged, edges, edge_tags, edge_attributes)
    if labels_needed:
        merged.notes.extend(label_notes(labels, missing, ("graph", "graphs")))
    if skipped := int(numbers[-1]) - len(numbers):
        gap = int((numbers != np.arange(1, len(numbers) + 1)).argmax()) + 1
        which = f"{count_noun(skipped, 'graph')}, for instance {gap}: they have"
        merged.notes.append(
            f"{indicator} skips {which if skipped > 1 else f'the graph {gap}: it has'} no nodes "
            f"and {'are' if skipped > 1 else 'is'} left out"
        )
    return replace(merged, graph_ids=[str(number - 1) for number in numbers.tolist()])


def _find_name(folder: Path) -> str:
    found = sorted(path.name.removesuffix("_A.txt") for path in folder.glob("*_A.txt"))
    if not found:
        raise UserError(f"{folder} has no file NAME_A.txt; put the edges of the graphs there")
    if len(found) > 1:
        raise UserError(
            f"{folder} has {found[0]}_A.txt and {found[1]}_A.txt; keep one dataset per folder"
        )
    return found[0]


def _read_indicator(path: Path) -> tuple[Ids, Ids, Ids]:
    """The numbers of the graphs that have nodes, the place in them of each node's graph, and the
    number of nodes of each graph."""
    rows = whole_numbers(read_content(path), str(path))
    named = cast(Ids, rows.matrix(1)).flatten()
    if not len(named):
        raise UserError(f"{path} lists no nodes; give each node a line with its graph")
    wrong = np.diff(named, prepend=1) < 0
    if wrong.any():
        row = int(wrong.argmax())
        raise UserError(
            f"{rows.at(row)} names the graph {named[row]} after "
            f"{f'the graph {named[row - 1]}' if row else 'no other'}; number graphs from 1 and let "
            "the nodes of a graph be consecutive"
        )
    # Not by bincount: a number may be skipped, and a wrong one may be huge.
    numbers, graph_of, sizes = np.unique(named, return_inverse=True, return_counts=True)
    return numbers, graph_of, sizes


def _read_edges(path: Path, numbers: Ids, graph_of: Ids) -> Ids:
    rows = whole_numbers(read_content(path), str(path))
    ends = cast(Ids, rows.matrix(2)) - 1
    outside = ((ends < 0) | (ends >= len(graph_of))).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        node = next(end + 1 for end in ends[row].tolist() if not 0 <= end < len(graph_of))
        raise UserError(
            f"{rows.at(row)} names the node {node} but the nodes are 1..{len(graph_of)}; "
            "correct the line"
        )
    ends = np.ascontiguousarray(ends.T)
    first, second = graph_of[ends]
    across = first != second
    if across.any():
        row = int(across.argmax())
        raise UserError(
            f"{rows.at(row)} joins the graphs {numbers[first[row]]} and {numbers[second[row]]}; "
            "an edge must stay within one graph"
        )
    return ends


def _read_labels(path: Path, numbers: Ids, *, needed: bool) -> list[str]:
    """The label of each graph that has nodes; the file may label those that are skipped too."""
    if not needed and not path.exists():
        return [""] * len(numbers)
    table = read_table(path)
    if len(table.columns) > 1:
        raise UserError(f"{table.at(0)} has {len(table.columns)} cells; give each graph one label")
    if len(table) == len(numbers):
        return table.columns[0]
    _check_count(table, int(numbers[-1]), "graphs")
    return [table.columns[0][number - 1] for number in numbers.tolist()]


def _read_optional(
    folder: Path, name: str, what: str, count: int
) -> tuple[Encoded | None, NDArray[np.float32] | None]:
    """The labels and the attributes of all nodes or edges; None without the file."""
    labels = folder / f"{name}_{what}_labels.txt"
    attributes = folder / f"{name}_{what}_attributes.txt"
    return (
        _read_tags(labels, count, what) if labels.exists() else None,
        _read_attributes(attributes, count, what) if attributes.exists() else None,
    )


def _read_tags(path: Path, count: int, what: str) -> Encoded:
    table = read_table(path)
    _check_count(table, count, f"{what}s")
    for column in table.columns:
        if "" in column:
            raise UserError(f"{table.at(column.index(''))} has no label; give every {what} one")
    # Some datasets give several labels; together they are the tag.
    return encode_labels([",".join(cells) for cells in zip(*table.columns, strict=True)])


def _read_attributes(path: Path, count: int, what: str) -> NDArray[np.float32]:
    rows = real_numbers(read_content(path), str(path))
    _check_count(rows, count, f"{what}s")
    return rows.matrix().astype(np.float32)


def _check_count(rows: Rows | Table, count: int, what: str) -> None:
    if len(rows) != count:
        where = rows.where if isinstance(rows, Rows) else rows.path
        extra = f", from {rows.at(count)} on too many" if len(rows) > count else ""
        raise UserError(
            f"{where} has {len(rows)} lines but there are {count} {what}{extra}; "
            f"give each of the {what} one line"
        )
