"""Chooses which part of a large graph to draw."""

import numpy as np
from numpy.typing import NDArray


def draw_around(
    edges: NDArray[np.int64], num_nodes: int, centre: int, hops: int, limit: int
) -> tuple[list[tuple[int, int]], list[int]]:
    """The nodes around one, each with its distance, and the places of the edges among them.

    The nearest come first; of equally near ones, those with most edges to the nodes before them.

    Args:
        edges: Sender and receiver of each edge, ``(2, E)``; direction does not count.
        num_nodes: Number of nodes of the graph.
        centre: The node in the middle.
        hops: The largest distance.
        limit: Number of nodes, at most.
    """
    hop = np.full(num_nodes, -1)
    hop[centre] = 0
    chosen, nodes = [centre], np.array([centre])
    for distance in range(1, hops + 1):
        inside = np.isin(edges, nodes) if len(nodes) < num_nodes else np.ones_like(edges, bool)
        reached = np.concatenate((edges[1][inside[0]], edges[0][inside[1]]))
        new, counts = np.unique(reached[hop[reached] < 0], return_counts=True)
        new = new[np.lexsort((new, -counts))][: limit - len(chosen)]
        hop[new] = distance
        chosen += new.tolist()
        nodes = np.array(chosen)
    among = np.flatnonzero((hop[edges[0]] >= 0) & (hop[edges[1]] >= 0))
    return [(node, int(hop[node])) for node in chosen], among.tolist()
