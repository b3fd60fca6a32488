"""The best candidates of queries and their filtered ranks."""

import torch
from torch import Tensor


def top_candidates(
    scores: Tensor, known: Tensor, top: int, only_new: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The entities with the best scores, and their filtered ranks.

    A rank is one more than the rivals ahead, and half of those level; rivals are all entities that
    are not known to complete the triple.

    Args:
        scores: Of all entities for each query.
        known: Which entities are known to complete the triple.
        top: Number of entities to return, K; fewer if there are fewer.
        only_new: Whether known entities come last, instead of where their score puts them.

    Shape:
        - scores, known: ``(Q, E)``
        - output: entities, their scores, their ranks, and whether they are new, ``(Q, K)`` each

    Example:
        >>> scores = torch.tensor([[3.0, 1.0, 2.0, 1.0]])
        >>> known = torch.tensor([[True, False, False, False]])
        >>> entities, _, ranks, _ = top_candidates(scores, known, top=3)
        >>> entities[0, :2].tolist(), ranks.tolist()
        ([0, 2], [[1.0, 1.0, 2.5]])
    """
    top = min(top, scores.size(1))
    rivals = scores.masked_fill(known, -torch.inf)
    entities = (rivals if only_new else scores).topk(top).indices
    best, new = scores.gather(1, entities), ~known.gather(1, entities)
    # A rival that is ahead of one of the first K is one of the first K rivals.
    first = rivals.topk(top).values.flip(1)
    ahead = top - torch.searchsorted(first, best, right=True)
    level = top - torch.searchsorted(first, best) - ahead
    # Of those level with the last of them there may be more.
    last = first[:, :1]
    level = torch.where(best == last, (rivals == last).sum(dim=1, keepdim=True), level)
    ranks = 1 + ahead + (level - new.long()).double() / 2
    # Of equal scores, a known entity has more rivals level with it than a new one.
    order = ranks.argsort(dim=1, stable=True)
    entities, best, ranks, new = (one.gather(1, order) for one in (entities, best, ranks, new))
    return entities, best, ranks, new
