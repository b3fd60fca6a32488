"""Queries, against loops over sets."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quatgraph.data.link.generated import random_triples
from quatgraph.data.link.queries import Queries, known, queries, with_inverses
from quatgraph.errors import UserError

N, R = 6, 3
rows = st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1)))


def by_loops(triples: list[tuple[int, int, int]], reciprocal: bool) -> dict:
    """The tails of each pair of head and relation."""
    found: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in triples:
        found.setdefault((head, relation), set()).add(tail)
        if reciprocal:
            found.setdefault((tail, relation + R), set()).add(head)
    return found


def listed(found: Queries) -> list[tuple[tuple[int, int], list[int]]]:
    """Each query with its tails."""
    begin, tails = found.ptr.tolist(), found.tails.tolist()
    return [
        (tuple(pair), tails[begin[place] : begin[place + 1]])
        for place, pair in enumerate(found.pairs.tolist())
    ]


@given(rows, st.booleans())
def test_queries_are_those_of_a_loop(triples, reciprocal):
    found = queries(torch.tensor(triples).reshape(-1, 3).long(), N, R, reciprocal)
    expected = by_loops(triples, reciprocal)
    assert listed(found) == [(pair, sorted(expected[pair])) for pair in sorted(expected)]
    assert len(found) == len(expected)
    assert found.ptr.shape == (len(found) + 1,)
    assert found.num_relations == (2 * R if reciprocal else R)
    for tensor in (found.pairs, found.ptr, found.tails):
        assert tensor.dtype == torch.int64


@given(rows, st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, 2 * R - 1))))
def test_selected_queries_are_those_of_a_loop(triples, pairs):
    whole = queries(torch.tensor(triples).reshape(-1, 3).long(), N, R)
    expected = by_loops(triples, reciprocal=True)
    found = whole.select(torch.tensor(pairs).reshape(-1, 2).long())
    assert listed(found) == [(pair, sorted(expected.get(pair, ()))) for pair in pairs]


def test_known_tails_hold_all_parts_and_both_sides():
    triples = random_triples(40, 4, 600, seed=1)
    asked = with_inverses(triples.test, triples.num_relations)
    assert torch.equal(asked[: len(triples.test)], triples.test)
    found = known(triples).select(asked[:, :2])
    parts = (triples.train, triples.valid, triples.test)
    facts = {tuple(row) for part in parts for row in part.tolist()}
    for ((entity, relation), tails), answer in zip(listed(found), asked[:, 2], strict=True):
        if relation < 4:
            right = [end for end in range(40) if (entity, relation, end) in facts]
        else:
            right = [end for end in range(40) if (end, relation - 4, entity) in facts]
        assert tails == right
        assert int(answer) in tails
    assert int(known(triples).ptr[-1]) == 2 * len(facts)


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ([[0, 0, 6]], "there is no entity 6, only 0\\.\\.5"),
        ([[-1, 0, 0]], "there is no entity -1"),
        ([[0, 3, 0]], "there is no relation 3, only 0\\.\\.2"),
        ([[0, 0]], "must be int64 with 3 columns"),
        ([[0.0, 0.0, 0.0]], "must be int64 with 3 columns, got torch.float32"),
    ],
)
def test_numbers_that_name_nothing_are_refused(triples, message):
    with pytest.raises(UserError, match=message):
        queries(torch.tensor(triples), N, R)


def test_a_query_for_an_unknown_relation_is_refused():
    found = queries(torch.tensor([[0, 0, 1]]), N, R, reciprocal=False)
    with pytest.raises(UserError, match="there is no relation 3"):
        found.select(torch.tensor([[0, 3]]))
