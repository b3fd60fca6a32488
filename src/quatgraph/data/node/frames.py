"""Two frames of pandas, Polars or Arrow as a graph: one of nodes and one of edges."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quatgraph.data.io.frame import INDEX, Frame, Values, pandas_cells, to_frame
from quatgraph.data.node.edges import edges_of
from quatgraph.data.node.options import ReadOptions
from quatgraph.data.node.table import USUAL_COLUMNS, NodeTable

if TYPE_CHECKING:
    from torch_geometric.data import Data


def from_frames(nodes: Any, edges: Any, options: ReadOptions) -> "Data":
    """Reads frames like the files ``nodes.csv`` and ``edges.csv``.

    Without a column of ids, the index of a pandas frame holds them, or else the nodes are numbered
    from 0.
    """
    table = NodeTable.from_frame(_with_index(nodes, options), options)
    found = edges_of(to_frame(edges, "the frame of edges"), table.index, options)
    return table.assemble(found, options, name="data")


def _with_index(nodes: Any, options: ReadOptions) -> Frame:
    frame = to_frame(nodes, "the frame of nodes")
    index = getattr(nodes, "index", None)
    name = INDEX
    cells: Values = np.arange(len(frame))
    if index is not None and hasattr(index, "to_numpy"):
        cells = pandas_cells(index)
        own = str(index.name)
        wanted = own == options.id or own.casefold() in USUAL_COLUMNS["id"]
        name = own if wanted and own not in frame.columns else INDEX
    return replace(frame, columns={name: cells, **frame.columns})
