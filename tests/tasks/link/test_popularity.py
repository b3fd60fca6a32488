"""Guessing by popularity: the counts of training, ranked as a model is."""

from collections import Counter

import torch
from cities import CITIES, cities, problem_of

from quatgraph.data.link import Triples, with_inverses
from quatgraph.tasks.link.popularity import rank_by_popularity


def both_sides(triples: Triples, part: torch.Tensor) -> list[list[int]]:
    return with_inverses(part, triples.num_relations).tolist()


def test_answers_are_ordered_by_how_often_they_are_one_in_training() -> None:
    triples = cities()
    found = rank_by_popularity(problem_of(triples), "test")
    parts = torch.cat((triples.train, triples.valid, triples.test))
    known = set(map(tuple, both_sides(triples, parts)))
    counts = Counter((r, t) for _, r, t in both_sides(triples, triples.train))
    for place, (head, relation, truth) in enumerate(both_sides(triples, triples.test)):
        rivals = [
            counts[relation, other]
            for other in range(triples.num_entities)
            if (head, relation, other) not in known
        ]
        own = counts[relation, truth]
        assert found.greater[place] == sum(count > own for count in rivals)
        assert found.equal[place] == sum(count == own for count in rivals)


def test_a_place_of_work_is_one_of_the_cities() -> None:
    ranks = rank_by_popularity(problem_of(cities()), "test").realistic
    assert ranks[: len(ranks) // 2].max() <= CITIES
