"""Parts of a knowledge graph, drawn so that nothing in them is new to the training part."""

import numpy as np

from quatgraph.data.io.distinct import Ids
from quatgraph.data.link.parts import Parts
from quatgraph.data.splits import PARTS

SHARE = 0.05
"""Of valid and of test, each: how much of all triples is drawn."""


def draw_parts(parts: Parts, seed: int, notes: list[str]) -> Parts:
    """Draws what is missing of valid and test out of the training triples.

    Each gets :data:`SHARE` of them, at least one, or less where less can be spared, see
    :func:`spare_triples`. The order of the triples stays.

    Args:
        parts: With ``"train"``.
        seed: Zero or more; the same seed gives the same parts.
        notes: What was drawn is told here.
    """
    missing = [key for key in PARTS if key not in parts.by_name]
    if not missing:
        return parts
    train = parts.by_name["train"]
    spare = spare_triples(train.triples, seed)
    wanted = max(1, int(len(train) * SHARE + 0.5))
    drawn: dict[str, Ids] = {}
    left = np.ones(len(train), dtype=bool)
    for turn, key in enumerate(missing):
        # Where too few can be spared, the parts share them.
        fair = -(-len(spare) // (len(missing) - turn))
        drawn[key], spare = np.split(spare, [min(wanted, fair)])
        left[drawn[key]] = False
    by_name = {key: train.take(np.sort(rows)) for key, rows in drawn.items()}
    sizes = " and ".join(f"{len(rows):,} for {key}" for key, rows in drawn.items())
    notes.append(f"of the triples of {train.where} {sizes} were put aside, by seed {seed}")
    return Parts(
        {**parts.by_name, "train": train.take(left), **by_name}, parts.entities, parts.relations
    )


def spare_triples(triples: Ids, seed: int) -> Ids:
    """Places of triples that may go, all together, with no entity or relation lost; shuffled.

    In a random order, a triple that is the first to name an entity or a relation stays.

    Shape:
        - triples: ``(N, 3)``

    Example:
        >>> len(spare_triples(np.array([[0, 0, 1], [1, 0, 0], [1, 0, 2]]), seed=0))
        1
    """
    order = np.random.default_rng(seed).permutation(len(triples))
    shuffled = triples[order]
    stays = np.zeros(len(triples), dtype=bool)
    for columns in ([0, 2], [1]):
        names = shuffled[:, columns]
        first = np.full(names.max(initial=-1) + 1, len(triples))
        for column in names.T:
            np.minimum.at(first, column, np.arange(len(triples)))
        stays[first[first < len(triples)]] = True
    return order[~stays]
