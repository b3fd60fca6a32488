"""Batches of queries: each query once an epoch, in an order of each member's own."""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from quatgraph.data.link import Queries
from quatgraph.ops import Positives
from quatgraph.ops.random import BATCHES, epoch_draws, random_order


class QueryBatches:
    """Every epoch sees each query once; its last batch may be smaller. Everything stays on the
    device, and nothing waits for it.

    A batch holds the row of each query, see :func:`look_up`; the lists of tails are never copied.
    """

    max_loaded = 8

    def __init__(self, queries: Queries, batch_size: int, seeds: Sequence[int]) -> None:
        count, device = len(queries), queries.pairs.device
        self.starts = range(0, count, batch_size)
        self.sizes = [min(batch_size, count - start) for start in self.starts]
        self.seeds = torch.tensor(seeds, device=device)
        self.order = torch.zeros(len(seeds), count, dtype=torch.int64, device=device)
        # One buffer for each size of a batch.
        largest = {size: self.order[:, : size * self.max_loaded] for size in self.sizes}
        self.buffers = {size: torch.zeros_like(rows) for size, rows in largest.items()}

    def draw(self, epoch: int) -> Sequence[Hashable]:
        self.order = random_order(epoch_draws(self.seeds, epoch), BATCHES, self.order.size(1))
        return self.sizes

    def load(self, step: int, count: int = 1) -> Sequence[Tensor]:
        """Returns batches as rows of ``queries``, each ``(M, B)``."""
        size, start = self.sizes[step], self.starts[step]
        rows = self.buffers[size][:, : count * size]
        rows.copy_(self.order[:, start : start + count * size])
        return rows.split(size, dim=1)


def look_up(queries: Queries, rows: Tensor) -> tuple[Tensor, Tensor, Positives]:
    """Looks up a batch: heads and relations, each ``(M, B)``, and the true tails."""
    pairs = queries.pairs.index_select(0, rows.flatten()).view(*rows.shape, 2)
    head, relation = pairs.unbind(-1)
    return head, relation, Positives(queries.ptr, queries.tails, rows)
