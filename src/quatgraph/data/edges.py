"""Edge lists: merged, made symmetric, compared and counted."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ids = NDArray[np.int64]


def merge_edges(
    sender: Ids,
    receiver: Ids,
    num_nodes: int,
    *,
    directed: bool,
    weight: NDArray[np.float64] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """An edge list with each edge once, sorted by sender and receiver, without self-loops.

    The weights of edges that repeat in one direction are summed. An undirected edge gets both
    directions; where a list gives both with different weights, both get the larger one, so that
    listing every edge in both directions changes nothing.

    Shape:
        - sender, receiver, weight: ``(E',)``
        - output: ``(2, E)`` and ``(E,)``
    """
    apart = sender != receiver
    key = sender[apart] * num_nodes + receiver[apart]
    if weight is None:
        key = key if directed else np.concatenate((key, _turned(key, num_nodes)))
        return _unpacked(_distinct(key), num_nodes), None
    key, place = np.unique(key, return_inverse=True)
    merged = np.zeros(len(key))
    np.add.at(merged, place, weight[apart])
    if not directed:
        both = np.concatenate((key, _turned(key, num_nodes)))
        key, place = np.unique(both, return_inverse=True)
        larger = np.zeros(len(key))
        np.maximum.at(larger, place, np.concatenate((merged, merged)))
        merged = larger
    return _unpacked(key, num_nodes), torch.from_numpy(merged.astype(np.float32))


def is_symmetric(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> bool:
    """Whether every edge is there in both directions, with the same weight."""
    sender, receiver = edge_index
    forth, back = sender * num_nodes + receiver, receiver * num_nodes + sender
    if edge_weight is None:
        return torch.equal(forth.unique(), back.unique())
    return torch.equal(_by_key(forth, edge_weight), _by_key(back, edge_weight))


def count_edges(edge_index: Tensor, num_nodes: int, *, directed: bool) -> int:
    """Distinct edges between two different nodes; both directions of an undirected one are one."""
    sender, receiver = edge_index[:, edge_index[0] != edge_index[1]]
    if not directed:
        sender, receiver = torch.minimum(sender, receiver), torch.maximum(sender, receiver)
    return (sender * num_nodes + receiver).unique().numel()


def _turned(key: Ids, num_nodes: int) -> Ids:
    return key % num_nodes * num_nodes + key // num_nodes


def _distinct(key: Ids) -> Ids:
    # By sorting: for this many keys numpy's own unique hashes first, ten times slower.
    key = np.sort(key)
    return key[np.diff(key, prepend=-1) != 0]


def _unpacked(key: Ids, num_nodes: int) -> Tensor:
    return torch.from_numpy(np.stack((key // num_nodes, key % num_nodes)))


def _by_key(key: Tensor, weight: Tensor) -> Tensor:
    """Keys and weights as one ``(2, E)``, sorted by both: equal for equal weighted edge sets."""
    order = torch.argsort(weight, stable=True)
    order = order[torch.argsort(key[order], stable=True)]
    return torch.stack((key[order].double(), weight[order].double()))
