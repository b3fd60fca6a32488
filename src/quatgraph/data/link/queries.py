"""Queries to a knowledge graph: the tails of a head and a relation.

A query for heads is one for tails of the inverse relation: with R relations, the inverse of ``r``
is ``r + R``.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.edges import sort_unique
from quatgraph.data.io.numbers import Ids
from quatgraph.data.link.parts import check_size
from quatgraph.data.link.triples import Triples
from quatgraph.data.tensors import select_ranges
from quatgraph.errors import UserError


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """Pairs of a head and a relation with their known tails, as CSR.

    Attributes:
        pairs: Head and relation of each query, ``(Q, 2)`` int64.
        ptr: Offset of the first tail of each query, then the number of tails, ``(Q + 1,)`` int64.
        tails: The tails, sorted within a query, each once, ``(P,)`` int64.
        num_entities: Number of entities.
        num_relations: Number of relations, including inverses.
    """

    pairs: Tensor
    ptr: Tensor
    tails: Tensor
    num_entities: int
    num_relations: int

    def __len__(self) -> int:
        return len(self.pairs)

    def select(self, pairs: Tensor) -> "Queries":
        """The queries for given pairs ``(K, 2)``, in their order; an unknown pair has no tails.

        Requires queries sorted by pair, as :func:`queries` returns them.
        """
        _check_range(pairs, (self.num_entities, self.num_relations))
        keys, wanted = (_pair_keys(some, self.num_relations) for some in (self.pairs, pairs))
        row = np.searchsorted(keys, wanted)
        row[np.append(keys, -1)[row] != wanted] = len(keys)
        # The tails of an unknown pair are one more range, an empty one.
        ranges = torch.cat((self.ptr, self.ptr[-1:]))
        index, ptr = select_ranges(ranges, torch.from_numpy(row))
        return replace(self, pairs=pairs, ptr=ptr, tails=self.tails[index])


def queries(
    triples: Tensor, num_entities: int, num_relations: int, reciprocal: bool = True
) -> Queries:
    """All pairs of head and relation of triples ``(N, 3)``, sorted, with their tails.

    Args:
        num_relations: Number of relations without inverses.
        reciprocal: Whether to add queries for heads, as tails of inverse relations.

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
    key = sort_unique(_pair_keys(triples, num_relations) * num_entities + tail)
    pair, tail = np.divmod(key, max(num_entities, 1))
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    return Queries(
        pairs=torch.from_numpy(np.stack(np.divmod(pair[first], max(num_relations, 1)), axis=1)),
        ptr=torch.from_numpy(np.append(first, len(key))),
        tails=torch.from_numpy(tail),
        num_entities=num_entities,
        num_relations=num_relations,
    )


def with_inverses(triples: Tensor, num_relations: int) -> Tensor:
    """Triples ``(N, 3)``, then the same from tail to head: queries for tails and for heads.

    The first two columns are queries, the last one their target.
    """
    head, relation, tail = triples.unbind(1)
    inverse = torch.stack((tail, relation + num_relations, head), dim=1)
    return torch.cat((triples, inverse))


def known(triples: Triples) -> Queries:
    """The queries of train, valid and test together, for tails and for heads."""
    whole = torch.cat((triples.train, triples.valid, triples.test))
    return queries(whole, triples.num_entities, triples.num_relations)


def _pair_keys(pairs: Tensor, num_relations: int) -> Ids:
    return (pairs[:, 0] * num_relations + pairs[:, 1]).numpy()


def _check_range(rows: Tensor, sizes: tuple[int, ...]) -> None:
    """Refuses indices of unknown entities or relations."""
    if rows.dtype != torch.int64 or rows.dim() != 2 or rows.size(1) != len(sizes):
        raise UserError(
            f"triples and queries must be int64 with {len(sizes)} columns, "
            f"got {rows.dtype} of shape {tuple(rows.shape)}"
        )
    for column, size in enumerate(sizes):
        found = rows[:, column]
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < size:
            wrong = found[(found < 0) | (found >= size)][0]
            kind = "relation" if column == 1 else "entity"
            raise UserError(f"there is no {kind} {int(wrong)}, only 0..{size - 1}; correct it")
