r"""The filtered rank of each query's true entity among all entities, without sorting.

.. math::
    s_{be} = \langle \mathbf{q}_b, \mathbf{x}_e \rangle, \qquad
    g_b = \sum_{e \in \mathcal{R}_b} [\,\neg (s_{be} \le s_{b t_b})\,], \qquad
    n_b = \sum_{e \in \mathcal{R}_b} [\,s_{be} = s_{b t_b}\,]

The rivals :math:`\mathcal{R}_b` are all entities but the truth :math:`t_b` and the other known
positives of the query: :math:`g_b` of them are greater and :math:`n_b` equal. "Not at most" is
"greater" except for NaN, which never helps: a rival of score NaN is ahead of every truth, and a
truth of score NaN is behind all its rivals.

A tile holds the scores of some queries with all entities. The scores of a query's truth and known
positives are read from the same tile: no score is computed twice, so none is rounded in two ways.
The sums run over all entities, which needs no mask; the terms of the truth and of the known
positives are subtracted. Where ranks share out the entities, the truth's score is that of the rank
that has it, and the counts are sums over ranks.

Shapes: B queries, E entities, D features, K known positives of all queries; M members of an
ensemble, as a leading dimension of queries and candidates. All sizes depend on the inputs' shapes
only, so the host never waits for a GPU. There each tile scans all known positives for its own, as a
slice would need the values of ``ptr``: a few large tiles are better than many small ones.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from quatgraph.ops.csr import wide
from quatgraph.ops.members import flatten_members
from quatgraph.ops.shards import Shards

_CPU_TILE, _CUDA_TILE = 1 << 21, 1 << 27  # scores that fit into a cache, or fill a GPU
_LARGEST_COUNT = 1 << 24  # float32 represents all integers up to this one


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
        """The rank if the truth comes first among its equals, int64."""
        return 1 + self.greater

    @property
    def pessimistic(self) -> Tensor:
        """The rank if the truth comes last among its equals, int64."""
        return 1 + self.greater + self.equal

    @property
    def realistic(self) -> Tensor:
        """The expected rank if equals are ordered randomly, float64."""
        return 1 + self.greater + self.equal.double() / 2


@torch.no_grad()
def filtered_rank(
    q: Tensor,
    x: Tensor,
    truth: Tensor,
    ptr: Tensor,
    known: Tensor,
    *,
    max_numbers: int | None = None,
    shards: Shards | None = None,
) -> Ranks:
    """Ranks the true entity of each query among all entities that are not known positives of it.

    Args:
        q: The queries' vectors.
        x: The candidates' vectors.
        truth: The true entity of each query.
        ptr: The boundaries of each query's known positives; what follows the last one in
            ``known`` is padding.
        known: The known positives, sorted or distinct within a query. They may contain the truth.
            An index out of range is padding.
        max_numbers: Scores to hold at once (besides a buffer of the same size), but at least
            those of one query; by default it depends on the device.
        shards: Which of all candidates these are, if ranks share them out; indices are of all.

    Shape:
        - q: ``(B, D)``; of several members ``(M, B, D)``
        - x: ``(E, D)``; of several members ``(M, E, D)``
        - truth: ``(B,)``, the same for all members
        - ptr: ``(B + 1,)``
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
    shape, entities, widest = q.shape[:-1], x.size(-2), x.size(-2)
    if shards:  # ranks take equal tiles
        truth, known, widest = truth - shards.first, known - shards.first, shards.largest
    # In half precision many scores would be rounded to the same value.
    q, x = (flatten_members(wide(value), 2) for value in (q, x))
    greater, equal = (truth.new_zeros(q.shape[:2], dtype=torch.int64) for _ in range(2))
    if greater.numel():
        query, position = _excluded(truth, ptr, known, entities)
        step, rows = _tile_shape(q.size(0), q.size(1), widest, max_numbers)
        with torch.autocast(q.device.type, enabled=False):  # it would round the scores
            for first in range(0, q.size(0), step):
                some = slice(first, first + step)
                greater[some], equal[some] = _count_members(
                    q[some], x[some], truth, ptr, query, position, rows, shards
                )
        if shards:
            greater, equal = shards.sum_(greater), shards.sum_(equal)
    return Ranks(greater.view(shape), equal.view(shape))


