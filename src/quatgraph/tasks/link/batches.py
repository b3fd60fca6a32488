"""Batches of queries: each query once an epoch, in an order of each member's own."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quatgraph.data.link import Queries
from quatgraph.ops import Positives
from quatgraph.ops.random import BATCHES, TRIPLES, epoch_draws, random_order


class Batch(NamedTuple):
    """The data of a training step."""

    rows: Tensor
    """Rows of the queries, ``(M, B)``; see :func:`look_up`."""
    triples: Tensor | None = None
    """Training triples whose relation is predicted, ``(M, T)``; rows of :func:`expand_triples`."""


class QueryBatches:
    """Every epoch sees each query once; its last batch may be smaller. Everything stays on the
    device, and nothing waits for it.

    A batch holds the row of each query; the lists of tails are never copied.

    Args:
        with_triples: Whether batches have training triples too: equally many, in an order of their
            own, so that an epoch sees each once (a few twice, if they do not divide evenly).
    """

    max_loaded = 8
    draws_late = False

    def __init__(
        self, queries: Queries, batch_size: int, seeds: Sequence[int], with_triples: bool = False
    ) -> None:
        count, device = len(queries), queries.pairs.device
        self.starts = range(0, count, batch_size)
        self.sizes = [min(batch_size, count - start) for start in self.starts]
        self.seeds = torch.tensor(seeds, device=device)
        self.order = torch.zeros(len(seeds), count, dtype=torch.int64, device=device)
        # One buffer for each size of a batch.
        largest = {size: self.order[:, : size * self.max_loaded] for size in self.sizes}
        self.buffers = {size: torch.zeros_like(rows) for size, rows in largest.items()}
        self.num_triples = len(queries.tails) if with_triples else 0
        self.triples_per_step = -(-self.num_triples // max(1, len(self.sizes)))
        self.triples = self.order.new_zeros(len(seeds), self.max_loaded * self.triples_per_step)

    def draw(self, epoch: int) -> Sequence[Hashable]:
        draws = epoch_draws(self.seeds, epoch)
        self.order = random_order(draws, BATCHES, self.order.size(1))
        if self.num_triples:
            order = random_order(draws, TRIPLES, self.num_triples)
            lacking = self.triples_per_step * len(self.sizes) - self.num_triples
            self.triple_order = torch.cat((order, order[:, :lacking]), dim=1)
        return self.sizes

    def load(self, step: int, count: int = 1) -> Sequence[Batch]:
        size, start = self.sizes[step], self.starts[step]
        rows = self.buffers[size][:, : count * size]
        rows.copy_(self.order[:, start : start + count * size])
        batches = rows.split(size, dim=1)
        if not self.num_triples:
            return [Batch(own) for own in batches]
        size = self.triples_per_step
        triples = self.triples[:, : count * size]
        triples.copy_(self.triple_order[:, step * size : (step + count) * size])
        return [Batch(*both) for both in zip(batches, triples.split(size, dim=1), strict=True)]


def look_up(queries: Queries, rows: Tensor) -> tuple[Tensor, Tensor, Positives]:
    """Looks up a batch: heads and relations, each ``(M, B)``, and the true tails."""
    pairs = queries.pairs.index_select(0, rows.flatten()).view(*rows.shape, 2)
    head, relation = pairs.unbind(-1)
    return head, relation, Positives(queries.ptr, queries.tails, rows)


def expand_triples(queries: Queries) -> Tensor:
    """The head, relation and tail of every training triple, ``(P, 3)``, with inverse ones if
    queries have them."""
    pairs = queries.pairs.repeat_interleave(queries.ptr.diff(), dim=0)
    return torch.cat((pairs, queries.tails[:, None]), dim=1)
