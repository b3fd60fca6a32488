"""Weighted means by attention and maxima over the neighbours of each node, without atomics."""

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency


def attend(
    adjacency: Adjacency,
    values: Tensor,
    logits: Tensor,
    dropout: nn.Module,
    factors: Tensor | None = None,
) -> Tensor:
    """The mean of the neighbours' vectors, weighted by the softmax over each row's logits.

    Args:
        adjacency: The entries; those with weight 0 are ignored.
        values: ``(N, H, F)``, the vectors of each of H heads.
        logits: ``(E, H)``.
        dropout: Applied to the coefficients.
        factors: ``(E,)``, multiplies coefficients after the softmax.

    Shape:
        - output: ``(N, H, F)``; zero for rows without entries
    """
    logits = logits.masked_fill((adjacency.weight == 0)[:, None], -torch.inf)
    with torch.no_grad():  # against overflow
        shift = _row_maxima(adjacency, logits)
    score = (logits - shift).exp()
    total = adjacency.sum_entries() @ score  # (N, H)
    kept = dropout(score)
    kept = kept if factors is None else kept * factors[:, None]
    summed = torch.vmap(
        lambda weight, x: adjacency.with_weight(weight) @ x, randomness="different"
    )(kept.mT, values.movedim(1, 0))  # (H, N, F)
    return summed.movedim(0, 1) / total.clamp(min=1e-16)[..., None]


def neighbour_max(adjacency: Adjacency, x: Tensor, factors: Tensor | None = None) -> Tensor:
    """The maximum of each number over the neighbours; equal maxima share the gradient, as in torch.

    Args:
        adjacency: The entries; those with weight 0 are ignored.
        x: ``(N, F)``.
        factors: ``(E,)``, multiplies the vectors of senders.

    Shape:
        - output: ``(N, F)``; zero for rows without entries
    """
    messages = adjacency.gather_senders() @ x  # (E, F)
    messages = messages if factors is None else messages * factors[:, None]
    ignored = (adjacency.weight == 0)[:, None]
    sums = adjacency.sum_entries()
    with torch.no_grad():
        found = messages.masked_fill(ignored, -torch.inf)
        chosen = (found == _row_maxima(adjacency, found)).to(x.dtype)
        count = adjacency.gather_receivers() @ (sums @ chosen)
        share = (chosen / count).masked_fill(ignored, 0)
    return sums @ (share * messages)


def _row_maxima(adjacency: Adjacency, values: Tensor) -> Tensor:
    """For each entry and column, the maximum over the entry's row."""
    row = adjacency.receiver.long()[:, None].expand_as(values)
    lowest = values.new_full((adjacency.shape[0], values.size(-1)), torch.finfo(values.dtype).min)
    return lowest.scatter_reduce(0, row, values, reduce="amax").gather(0, row)
