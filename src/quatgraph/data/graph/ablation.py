"""Graphs with one node removed, to measure what the node contributes."""

from dataclasses import replace

import torch

from quatgraph.data.graph.collection import Graphs


def without_each_node(graphs: Graphs, place: int) -> Graphs:
    """A graph as often as it has nodes, each time without one of them and its edges."""
    one = graphs.select([place])
    size, num_edges = one.num_nodes, one.edge_index.size(1)
    copies, nodes = one.select([0] * size), torch.arange(size)
    kept = (nodes[None, :] != nodes[:, None]).flatten()
    left_out = nodes.repeat_interleave(num_edges)
    edges = (copies.edge_index % size != left_out).all(dim=0)
    counts = edges.view(size, num_edges).sum(dim=1)
    number = kept.long().cumsum(0) - 1
    tags, attributes = copies.edge_tags, copies.edge_attributes
    return replace(
        copies,
        node_ptr=torch.arange(size + 1) * (size - 1),
        edge_ptr=torch.nn.functional.pad(counts.cumsum(0), (1, 0)),
        edge_index=number[copies.edge_index[:, edges]],
        tags=copies.tags[kept],
        attributes=None if copies.attributes is None else copies.attributes[kept],
        edge_tags=None if tags is None else tags[edges],
        edge_attributes=None if attributes is None else attributes[edges],
        graph_ids=[str(node) for node in range(size)],
    )
