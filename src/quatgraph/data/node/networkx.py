"""A networkx graph: labels, splits and features are attributes of its nodes."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from quatgraph.data.io.frame import Frame, Values, columns_of
from quatgraph.data.io.messages import quote_some
from quatgraph.data.node.edges import Edges, merge_columns
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.node.table import Features, NodeTable
from quatgraph.data.pyg import check_features
from quatgraph.errors import UserError

if TYPE_CHECKING:
    from torch_geometric.data import Data

_NODE = "(node)"
"""The column of the nodes themselves; no attribute has this name."""
_VECTOR = "x"
"""The attribute that may hold all features of a node."""


def is_networkx(graph: object) -> bool:
    """Whether an object is a graph of networkx, which is not imported."""
    roots = {kind.__module__.partition(".")[0] for kind in type(graph).__mro__}
    return "networkx" in roots and hasattr(graph, "nodes")


def from_networkx(graph: Any, options: ReadOptions) -> "Data":
    """Reads a graph whose nodes are the ids.

    All attributes of the nodes but the label and the split are features, unless an attribute ``x``
    holds a vector. The attribute ``weight`` of edges, or the one that the options name, is their
    weight, 1 where it is missing.
    """
    where = "the networkx graph"
    ids = [str(node) for node in graph.nodes]
    attributes = columns_of(dict(attributes) for _, attributes in graph.nodes(data=True))
    frame = Frame(where, {_NODE: ids, **attributes}, lambda row: f"node {ids[row]!r} of {where}")
    options = replace(options, id=_NODE, directed=graph.is_directed())
    table = NodeTable.from_frame(frame, options)
    features = _read_vectors(table)
    edges = _read_edges(graph, table, options)
    data = table.assemble(edges, options, name=str(graph.name or "data"), features=features)
    unused = [name for name in table.feature_columns if name != _VECTOR]
    if features is not None and unused:
        data.notes.append(
            f"{where}: the features are the attribute 'x'; not used: {quote_some(unused)}"
        )
    return data


def _read_edges(graph: Any, table: NodeTable, options: ReadOptions) -> Edges:
    where, key = "the networkx graph", options.weight or "weight"
    pairs = list(graph.edges(data=True))
    columns: dict[str, Values] = {
        "source": [str(source) for source, _, _ in pairs],
        "target": [str(target) for _, target, _ in pairs],
    }
    if any(key in attributes for _, _, attributes in pairs):
        columns[key] = [attributes.get(key, 1) for _, _, attributes in pairs]
    elif options.weight:
        raise UserError(f"no edge of {where} has the attribute {key!r}, which data.weight names")

    def at(row: int) -> str:
        return f"the edge from {columns['source'][row]!r} to {columns['target'][row]!r} of {where}"

    return merge_columns(Frame(where, columns, at), list(columns), table.index, options)


def _read_vectors(table: NodeTable) -> Features | None:
    """The attribute ``x``, if it holds vectors."""
    cells = table.frame.columns.get(_VECTOR, [])
    if _VECTOR in table.roles.values() or not any(np.ndim(cell) for cell in cells):
        return None
    width = next(len(cell) for cell in cells if np.ndim(cell))
    for row, cell in enumerate(cells):
        if np.shape(cell) != (width,):
            shown = "no attribute 'x'" if cell is None else f"an 'x' of shape {np.shape(cell)}"
            raise UserError(
                f"{table.frame.at(row)} has {shown} where other nodes have {width} numbers; give "
                "all nodes as many"
            )
    try:
        vectors = np.stack([np.asarray(cell, dtype=np.float32) for cell in cells])
    except (TypeError, ValueError) as error:
        raise UserError(f"the attribute 'x' of {table.frame.where} must hold numbers") from error
    return check_features(torch.from_numpy(vectors), "x"), []
