"""Knowledge graphs of any size, made up, for tests of speed."""

import numpy as np

from quatgraph.data.io.distinct import Ids
from quatgraph.data.link.parts import Part, Parts, check_size
from quatgraph.data.link.split import draw_parts
from quatgraph.data.link.triples import Triples, assemble
from quatgraph.errors import Mistake

_SKEWED_ROUNDS = 8


def random_triples(
    num_entities: int, num_relations: int, num_triples: int, seed: int = 0
) -> Triples:
    """A graph in which few entities and relations have most of the triples, as in real ones.

    The k-th most frequent entity, and relation, is drawn in proportion to ``log(1 + 1 / k)``,
    nearly ``1 / k``, as Zipf's law has it. Triples are distinct; valid and test are drawn out of
    them, see :func:`quatgraph.data.link.split.draw_parts`.

    Args:
        num_entities: Entities; some may be in no triple.
        num_relations: Relations, likewise.
        num_triples: Triples of all parts together.
        seed: Zero or more; the same seed gives the same graph.

    Example:
        >>> random_triples(100, 5, 1000)
        Triples('random', 100 entities, 5 relations, 900 + 50 + 50 triples)
    """
    check_size(num_entities, num_relations)
    if min(num_entities, num_relations, num_triples) < 1:
        raise Mistake("a graph needs at least one entity, one relation and one triple")
    if seed < 0:
        raise Mistake(f"a seed must be 0 or more, got {seed}")
    possible = num_entities**2 * num_relations
    if num_triples > possible:
        raise Mistake(
            f"{num_entities} entities and {num_relations} relations make at most {possible:,} "
            f"triples, not {num_triples:,}; ask for fewer"
        )
    random = np.random.default_rng(seed)
    draw = _all_at_once if possible <= 4 * num_triples else _by_and_by
    key = random.permutation(draw(num_entities, num_relations, num_triples, random))
    pair, tail = np.divmod(key, num_entities)
    head, relation = np.divmod(pair, num_relations)
    # Each entity's frequency has nothing to do with its number.
    place = random.permutation(num_entities)
    triples = np.stack((place[head], relation, place[tail]), axis=1)
    whole = Part("the graph", triples, np.arange(1, num_triples + 1))
    parts = Parts({"train": whole}, _names("e", num_entities), _names("r", num_relations))
    return assemble(draw_parts(parts, seed, []), name="random")


def _by_and_by(
    num_entities: int, num_relations: int, num_triples: int, random: np.random.Generator
) -> Ids:
    """Keys of distinct triples, drawn until there are enough."""
    keys = np.empty(0, dtype=np.int64)
    turn = 0
    while (lacking := num_triples - len(keys)) > 0:
        if turn < _SKEWED_ROUNDS:
            sizes = (num_entities, num_relations, num_entities)
            head, relation, tail = (_skewed(size, lacking, random) for size in sizes)
            new = (head * num_relations + relation) * num_entities + tail
        else:
            # What is frequent may be used up; at least three of four triples are still free.
            new = random.integers(num_entities**2 * num_relations, size=lacking)
        keys = np.sort(np.concatenate((keys, new)))
        keys = keys[np.diff(keys, prepend=-1) != 0]
        turn += 1
    return keys


def _all_at_once(
    num_entities: int, num_relations: int, num_triples: int, random: np.random.Generator
) -> Ids:
    """Keys of distinct triples out of a list of all that there can be."""
    end, kind = (
        np.log(np.log1p(1 / np.arange(1, size + 1))) for size in (num_entities, num_relations)
    )
    chance = (end[:, None, None] + kind[:, None] + end).ravel()
    # The largest of these are a weighted draw without repetition.
    score = chance + random.gumbel(size=len(chance))
    return np.argpartition(score, len(score) - num_triples)[len(score) - num_triples :]


def _skewed(size: int, count: int, random: np.random.Generator) -> Ids:
    """Numbers from 0, small ones often: evenly spread on a logarithmic scale."""
    drawn = np.exp(random.random(count) * np.log(size + 1)).astype(np.int64) - 1
    return np.minimum(drawn, size - 1)


def _names(letter: str, count: int) -> list[str]:
    width = len(str(count - 1))
    return [f"{letter}{number:0{width}}" for number in range(count)]
