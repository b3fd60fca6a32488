"""Merging and counting edges."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quatgraph.data.edges import count_edges, is_symmetric, merge_edges

lists = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 4)), max_size=20)


@settings(deadline=None, derandomize=True)
@given(lists, st.booleans())
def test_merging_agrees_with_a_dictionary(edges, directed):
    ordered: dict[tuple[int, int], float] = {}
    for sender, receiver, weight in edges:
        if sender != receiver:
            ordered[sender, receiver] = ordered.get((sender, receiver), 0) + weight
    expected = dict(ordered)
    if not directed:
        for sender, receiver in ordered:
            both = ordered[sender, receiver], ordered.get((receiver, sender), 0)
            expected[sender, receiver] = expected[receiver, sender] = max(both)
    array = np.array(edges, dtype=np.int64).reshape(-1, 3)
    index, weight = merge_edges(
        array[:, 0], array[:, 1], 6, directed=directed, weight=array[:, 2].astype(float)
    )
    assert dict(zip(map(tuple, index.T.tolist()), weight.tolist(), strict=True)) == expected
    assert index.T.tolist() == sorted(index.T.tolist())
    plain, nothing = merge_edges(array[:, 0], array[:, 1], 6, directed=directed)
    assert torch.equal(plain, index)
    assert nothing is None
    undirected = {tuple(sorted(pair)) for pair in ordered}
    assert count_edges(index, 6, directed=directed) == len(ordered if directed else undirected)


def test_listing_every_edge_in_both_directions_changes_nothing():
    sender, receiver = np.array([0, 1]), np.array([1, 2])
    weight = np.array([2.0, 3.0])
    once = merge_edges(sender, receiver, 3, directed=False, weight=weight)
    twice = merge_edges(
        np.concatenate((sender, receiver)),
        np.concatenate((receiver, sender)),
        3,
        directed=False,
        weight=np.tile(weight, 2),
    )
    assert torch.equal(once[0], twice[0])
    assert torch.equal(once[1], twice[1])


@pytest.mark.parametrize(
    ("pairs", "weight", "symmetric"),
    [
        ([[0, 1], [1, 0]], None, True),
        ([[0, 1], [1, 2]], None, False),
        ([[0, 1], [1, 0]], [1.0, 1.0], True),
        ([[0, 1], [1, 0]], [1.0, 2.0], False),
        ([[0, 1], [1, 0], [0, 1], [1, 0]], [1.0, 2.0, 2.0, 1.0], True),
    ],
)
def test_symmetry_needs_both_directions_and_equal_weights(pairs, weight, symmetric):
    edge_index = torch.tensor(pairs).T
    weights = None if weight is None else torch.tensor(weight)
    assert is_symmetric(edge_index, weights, 3) == symmetric
