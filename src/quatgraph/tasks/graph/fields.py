r"""Receptive fields as in PATCHY-SAN: a graph as rows of nodes around its most central nodes.

Nodes are ordered by betweenness, highest first. The field of a node v holds the first k nodes by
distance from v, then by that order. Ties are broken by the node attribute, so nodes that still tie
are equal in everything that a field holds. The first w nodes have fields; ties among them are
broken by their fields. So fields do not depend on the node numbering. Betweenness is rounded to
float32, because its float64 rounding errors depend on the numbering.

Published ports break ties by a canonical order of nodes (nauty), which only edge labels need.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data.graph.collection import Graphs
from quatgraph.errors import UserError
from quatgraph.tasks.graph.features import NodeFeatures

_MAX_NODES = 20_000  # distances between all pairs of nodes take two bytes each
_SOURCES = 128  # nodes from which paths are counted, or of which fields are made, at once
_DENSE_COST = 20  # how much faster a dense product is per entry than a sparse one


def build_fields(
    graphs: Graphs, features: NodeFeatures, num_fields: int, field_size: int
) -> tuple[Tensor, Codes]:
    """The fields of all graphs, as codes of the places of their nodes.

    A node at place p with tag t has the code ``p * num_tags + t``. With degrees it has the code p
    and the weight ``degree / num_nodes``. A place without a node has weight 0.

    Returns:
        Where the places of each graph begin, and their number, ``(G + 1,)``; and their codes, field
        by field.
    """
    code, weight, num_codes = _read_attributes(graphs, features)
    _, value = torch.stack((code.double(), weight.double())).unique(dim=1, return_inverse=True)
    nodes = []
    for g, (first, last) in enumerate(pairwise(graphs.node_ptr.tolist())):
        if last - first > _MAX_NODES:
            raise UserError(
                f"graph {graphs.graph_ids[g]!r} has {last - first:,} nodes, and model.name=pscn "
                f"takes at most {_MAX_NODES:,}: choose another model"
            )
        edges = graphs.edge_index[:, graphs.edge_ptr[g] : graphs.edge_ptr[g + 1]] - first
        own = select_fields(edges, value[first:last], num_fields, field_size)
        nodes.append(torch.where(own >= 0, own + first, -1).flatten())
    node = torch.cat(nodes)
    place = torch.arange(field_size).repeat(len(graphs) * num_fields)
    code, weight = (torch.where(node >= 0, each[node.clamp(min=0)], 0) for each in (code, weight))
    ptr = torch.arange(len(graphs) + 1) * (num_fields * field_size)
    return ptr, Codes((place * num_codes + code).int(), weight, field_size * num_codes)


def select_fields(edges: Tensor, value: Tensor, num_fields: int, field_size: int) -> Tensor:
    """The nodes of each field of a graph, -1 for none, ``(num_fields, field_size)``.

    Args:
        edges: In both directions, ``(2, E)``.
        value: The attribute of each node, as an integer, ``(n,)``.
    """
    n = len(value)
    distance, betweenness = measure_paths(edges, n)
    central = -betweenness.float().double()
    _, rank = torch.stack((central, value.double())).unique(dim=1, return_inverse=True)
    last = central.sort().values[min(num_fields, n) - 1]
    root = (central <= last).nonzero().flatten()
    node = torch.full((len(root), field_size), -1)
    for some in torch.arange(len(root)).split(_SOURCES):  # all nodes may tie
        reached = distance[root[some]].long()
        key = torch.where(reached >= 0, reached * n + rank, n * n)
        near = key.topk(min(field_size, n), largest=False)
        node[some, : near.indices.size(1)] = torch.where(near.values < n * n, near.indices, -1)
    seen = torch.where(node >= 0, value[node.clamp(min=0)], -1)
    described = torch.cat((central[root, None], seen.double()), dim=1)
    _, order = described.unique(dim=0, return_inverse=True)
    chosen = node[order.argsort(stable=True)[:num_fields]]
    return F.pad(chosen, (0, 0, 0, num_fields - len(chosen)), value=-1)


def measure_paths(edges: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The distances of all pairs of nodes, -1 without a path, int16 ``(n, n)``; and the betweenness
    of each node, float64 ``(n,)``, by Brandes' sums over the levels of breadth-first searches."""
    sparse = Adjacency.from_edge_index(edges, num_nodes)
    dense = num_nodes**2 <= _DENSE_COST * edges.size(1)
    matrix = sparse.to_dense().double() if dense else sparse
    distance = torch.full((num_nodes, num_nodes), -1, dtype=torch.int16)
    betweenness = torch.zeros(num_nodes, dtype=torch.float64)
    for source in torch.arange(num_nodes).split(_SOURCES):
        column = torch.arange(len(source))
        paths = torch.zeros(num_nodes, len(source), dtype=torch.float64)
        paths[source, column] = 1
        depth, ends, level = torch.full_like(paths, -1, dtype=torch.int16), paths, 0
        while bool((new := (ends > 0) & (depth < 0)).any()):
            depth[new] = level
            ends = torch.where(new, ends, 0.0)
            paths = paths + ends if level else paths
            ends, level = matrix @ ends, level + 1
        through = torch.zeros_like(paths)
        for farther in range(level - 1, 1, -1):
            share = torch.where(depth == farther, (1 + through) / paths, 0.0)
            through += torch.where(depth == farther - 1, (matrix @ share) * paths, 0.0)
        betweenness += through.sum(dim=1)
        distance[source] = depth.mT
    return distance, betweenness


def _read_attributes(graphs: Graphs, features: NodeFeatures) -> tuple[Tensor, Tensor, int]:
    """The code and the weight of each node, and the number of codes. Real attributes play no
    part."""
    if features.kind == "tags":
        codes = features.codes(graphs)
        return codes.code.long(), codes.weight, codes.num_codes
    size = graphs.node_ptr.diff().repeat_interleave(graphs.node_ptr.diff())
    return torch.zeros_like(graphs.degrees), graphs.degrees / size, 1
