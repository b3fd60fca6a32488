"""Weighted means by attention and maxima over the neighbours of each node. All of them and their
gradients repeat bit for bit."""

from collections.abc import Callable

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency


def attend(
    adjacency: Adjacency,
    values: Tensor,
    logits: Tensor,
    dropout: Callable[[Tensor], Tensor],
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
        row, lowest = _rows_like(adjacency, logits), torch.finfo(logits.dtype).min
        shift = _row_max(adjacency, logits, row, lowest).gather(0, row)
    score = (logits - shift).exp()
    total = adjacency.sum_entries() @ score  # (N, H)
    kept = dropout(score)
    kept = kept if factors is None else kept * factors[:, None]
    weights, vectors = kept.mT, values.movedim(1, 0)

    def add_up(weight: Tensor, x: Tensor) -> Tensor:
        return adjacency.with_weight(weight) @ x

    if torch.compiler.is_compiling():  # which cannot trace the kernel within vmap
        heads = zip(weights.contiguous().unbind(), vectors.contiguous().unbind(), strict=True)
        summed = torch.stack([add_up(weight, x) for weight, x in heads])
    else:
        summed = torch.vmap(add_up, randomness="different")(weights, vectors)  # (H, N, F)
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
    messages = messages.masked_fill((adjacency.weight == 0)[:, None], -torch.inf)
    peak = _row_max(adjacency, messages, _rows_like(adjacency, messages), -torch.inf)
    return peak.masked_fill(peak == -torch.inf, 0)


def _rows_like(adjacency: Adjacency, values: Tensor) -> Tensor:
    """The row of each entry, for each column of values ``(E, F)``."""
    return adjacency.receiver.long()[:, None].expand_as(values)


def _row_max(adjacency: Adjacency, values: Tensor, row: Tensor, lowest: float) -> Tensor:
    """The maximum of ``lowest`` and the values of each row, ``(E, F) -> (R, F)``. No order of
    entries changes it, or how often a maximum occurs, so it and its gradient repeat bit for bit."""
    start = values.new_full((adjacency.shape[0], values.size(-1)), lowest)
    return start.scatter_reduce(0, row, values, reduce="amax")
