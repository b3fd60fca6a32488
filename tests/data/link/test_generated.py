"""Graphs that are made up."""

import numpy as np
import pytest
import torch

from quatgraph.data.link.generated import random_triples
from quatgraph.errors import UserError


def all_of(triples) -> torch.Tensor:
    return torch.cat((triples.train, triples.valid, triples.test))


@pytest.mark.parametrize(
    ("entities", "relations", "count"),
    [(1000, 20, 5000), (50, 2, 3000), (10, 3, 150), (10, 3, 300), (1, 1, 1), (7, 2, 1), (3, 9, 20)],
)
def test_random_triples_have_the_given_number_and_are_distinct_and_in_range(
    entities, relations, count
):
    triples = random_triples(entities, relations, count, seed=3)
    rows = all_of(triples)
    assert rows.shape == (count, 3)
    assert rows.unique(dim=0).shape == rows.shape
    assert (triples.num_entities, triples.num_relations) == (entities, relations)
    assert bool((rows >= 0).all())
    assert bool((rows < torch.tensor([entities, relations, entities])).all())
    assert triples.entities == sorted(triples.entities)
    assert triples.relations == sorted(triples.relations)


def test_few_entities_have_most_triples():
    rows = all_of(random_triples(2000, 30, 20_000))
    degrees = np.sort(np.bincount(rows[:, [0, 2]].flatten()))[::-1]
    assert degrees[:20].sum() > 0.25 * degrees.sum()
    assert degrees[0] < 0.25 * degrees.sum()


def test_a_seed_gives_its_graph():
    first, again, other = (random_triples(100, 5, 500, seed) for seed in (1, 1, 2))
    assert first.digest == again.digest != other.digest


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((2, 3, 13, 0), "2 entities and 3 relations make at most 12 triples, not 13"),
        ((0, 1, 1, 0), "at least one entity"),
        ((1, 1, 0, 0), "one triple"),
        ((5, 1, 1, -1), "seed must be 0 or more"),
        ((2**33, 1, 1, 0), "too large"),
    ],
)
def test_graphs_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        random_triples(*arguments)
