"""Two frames of pandas, Polars or Arrow as a graph: one of nodes and one of edges."""

from typing import TYPE_CHECKING, Any

from quatgraph.data.io.frame import to_frame, with_index
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
    names = (options.id, *USUAL_COLUMNS["id"])
    table = NodeTable.from_frame(with_index(nodes, "the frame of nodes", names), options)
    found = edges_of(to_frame(edges, "the frame of edges"), table.index, options)
    return table.assemble(found, options, name="data")
