"""Random knowledge graphs of any size, for benchmarks."""

from dataclasses import replace

import numpy as np

from quatgraph.data.edges import sort_unique
from quatgraph.data.io.numbers import Ids
from quatgraph.data.link.parts import Part, Parts, check_size, draw_parts
from quatgraph.data.link.triples import Triples, assemble
from quatgraph.errors import UserError

_SKEWED_ROUNDS = 8


def random_triples(
    num_entities: int, num_relations: int, num_triples: int, seed: int = 0
) -> Triples:
    """A graph in which few entities and relations have most of the triples.

    The probability of the k-th most frequent entity or relation is proportional to
    ``log(1 + 1 / k)``, close to Zipf's law. Some may be in no triple. The triples of all splits are
    distinct. For valid and test see :func:`quatgraph.data.link.parts.draw_parts`.

    Example:
        >>> random_triples(100, 5, 1000)
        Triples('random', 100 entities, 5 relations, 900 + 50 + 50 triples)
    """
    check_size(num_entities, num_relations)
    if min(num_entities, num_relations, num_triples) < 1:
        raise UserError("a graph needs at least one entity, one relation and one triple")
    if seed < 0:
        raise UserError(f"a seed must be 0 or more, got {seed}")
    possible = num_entities**2 * num_relations
    if num_triples > possible:
        raise UserError(
            f"{num_entities} entities and {num_relations} relations make at most {possible:,} "
            f"triples, not {num_triples:,}; ask for fewer"
        )
    random = np.random.default_rng(seed)
    draw = _sample_from_all if possible <= 4 * num_triples else _sample_in_rounds
    key = random.permutation(draw(num_entities, num_relations, num_triples, random))
    pair, tail = np.divmod(key, num_entities)
    head, relation = np.divmod(pair, num_relations)
    # An entity's number is independent of its frequency.
    place = random.permutation(num_entities)
    triples = np.stack((place[head], relation, place[tail]), axis=1)
    whole = Part("the graph", triples, np.arange(1, num_triples + 1))
    parts = Parts({"train": whole}, _names("e", num_entities), _names("r", num_relations))
    return assemble(replace(draw_parts(parts, seed), notes=[]), name="random")


def _sample_in_rounds(
    num_entities: int, num_relations: int, num_triples: int, random: np.random.Generator
) -> Ids:
    """Keys of distinct triples, sampled until there are enough."""
    keys = np.empty(0, dtype=np.int64)
    turn = 0
    while (lacking := num_triples - len(keys)) > 0:
        if turn < _SKEWED_ROUNDS:
            sizes = (num_entities, num_relations, num_entities)
            head, relation, tail = (_sample_skewed(size, lacking, random) for size in sizes)
            new = (head * num_relations + relation) * num_entities + tail
        else:
            # Frequent triples may be used up; at least three quarters of all are still free.
            new = random.integers(num_entities**2 * num_relations, size=lacking)
        keys = sort_unique(np.concatenate((keys, new)))
        turn += 1
    return keys


def _sample_from_all(
    num_entities: int, num_relations: int, num_triples: int, random: np.random.Generator
) -> Ids:
    """Keys of distinct triples, sampled from the list of all triples."""
    end, kind = (
        np.log(np.log1p(1 / np.arange(1, size + 1))) for size in (num_entities, num_relations)
    )
    chance = (end[:, None, None] + kind[:, None] + end).ravel()
    # Gumbel top-k: a weighted sample without replacement.
    score = chance + random.gumbel(size=len(chance))
    return np.argpartition(score, len(score) - num_triples)[len(score) - num_triples :]


def _sample_skewed(size: int, count: int, random: np.random.Generator) -> Ids:
    """Numbers from 0, uniform on a logarithmic scale."""
    drawn = np.exp(random.random(count) * np.log(size + 1)).astype(np.int64) - 1
    return np.minimum(drawn, size - 1)


def _names(letter: str, count: int) -> list[str]:
    width = len(str(count - 1))
    return [f"{letter}{number:0{width}}" for number in range(count)]
