"""Batches of queries: each query once an epoch, in an order of each member's own."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from quatgraph.data.link import Queries
from quatgraph.ops.positives import Positives
from quatgraph.ops.random import BATCHES, epoch_draws, random_order


class QueryBatches:
    """An epoch is as many steps as the queries fill; the last may be a shorter one, which is a
    shape of its own. Everything stays on the device, and nothing waits for it.

    A batch is a number for each query: its answers stay where they are, however many they are.

    Args:
        queries: All there are to learn from, Q.
        batch_size: Queries of a step.
        seeds: Of each member of the ensemble, M.
    """

    at_once = 8

    def __init__(self, queries: Queries, batch_size: int, seeds: Sequence[int]) -> None:
        self.queries = queries
        count, device = len(queries), queries.pairs.device
        sizes = [min(batch_size, count - first) for first in range(0, count, batch_size)]
        self.sizes = sizes
        self.starts = range(0, count, batch_size)
        self.seeds = torch.tensor(seeds, device=device)
        self.order = torch.zeros(len(seeds), count, dtype=torch.int64, device=device)
        # Steps read the numbers of their queries from one place for each size.
        self.rows = {n: torch.zeros_like(self.order[:, : n * self.at_once]) for n in sizes}
        self.size, self.count, self.taken = sizes[0], 1, 0

    def draw(self, epoch: int) -> Sequence[Hashable]:
        self.order = random_order(epoch_draws(self.seeds, epoch), BATCHES, self.order.size(1))
        return self.sizes

    def load(self, step: int, count: int = 1) -> None:
        self.size, start = self.sizes[step], self.starts[step]
        self.count, self.taken = count, 0
        queries = count * self.size
        self.rows[self.size][:, :queries].copy_(self.order[:, start : start + queries])

    def batch(self) -> tuple[Tensor, Tensor, Positives]:
        """Heads and relations of the next batch of those loaded, each ``(M, B)``, and their right
        answers."""
        first = self.taken * self.size
        self.taken = (self.taken + 1) % self.count
        row = self.rows[self.size][:, first : first + self.size]
        pairs = self.queries.pairs.index_select(0, row.flatten()).view(*row.shape, 2)
        head, relation = pairs.unbind(-1)
        return head, relation, Positives(self.queries.ptr, self.queries.tails, row)
