"""What graph convolutions take: a node matrix, a graph in any form, and features of its edges."""

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.blocks import Blocks
from quatgraph.entries import entry_order
from quatgraph.errors import UserError
from quatgraph.layers.linear import Edges, Features


def count_nodes(x: Features) -> int:
    """The number of rows of a node matrix."""
    if len(getattr(x, "shape", ())) < 2:  # a pair, as PyG's bipartite layers take
        raise UserError("a quaternion convolution takes one node matrix, with a row per node")
    return x.shape[-2]


def prepare_edges(
    x: Features,
    edges: Edges,
    edge_weight: Tensor | None = None,
    *,
    self_loops: bool = False,
    normalization: Normalization = "none",
) -> Adjacency:
    """The matrix that a layer multiplies by: a prepared one unchanged, another one with self-loops
    and normalization, in float64 for such features."""
    if isinstance(edges, Blocks):  # which have no entries of their own
        raise UserError("messages of single edges cannot use Blocks: use adjacency.expanded(...)")
    nodes = count_nodes(x)
    dtype = x.dtype if isinstance(x, Tensor) else x.weight.dtype
    return Adjacency.of(
        edges,
        nodes,
        edge_weight,
        self_loops=self_loops,
        normalization=normalization,
        dtype=dtype if dtype == torch.float64 else None,
    )


def order_edge_features(
    edge_attr: Tensor, edges: Edges, adjacency: Adjacency, *, self_loops: bool = False
) -> Tensor:
    """Features of edges as rows in the order of the matrix's entries.

    Args:
        edge_attr: ``(E, D)`` or ``(E,)``.
        edges: What the matrix was prepared from; with an :class:`Adjacency`, the features are in
            the order of its entries already.
        self_loops: Whether self-loops were added, whose features are zero.
    """
    if not isinstance(edge_attr, Tensor) or not edge_attr.is_floating_point():
        raise UserError("edge_attr must be a tensor of real numbers: use edge_attr.float()")
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        raise UserError("edge features come with an edge_index, not with a sparse matrix")
    features = edge_attr[:, None] if edge_attr.dim() == 1 else edge_attr
    count = edges.size(1) if isinstance(edges, Tensor) else adjacency.num_edges
    if features.dim() != 2 or features.size(0) != count:
        raise UserError(
            f"edge_attr must have a row per edge: {tuple(edge_attr.shape)} came with {count} edges"
        )
    if not isinstance(edges, Tensor):
        return features
    nodes = adjacency.shape[0]
    order = entry_order(edges[1], nodes, self_loops=self_loops)
    if self_loops:
        features = torch.cat((features, features.new_zeros(nodes, features.size(1))))
    # A permutation: its gradient adds to each row once, so it repeats bit for bit.
    return features.index_select(0, order)
