"""The text format of the DGCNN and GIN releases: one file per dataset, every graph in full.

The first line is the number of graphs. Each graph is a line ``nodes label`` and then, for each of
its nodes, a line ``tag m neighbour_1 ... neighbour_m`` with neighbours numbered from 0.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from quatgraph.data.graph.collection import Graphs, Ids, merge_graphs
from quatgraph.data.io.files import read_content
from quatgraph.data.io.numbers import Rows, whole_numbers
from quatgraph.data.labels import encode_labels, encode_numbers, label_notes
from quatgraph.errors import UserError


def read_dgcnn_file(path: Path, **options: Any) -> Graphs:
    """Reads a file; for the options see :func:`quatgraph.data.graph.read`."""
    return read_dgcnn(read_content(path), name=path.stem, where=str(path), **options)


def read_dgcnn(
    content: bytes,
    *,
    name: str,
    where: str,
    missing: Sequence[str] = (),
    labels_needed: bool = True,
) -> Graphs:
    """Like :func:`read_dgcnn_file`, for the content of the file ``where``.

    In the catalog only COLLAB has self-loops: 2,837.
    """
    rows = whole_numbers(content, where)
    values, first = cast(Ids, rows.values), rows.first
    headers, sizes = _find_headers(rows, values, first)
    is_node = np.ones(len(rows), dtype=bool)
    is_node[0] = is_node[headers] = False
    nodes = np.flatnonzero(is_node)
    degrees = _check_degrees(rows, values, first, nodes)
    # Neighbours are the values that are no header, tag or count.
    is_neighbour = np.ones(len(values), dtype=bool)
    is_neighbour[0] = False
    for start in (first[headers], first[nodes]):
        is_neighbour[start] = is_neighbour[start + 1] = False
    neighbours = values[is_neighbour]
    limits = np.repeat(np.repeat(sizes, sizes), degrees)
    outside = (neighbours < 0) | (neighbours >= limits)
    if outside.any():
        place = int(outside.argmax())
        row = int(nodes[np.searchsorted(np.cumsum(degrees), place, side="right")])
        raise UserError(
            f"{rows.at(row)} names the neighbour {neighbours[place]} but the nodes of its graph "
            f"are 0..{limits[place] - 1}; correct the line"
        )
    offsets = np.repeat(np.cumsum(sizes) - sizes, sizes)
    labels = list(map(str, values[first[headers] + 1].tolist()))
    merged = merge_graphs(
        name=name,
        sizes=sizes,
        edges=(
            np.repeat(np.arange(len(nodes)), degrees),
            neighbours + np.repeat(offsets, degrees),
        ),
        labels=encode_labels(labels, missing),
        tags=encode_numbers(values[first[nodes]]),
    )
    if labels_needed:
        merged.notes.extend(label_notes(labels, missing, ("graph", "graphs")))
    return merged


def _find_headers(rows: Rows, values: Ids, first: Ids) -> tuple[Ids, Ids]:
    """The header row and the number of nodes of each graph."""
    if not len(rows) or rows.counts[0] != 1 or values[0] < 1:
        raise UserError(f"{rows.where} has no graphs; its first line must be their number")
    promised = int(values[0])
    headers: list[int] = []
    row = 1
    # A loop over graphs: the row of a header depends on the sizes of all graphs before it.
    while row < len(rows) and len(headers) < promised:
        if rows.counts[row] != 2 or values[first[row]] < 1:
            raise UserError(
                f"{rows.at(row)} must be a graph's number of nodes, at least 1, and its label; "
                "correct it, or the number of nodes of the graph before it"
            )
        headers.append(row)
        row += 1 + int(values[first[row]])
    if len(headers) < promised or row > len(rows):
        raise UserError(
            f"{rows.where} ends within graph {len(headers)} of {promised}; "
            "complete it or correct its first line"
        )
    if row < len(rows):
        raise UserError(
            f"{rows.at(row)} is left over after the {promised} graphs that the first line promises"
            "; correct that number, or remove the line"
        )
    header_rows = np.array(headers)
    return header_rows, values[first[header_rows]]


def _check_degrees(rows: Rows, values: Ids, first: Ids, nodes: Ids) -> Ids:
    short = rows.counts[nodes] < 2
    if short.any():
        raise UserError(
            f"{rows.at(nodes[short.argmax()])} must be a node's tag, its number of neighbours "
            "and the neighbours; correct the line"
        )
    degrees = rows.counts[nodes] - 2
    promised = values[first[nodes] + 1]
    wrong = promised != degrees
    if wrong.any():
        place = int(wrong.argmax())
        raise UserError(
            f"{rows.at(nodes[place])} lists {degrees[place]} neighbours but promises "
            f"{promised[place]}; correct the line"
        )
    return degrees
