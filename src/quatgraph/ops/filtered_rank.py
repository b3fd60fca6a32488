r"""The filtered rank of each query's true entity among all entities, without sorting.

.. math::
    s_{be} = \langle \mathbf{q}_b, \mathbf{x}_e \rangle, \qquad
    g_b = \sum_{e \in \mathcal{R}_b} [\,\neg (s_{be} \le s_{b t_b})\,], \qquad
    n_b = \sum_{e \in \mathcal{R}_b} [\,s_{be} = s_{b t_b}\,]

The rivals :math:`\mathcal{R}_b` are all entities but the truth :math:`t_b` and the other known
positives of the query: :math:`g_b` of them are greater and :math:`n_b` equal. "Not at most" is
"greater" but for NaN, which so never helps: a rival of score NaN is ahead of every truth, and a
truth of score NaN is behind all its rivals.

A tile holds the scores of some queries, each with all entities. All that is said of a query is read
from its own tile, the scores of its truth and of its known positives too: no score is computed
twice, so none is rounded in two ways. The sums run over all entities, which needs no mask, and what
the truth and the known positives gave to them is taken off again.

Shapes: B queries, E entities, D features, K known positives of all queries; M members of an
ensemble, as a leading dimension of queries and candidates. All of them depend on the inputs' shapes
alone, and nothing waits for a GPU. There each tile looks through all known positives for its own,
as a slice would need to know the pointers: a few large tiles are better than many small ones.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from quatgraph.ops.csr import wide

_CPU_TILE, _CUDA_TILE = 1 << 21, 1 << 27  # numbers: what stays in a cache, what fills a GPU
_LARGEST_COUNT = 1 << 24  # float32 holds all whole numbers up to this one


class Ranks(NamedTuple):
    """How many rivals are ahead of each truth, and how many are level with it.

    It is a pytree of tensors.

    Attributes:
        greater: Rivals with a greater score, or NaN, int64 ``(..., B)``.
        equal: Rivals with the same score, int64 ``(..., B)``.

    Example:
        >>> ranks = Ranks(greater=torch.tensor([2]), equal=torch.tensor([3]))
        >>> ranks.optimistic.item(), ranks.realistic.item(), ranks.pessimistic.item()
        (3, 4.5, 6)
    """

    greater: Tensor
    equal: Tensor

    @property
    def optimistic(self) -> Tensor:
        """The rank if the truth came first among its equals, int64."""
        return 1 + self.greater

    @property
    def pessimistic(self) -> Tensor:
        """The rank if the truth came last among its equals, int64."""
        return 1 + self.greater + self.equal

    @property
    def realistic(self) -> Tensor:
        """The expected rank if equals are put in random order, float64."""
        return 1 + self.greater + self.equal.double() / 2


@torch.no_grad()
def filtered_rank(
    q: Tensor,
    x: Tensor,
    truth: Tensor,
    pointers: Tensor,
    known: Tensor,
    *,
    max_numbers: int | None = None,
) -> Ranks:
    """Ranks the true entity of each query among all that are no other known positives of it.

    Args:
        q: The queries' vectors.
        x: The candidates' vectors.
        truth: The true entity of each query.
        pointers: Where the known positives of each query begin; what stands in ``known`` from the
            last pointer on is padding.
        known: The known positives, sorted within a query or each there once. The truth may be
            among them or not. A number that names no entity is padding.
        max_numbers: Scores to hold at once (besides as many numbers to count with), but at least
            those of one query; by default what suits the device.

    Shape:
        - q: ``(B, D)``; of several members ``(M, B, D)``
        - x: ``(E, D)``; of several members ``(M, E, D)``
        - truth: ``(B,)``, the same for all members
        - pointers: ``(B + 1,)``
        - known: ``(K,)``
        - output: both counts ``(B,)``; of several members ``(M, B)``

    Example:
        >>> scores = torch.tensor([[3.0, 1.0, 2.0, 1.0]])
        >>> known = torch.tensor([0, 1])  # so the 3 is no rival of entity 1, but 2 and 1 are
        >>> filtered_rank(scores, torch.eye(4), torch.tensor([1]), torch.tensor([0, 2]), known)
        Ranks(greater=tensor([1]), equal=tensor([1]))
    """
    if max_numbers is None:
        max_numbers = _CUDA_TILE if q.is_cuda else _CPU_TILE
    shape, entities = q.shape[:-1], x.size(-2)
    # Scores of half precision would be rounded, which makes many of them equal.
    q, x = (wide(value)[None].flatten(0, -3) for value in (q, x))
    greater, equal = (truth.new_zeros(q.shape[:2], dtype=torch.int64) for _ in range(2))
    if greater.numel():
        excluded = _excluded(truth, pointers, known, entities)
        step, rows = _tile_shape(q.size(0), q.size(1), entities, max_numbers)
        with torch.autocast(q.device.type, enabled=False):  # would round the scores
            for first in range(0, q.size(0), step):
                some = slice(first, first + step)
                greater[some], equal[some] = _count_members(q[some], x[some], truth, excluded, rows)
    return Ranks(greater.view(shape), equal.view(shape))


class _Excluded(NamedTuple):
    """The known positives that a sum over all entities counts, but should not.

    Attributes:
        pointers: ``(B + 1,)``
        owner: The query of each, ``(K,)``.
        place: Where its score is in the scores of all queries laid end to end, ``(K,)``; -1 for the
            truth itself, which is taken off by itself, for padding and for repetitions.
    """

    pointers: Tensor
    owner: Tensor
    place: Tensor


def _excluded(truth: Tensor, pointers: Tensor, known: Tensor, entities: int) -> _Excluded:
    queries, entries = truth.numel(), known.numel()
    # How many queries end at or before an entry; whole numbers, so the order of adding is all one.
    ends = torch.zeros(entries + 1, dtype=torch.int32, device=known.device)
    ends.index_add_(0, pointers[1:], torch.ones_like(pointers[1:], dtype=torch.int32))
    owner = ends[:-1].cumsum(0, dtype=torch.int32).clamp(max=queries - 1)
    counted = (known >= 0) & (known < entities)
    counted &= known != truth.index_select(0, owner)
    counted[1:] &= (known[1:] != known[:-1]) | (owner[1:] != owner[:-1])
    return _Excluded(pointers, owner, torch.where(counted, owner.long() * entities + known, -1))


def _count_members(
    q: Tensor, x: Tensor, truth: Tensor, excluded: _Excluded, rows: int
) -> tuple[Tensor, Tensor]:
    """The counts of a few members, each ``(m, B)``, by tiles of so many queries."""
    starts = range(0, q.size(1), rows)
    windows = _windows(excluded.pointers, starts)
    parts = []
    found = q.new_empty(q.size(0), excluded.place.numel())
    for start, window in zip(starts, windows, strict=True):
        some = slice(start, start + rows)
        place = excluded.place[window] - start * x.size(1)
        scores = torch.bmm(q[:, some], x.mT)
        parts.append(_count_tile(scores, truth[some], place, found[:, window]))
        del scores  # before the next tile is made
    own, greater, equal = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    own = own.index_select(1, excluded.owner)
    ahead, level = ~(found <= own), found == own
    for whole, flags in ((greater, ahead), (equal, level)):
        whole -= _sum_queries(flags & (excluded.place >= 0), excluded.pointers)
    return greater, equal


def _count_tile(
    scores: Tensor, truth: Tensor, place: Tensor, found: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The truth's score and both counts, over all entities but the truth, of a tile's queries.

    Args:
        scores: ``(m, b, E)``
        truth: ``(b,)``
        place: Places within the tile, or outside of it, ``(k,)``.
        found: Gets the scores at those places that are within, ``(m, k)``.
    """
    members, queries, entities = scores.shape
    own = scores.gather(2, truth.long().expand(members, queries).unsqueeze(2))
    within = place.clamp(0, queries * entities - 1)
    values = scores.flatten(1).index_select(1, within)
    found.copy_(torch.where(within == place, values, found))
    room = torch.empty_like(scores)
    up_to = _count(torch.le, scores, own, room)
    below = _count(torch.lt, scores, own, room)
    own = own.squeeze(2)
    lost = own.isnan().int()  # then the truth is not at most itself, else it is its own equal
    return own, entities - up_to - lost, up_to - below - (1 - lost)


