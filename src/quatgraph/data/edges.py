"""Edge lists: merge, compare, count."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.io.messages import count_noun
from quatgraph.data.io.numbers import Ids
from quatgraph.errors import UserError


def merge_edges(
    sender: Ids,
    receiver: Ids,
    num_nodes: int,
    *,
    directed: bool,
    weight: NDArray[np.float64] | None = None,
    node_ids: Sequence[str] | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Keeps each edge once, sorted by sender and receiver, and drops self-loops.

    Weights of edges that repeat in one direction are summed. An undirected edge gets both
    directions, with the larger weight if they differ, so listing every edge in both directions
    changes nothing. A sum beyond float32 is a :class:`UserError` that names the nodes by
    ``node_ids``.

    Returns:
        The edge list ``(2, E)`` and the weights ``(E,)``.
    """
    apart = sender != receiver
    key = sender[apart] * num_nodes + receiver[apart]
    if weight is None:
        key = key if directed else np.concatenate((key, _reverse(key, num_nodes)))
        return _unpack(sort_unique(key), num_nodes), None
    key, place = np.unique(key, return_inverse=True)
    merged: NDArray = np.bincount(place, weight[apart], len(key))
    if (beyond := merged > np.finfo(np.float32).max).any():
        ends = divmod(int(key[beyond.argmax()]), num_nodes)
        names = [repr(end if node_ids is None else node_ids[end]) for end in ends]
        raise UserError(
            f"the weights of the repeated edge from {names[0]} to {names[1]} sum to more than a "
            "float32 holds: divide all weights of the graph by the same large number"
        )
    if not directed:
        both = np.concatenate((key, _reverse(key, num_nodes)))
        key, place = np.unique(both, return_inverse=True)
        larger = np.zeros(len(key))
        np.maximum.at(larger, place, np.concatenate((merged, merged)))
        merged = larger
    return _unpack(key, num_nodes), torch.from_numpy(merged.astype(np.float32))


def merge_notes(
    sender: Ids,
    receiver: Ids,
    num_nodes: int,
    *,
    directed: bool,
    weight: NDArray[np.float64] | None = None,
) -> list[str]:
    """Reports what :func:`merge_edges` removes or merges."""
    apart = sender != receiver
    key = sender[apart] * num_nodes + receiver[apart]
    distinct = sort_unique(key)
    notes = []
    if loops := len(sender) - len(key):
        notes.append(f"{count_noun(loops, 'self-loop')} left out: every node gets one of its own")
    if again := len(key) - len(distinct):
        how = "merged: each edge counts once" if weight is None else "merged: weights are summed"
        notes.append(f"{count_noun(again, 'repeated edge')} {how}")
    if weight is not None and not directed:
        sums = np.bincount(np.searchsorted(distinct, key), weight[apart], len(distinct))
        back = _reverse(distinct, num_nodes)
        place = np.searchsorted(distinct, back).clip(max=len(distinct) - 1)
        differ = (distinct[place] == back) & (sums[place] != sums)
        if unequal := int(differ.sum()) // 2:
            notes.append(
                f"{count_noun(unequal, 'edge')} with a different weight in each direction: "
                "both directions get the larger one"
            )
    return notes


def is_symmetric(edge_index: Tensor, edge_weight: Tensor | None, num_nodes: int) -> bool:
    """Whether every edge has both directions, with the same weight."""
    sender, receiver = edge_index
    forth, back = sender * num_nodes + receiver, receiver * num_nodes + sender
    if edge_weight is None:
        return torch.equal(forth.unique(), back.unique())
    return torch.equal(_sort_weighted(forth, edge_weight), _sort_weighted(back, edge_weight))


def count_edges(edge_index: Tensor, num_nodes: int, *, directed: bool) -> int:
    """Number of distinct edges without self-loops; both directions of an undirected one are one."""
    sender, receiver = edge_index[:, edge_index[0] != edge_index[1]]
    if not directed:
        sender, receiver = torch.minimum(sender, receiver), torch.maximum(sender, receiver)
    return (sender * num_nodes + receiver).unique().numel()


def _reverse(key: Ids, num_nodes: int) -> Ids:
    return key % num_nodes * num_nodes + key // num_nodes


def sort_unique(key: Ids) -> Ids:
    """Distinct keys, zero or more, sorted."""
    # For this many keys numpy's own unique hashes first, ten times slower.
    key = np.sort(key)
    return key[np.diff(key, prepend=-1) != 0]


def _unpack(key: Ids, num_nodes: int) -> Tensor:
    return torch.from_numpy(np.stack((key // num_nodes, key % num_nodes)))


def _sort_weighted(key: Tensor, weight: Tensor) -> Tensor:
    """Keys and weights as one ``(2, E)``, sorted by both: equal for equal weighted edge sets."""
    order = torch.argsort(weight, stable=True)
    order = order[torch.argsort(key[order], stable=True)]
    return torch.stack((key[order].double(), weight[order].double()))