def _excluded(truth: Tensor, ptr: Tensor, known: Tensor, entities: int) -> tuple[Tensor, Tensor]:
    """The query of each known positive, ``(K,)``, and the position of its score in the flat scores
    of all queries, ``(K,)``; -1 for the truth, which is subtracted separately, for padding and for
    duplicates."""
    queries, entries = truth.numel(), known.numel()
    # The number of queries that end at or before an entry; integer sums do not depend on the order.
    ends = torch.zeros(entries + 1, dtype=torch.int32, device=known.device)
    ends.index_add_(0, ptr[1:], torch.ones_like(ptr[1:], dtype=torch.int32))
    query = ends[:-1].cumsum(0, dtype=torch.int32).clamp(max=queries - 1)
    counted = (known >= 0) & (known < entities)
    counted &= known != truth.index_select(0, query)
    counted[1:] &= (known[1:] != known[:-1]) | (query[1:] != query[:-1])
    return query, torch.where(counted, query.long() * entities + known, -1)


def _count_members(
    q: Tensor,
    x: Tensor,
    truth: Tensor,
    ptr: Tensor,
    query: Tensor,
    position: Tensor,
    rows: int,
    shards: Shards | None,
) -> tuple[Tensor, Tensor]:
    """The counts of a few members, each ``(m, B)``, by tiles of ``rows`` queries."""
    firsts = range(0, q.size(1), rows)
    parts = []
    found = q.new_empty(q.size(0), position.numel())
    for first, window in zip(firsts, _windows(ptr, firsts), strict=True):
        some = slice(first, first + rows)
        within = position[window] - first * x.size(1)
        scores = torch.bmm(q[:, some], x.mT)
        parts.append(_count_tile(scores, truth[some], within, found[:, window], shards))
        del scores  # frees memory before the next tile
    own, greater, equal = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))
    own = own.index_select(1, query)
    ahead, level = ~(found <= own), found == own
    for whole, flags in ((greater, ahead), (equal, level)):
        whole -= _sum_queries(flags & (position >= 0), ptr)
    return greater, equal


def _count_tile(
    scores: Tensor, truth: Tensor, position: Tensor, found: Tensor, shards: Shards | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The truth's score and both counts over all other entities, of a tile's queries.

    Args:
        scores: ``(m, b, E)``
        truth: ``(b,)``; out of range if another rank has it
        position: Positions relative to the tile, within or outside it, ``(k,)``.
        found: Output for the scores at positions within the tile, ``(m, k)``.
    """
    members, queries, entities = scores.shape
    here = (truth >= 0) & (truth < entities)
    at = truth.long().clamp(0, entities - 1)
    own = scores.gather(2, at.expand(members, queries).unsqueeze(2))
    if shards:
        own = shards.sum_(torch.where(here[:, None], own, 0))
    within = position.clamp(0, queries * entities - 1)
    values = scores.flatten(1).index_select(1, within)
    found.copy_(torch.where(within == position, values, found))
    buffer = torch.empty_like(scores)
    up_to = _count(torch.le, scores, own, buffer)
    below = _count(torch.lt, scores, own, buffer)
    own = own.squeeze(2)
    lost = own.isnan()  # a NaN truth is not at most itself; any other equals itself
    return own, entities - up_to - (here & lost).int(), up_to - below - (here & ~lost).int()


def _count(compare: Callable[..., Tensor], scores: Tensor, own: Tensor, buffer: Tensor) -> Tensor:
    """For how many entities the comparison holds, ``(m, b)``.

    The comparison is written in the scores' type, as torch would convert bools to integers first.
    """
    wide = torch.float64 if scores.size(-1) > _LARGEST_COUNT else None
    return compare(scores, own, out=buffer).sum(dim=-1, dtype=wide).int()


def _sum_queries(flags: Tensor, ptr: Tensor) -> Tensor:
    """The number of set flags of each query, ``(m, K) -> (m, B)``."""
    total = torch.zeros(flags.size(0), flags.size(1) + 1, dtype=torch.int32, device=flags.device)
    total[:, 1:] = flags.cumsum(1, dtype=torch.int32)
    return total.index_select(1, ptr).diff(dim=1)


def _windows(ptr: Tensor, firsts: range) -> list[slice]:
    """The known positives that each tile scans: on a GPU all, as a slice would synchronise."""
    if ptr.is_cuda:
        return [slice(None)] * len(firsts)
    edges = [*ptr[firsts.start : -1 : firsts.step].tolist(), int(ptr[-1])]
    return [slice(*edge) for edge in pairwise(edges)]


def _tile_shape(members: int, queries: int, entities: int, max_numbers: int) -> tuple[int, int]:
    """The members and queries of a tile.

    Members are split first: a GPU's tile scans all known positives for each of its members.
    """
    step = min(members, max(1, max_numbers // (queries * entities)))
    most = max(1, max_numbers // (step * entities))
    tiles = -(-queries // most)
    return step, -(-queries // tiles)