def _count(compare: Callable[..., Tensor], scores: Tensor, own: Tensor, room: Tensor) -> Tensor:
    """For how many entities the comparison holds, ``(m, b)``.

    The answers are written as numbers of the scores' own type, as torch would first make integers
    of bools to sum them.
    """
    wide = torch.float64 if scores.size(-1) > _LARGEST_COUNT else None
    return compare(scores, own, out=room).sum(dim=-1, dtype=wide).int()


def _sum_queries(flags: Tensor, pointers: Tensor) -> Tensor:
    """How many flags of each query are set, ``(m, K) -> (m, B)``."""
    total = torch.zeros(flags.size(0), flags.size(1) + 1, dtype=torch.int32, device=flags.device)
    total[:, 1:] = flags.cumsum(1, dtype=torch.int32)
    return total.index_select(1, pointers).diff(dim=1)


def _windows(pointers: Tensor, starts: range) -> list[slice]:
    """Which known positives each tile must look at: on a GPU all, as a slice would wait for it."""
    if pointers.is_cuda:
        return [slice(None)] * len(starts)
    edges = [*pointers[starts.start : -1 : starts.step].tolist(), int(pointers[-1])]
    return [slice(*edge) for edge in pairwise(edges)]


def _tile_shape(members: int, queries: int, entities: int, max_numbers: int) -> tuple[int, int]:
    """How many members and how many queries a tile has.

    Members are parted first: a GPU's tile of some queries looks through all known positives for
    each of its members.
    """
    step = min(members, max(1, max_numbers // (queries * entities)))
    most = max(1, max_numbers // (step * entities))
    tiles = -(-queries // most)
    return step, -(-queries // tiles)
