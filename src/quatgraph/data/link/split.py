"""Valid and test splits whose entities and relations are all in the training split."""

from dataclasses import replace

import numpy as np

from quatgraph.data.io.numbers import Ids
from quatgraph.data.link.parts import Part, Parts
from quatgraph.data.splits import PARTS
from quatgraph.errors import Mistake

SHARE = 0.05
"""Share of all triples that valid and test get, each."""


def draw_parts(parts: Parts, seed: int) -> Parts:
    """Draws missing valid and test splits from the training triples, in their order; adds a note.

    Each gets :data:`SHARE` of them, at least one, or fewer if fewer are spare, see
    :func:`spare_triples`.
    """
    if seed < 0:
        raise Mistake(f"the seed of a split must be 0 or more, got {seed}")
    missing = [key for key in PARTS if key not in parts.by_name]
    if not missing:
        return parts
    train = parts.by_name["train"]
    spare = spare_triples(train.triples, seed)
    wanted = max(1, int(len(train) * SHARE + 0.5))
    drawn: dict[str, Part] = {}
    left = np.ones(len(train), dtype=bool)
    for turn, key in enumerate(missing):
        # The splits share the spare triples if there are too few.
        fair = -(-len(spare) // (len(missing) - turn))
        rows, spare = np.split(spare, [min(wanted, fair)])
        drawn[key] = train.take(np.sort(rows))
        left[rows] = False
    sizes = " and ".join(f"{len(part):,} for {key}" for key, part in drawn.items())
    parts.notes.append(f"of the triples of {train.where} {sizes} were put aside, by seed {seed}")
    return replace(parts, by_name={**parts.by_name, "train": train.take(left), **drawn})


def spare_triples(triples: Ids, seed: int) -> Ids:
    """Indices of triples, shuffled, that can be removed together without losing an entity or a
    relation: in a random order, a triple that is the first to name one stays.

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
