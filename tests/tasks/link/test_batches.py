"""Batches of queries: all once an epoch, in orders of their own, with all their answers."""

import pytest
import torch
from cities import cities, problem_of

from quatgraph.data.link import Queries
from quatgraph.tasks.link.batches import QueryBatches, expand_triples, look_up

MEMBERS = 3
SEEDS = [4, 0, 1]


@pytest.fixture(scope="module")
def queries() -> Queries:
    return problem_of(cities()).training


@pytest.mark.parametrize("size", [1, 7, 16, 128, 1000])
def test_every_query_is_in_one_batch_of_an_epoch_of_each_member(
    queries: Queries, size: int
) -> None:
    batches = QueryBatches(queries, size, SEEDS)
    for epoch in range(2):
        seen = []
        shapes = batches.draw(epoch)
        for step, shape in enumerate(shapes):
            ((rows, _),) = batches.load(step)
            head, relation, positives = look_up(queries, rows)
            assert head.shape == relation.shape == positives.row.shape == (MEMBERS, shape)
            assert torch.equal(torch.stack((head, relation), dim=-1), queries.pairs[positives.row])
            seen.append(positives.row.clone())
        rows = torch.cat(seen, dim=1)
        assert torch.equal(rows.sort(dim=1).values, torch.arange(len(queries)).expand(MEMBERS, -1))


def test_several_batches_can_be_loaded_at_once(queries: Queries) -> None:
    batches = QueryBatches(queries, 4, SEEDS)
    batches.draw(0)
    wanted = batches.order[:, 8:20].split(4, dim=1)
    for (rows, _), expected in zip(batches.load(2, 3), wanted, strict=True):
        assert torch.equal(rows, expected)


@pytest.mark.parametrize("size", [7, 16, 1000])
def test_an_epoch_has_every_triple_in_equal_shares(queries: Queries, size: int) -> None:
    batches = QueryBatches(queries, size, SEEDS, with_triples=True)
    facts = expand_triples(queries)
    train = cities().train
    both = torch.cat((train, (train + torch.tensor([0, 3, 0])).flip(1)))
    assert set(map(tuple, facts.tolist())) == set(map(tuple, both.tolist()))
    seen, steps = [], len(batches.draw(0))
    for step in range(steps):
        (batch,) = batches.load(step)
        assert batch.triples is not None
        assert batch.triples.shape == (MEMBERS, -(-len(facts) // steps))
        seen.append(batch.triples.clone())
    for own in torch.cat(seen, dim=1):
        counts = own.bincount(minlength=len(facts))
        assert counts.min() == 1
        assert int(counts.sum()) - len(facts) < steps
    loaded = batches.load(0, min(steps, 3))
    for (_, triples), expected in zip(loaded, seen, strict=False):
        assert torch.equal(triples, expected)


def test_only_the_last_batch_may_be_shorter(queries: Queries) -> None:
    count = len(queries)
    assert QueryBatches(queries, 16, [0]).draw(0) == [16] * (count // 16) + [count % 16]
    assert count % 16 > 0
    assert QueryBatches(queries, 1, [0]).draw(0) == [1] * count
    assert QueryBatches(queries, count, [0]).draw(0) == [count]
    assert QueryBatches(queries, count + 1, [0]).draw(0) == [count]


def test_members_and_epochs_have_orders_of_their_own(queries: Queries) -> None:
    batches = QueryBatches(queries, 16, SEEDS)
    orders = []
    for epoch in range(2):
        batches.draw(epoch)
        orders += batches.order.tolist()
    assert len(set(map(tuple, orders))) == 2 * MEMBERS


def test_a_query_is_in_every_place_equally_often() -> None:
    pairs = torch.stack((torch.arange(5), torch.zeros(5, dtype=torch.long)), dim=1)
    batches = QueryBatches(Queries(pairs, torch.arange(6), torch.arange(5), 5, 1), 2, range(4000))
    batches.draw(0)
    places = torch.arange(5) * 5 + batches.order
    seen = places.flatten().bincount(minlength=25).double()
    # 800 are expected of each query in each place; the bound is chi-square's one in 10,000.
    assert float(((seen - 800) ** 2 / 800).sum()) < 45.9


def test_the_steps_of_one_size_are_read_from_one_place(queries: Queries) -> None:
    batches = QueryBatches(queries, 16, SEEDS)
    places: dict[int, set[int]] = {}
    for epoch in range(2):
        for step, size in enumerate(batches.draw(epoch)):
            ((rows, _),) = batches.load(step)
            places.setdefault(int(size), set()).add(rows.data_ptr())
    assert [len(where) for where in places.values()] == [1, 1]


def test_a_batch_has_all_answers_of_its_queries_and_no_others(queries: Queries) -> None:
    tails: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in cities().train.tolist():
        tails.setdefault((head, relation), set()).add(tail)
        tails.setdefault((tail, relation + 3), set()).add(head)
    batches = QueryBatches(queries, 16, SEEDS)
    for step, _ in enumerate(batches.draw(0)):
        ((rows, _),) = batches.load(step)
        head, relation, positives = look_up(queries, rows)
        owner, answer = positives.to_coo()
        pairs = torch.stack((head, relation), dim=-1).flatten(0, 1).tolist()
        for place, pair in enumerate(map(tuple, pairs)):
            own = answer[owner == place].tolist()
            assert len(own) == len(set(own)) == positives.counts().flatten()[place]
            assert set(own) == tails[pair]
