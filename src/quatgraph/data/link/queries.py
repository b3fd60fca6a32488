"""Questions to a knowledge graph: which tails follow a head and a relation?

A question for heads is one for tails of the inverse relation: with R relations, the inverse of
``r`` is ``r + R``.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.io.distinct import Ids
from quatgraph.data.link.parts import check_size
from quatgraph.data.link.triples import Triples
from quatgraph.errors import Mistake


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Pairs of a head and a relation, each with the tails known to follow, as CSR.

    Attributes:
        pairs: Head and relation of each query.
        ptr: Offset of the first tail of each query, then the number of tails.
        tails: The tails, sorted within a query, each once.
        num_entities: Entities of the graph, N.
        num_relations: Relations that a query may have; twice those of the graph with inverses.

    Shape:
        - pairs: ``(Q, 2)`` int64
        - ptr: ``(Q + 1,)`` int64
        - tails: ``(P,)`` int64
    """

    pairs: Tensor
    ptr: Tensor
    tails: Tensor
    num_entities: int
    num_relations: int

    def __len__(self) -> int:
        return len(self.pairs)

    def select(self, pairs: Tensor) -> "Queries":
        """The queries for given pairs, in their order; without tails where a pair is not here.

        Only for queries sorted by pair, as :func:`queries` gives them.

        Shape:
            - pairs: ``(K, 2)``
        """
        _check_range(pairs, (self.num_entities, self.num_relations))
        own, asked = (_pair_keys(one, self.num_relations) for one in (self.pairs, pairs))
        place = np.searchsorted(own, asked)
        there = place < len(own)
        there[there] = own[place[there]] == asked[there]
        ptr = self.ptr.numpy()
        sizes, begin = np.zeros(len(asked), dtype=np.int64), np.zeros(len(asked), dtype=np.int64)
        begin[there] = ptr[place[there]]
        sizes[there] = ptr[place[there] + 1] - begin[there]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        places = np.arange(starts[-1]) + np.repeat(begin - starts[:-1], sizes)
        return Queries(
            pairs=pairs,
            ptr=torch.from_numpy(starts),
            tails=self.tails[torch.from_numpy(places)],
            num_entities=self.num_entities,
            num_relations=self.num_relations,
        )


def queries(
    triples: Tensor, num_entities: int, num_relations: int, reciprocal: bool = True
) -> Queries:
    """Every pair of head and relation that has a tail, sorted, with all its tails.

    Args:
        triples: Head, relation and tail of each.
        num_entities: Entities of the graph.
        num_relations: Relations of the graph, without inverses.
        reciprocal: Whether to ask for heads too, as tails of inverse relations.

    Shape:
        - triples: ``(N, 3)``

    Example:
        >>> found = queries(torch.tensor([[0, 0, 2], [0, 0, 1]]), 3, 1)
        >>> found.pairs.tolist(), found.ptr.tolist(), found.tails.tolist()
        ([[0, 0], [1, 1], [2, 1]], [0, 2, 3, 4], [1, 2, 0, 0])
    """
    check_size(num_entities, num_relations)
    _check_range(triples, (num_entities, num_relations, num_entities))
    if reciprocal:
        triples, num_relations = with_inverses(triples, num_relations), 2 * num_relations
    tail = triples[:, 2].numpy()
    key = np.sort(_pair_keys(triples, num_relations) * num_entities + tail)
    key = key[np.diff(key, prepend=-1) != 0]
    pair, tail = np.divmod(key, max(num_entities, 1))
    begin = np.flatnonzero(np.diff(pair, prepend=-1))
    return Queries(
        pairs=torch.from_numpy(np.stack(np.divmod(pair[begin], max(num_relations, 1)), axis=1)),
        ptr=torch.from_numpy(np.append(begin, len(key))),
        tails=torch.from_numpy(tail),
        num_entities=num_entities,
        num_relations=num_relations,
    )


def with_inverses(triples: Tensor, num_relations: int) -> Tensor:
    """Triples, then the same read from tail to head: the questions of both sides.

    The first two columns are the queries, the last what they should answer.

    Shape:
        - triples: ``(N, 3)``
        - output: ``(2N, 3)``
    """
    head, relation, tail = triples.unbind(1)
    turned = torch.stack((tail, relation + num_relations, head), dim=1)
    return torch.cat((triples, turned))


def known(triples: Triples) -> Queries:
    """All that is known of a graph, in train, valid and test, for both sides."""
    whole = torch.cat((triples.train, triples.valid, triples.test))
    return queries(whole, triples.num_entities, triples.num_relations)


def _pair_keys(pairs: Tensor, num_relations: int) -> Ids:
    return (pairs[:, 0] * num_relations + pairs[:, 1]).numpy()


def _check_range(rows: Tensor, sizes: tuple[int, ...]) -> None:
    """Refuses numbers that name no entity or no relation."""
    if rows.dtype != torch.int64 or rows.dim() != 2 or rows.size(1) != len(sizes):
        raise Mistake(
            f"triples and queries must be int64 with {len(sizes)} columns, "
            f"got {rows.dtype} of shape {tuple(rows.shape)}"
        )
    for column, size in enumerate(sizes):
        found = rows[:, column]
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < size:
            wrong = found[(found < 0) | (found >= size)][0]
            kind = "relation" if column == 1 else "entity"
            raise Mistake(f"there is no {kind} {int(wrong)}, only 0..{size - 1}; correct it")
