"""Labels and features of edges."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from quatgraph.data.graph.collection import Encoded, Graphs, Ids
from quatgraph.data.io.messages import count_noun


def with_edge_data(
    graphs: Graphs,
    edges: Ids,
    labels: Encoded | None = None,
    features: NDArray[np.float32] | None = None,
) -> Graphs:
    """The graphs with labels and features of the edges ``(2, E)`` that they were merged from.

    Both directions of an edge have the same ones. If an edge is repeated, its first ones count, and
    a note reports those that differ.
    """
    if labels is None and features is None:
        return graphs
    source, repeats = _match_edges(graphs, edges)
    rows = [values for values in (labels and labels[0], features) if values is not None]
    if conflicts := _count_conflicts(rows, repeats):
        verb = (
            "has another label or features" if conflicts == 1 else "have other labels or features"
        )
        graphs.notes.append(
            f"{count_noun(conflicts, 'repeated edge')} {verb} than the first; the first counts"
        )
    return replace(
        graphs,
        edge_tags=None if labels is None else torch.from_numpy(labels[0][source]),
        edge_tag_names=[] if labels is None else labels[1],
        edge_attributes=None if features is None else torch.from_numpy(features[source]),
    )


def _match_edges(graphs: Graphs, edges: Ids) -> tuple[Ids, Ids]:
    """Which of ``edges`` each edge of the graphs comes from; and the other edges between the same
    two nodes, each with the first one, ``(2, K)``."""
    known = np.flatnonzero(edges[0] != edges[1])
    key = _pair_key(edges[:, known], graphs.num_nodes)
    pairs, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    source = known[first]
    wanted = np.searchsorted(pairs, _pair_key(graphs.edge_index.numpy(), graphs.num_nodes))
    repeats = np.stack((known, source[inverse]))
    return source[wanted], repeats[:, repeats[0] != repeats[1]]


def _pair_key(edges: Ids, num_nodes: int) -> Ids:
    """A number for each pair of nodes, the same for both directions."""
    return edges.min(axis=0) * num_nodes + edges.max(axis=0)


def _count_conflicts(rows: Iterable[NDArray[Any]], repeats: Ids) -> int:
    """How many repeated edges have other values than the first."""
    differs = np.zeros(repeats.shape[1], dtype=bool)
    for values in rows:
        matrix = values.reshape(len(values), -1)
        differs |= (matrix[repeats[0]] != matrix[repeats[1]]).any(axis=1)
    return int(differs.sum())
