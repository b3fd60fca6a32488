"""Batches of documents: each document once an epoch, in an order of each member's own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.ops.random import BATCHES, epoch_draws, random_order
from quatgraph.tasks.graph.batches import BatchIndices, Capacity, Collection, look_up_sizes

Shape = tuple[int, int, int]
"""The shape of a batch: its pieces, and the documents and nodes of a piece, for each member."""


@dataclass(frozen=True, slots=True, eq=False)
class VectorBatch:
    """Documents of all members as the features of a linear model."""

    vectors: Adjacency
    """``(N, F)``."""
    labels: Tensor
    """``(M, N)``."""
    weights: Tensor
    """The weight of each document in its member's loss, 0 for one that is held out, ``(M, N)``."""


class DocumentBatches:
    """Every epoch sees each training document once; its last batch may be smaller.

    A batch comes in pieces of about equally many nodes, so that a step holds only one of them at a
    time; see :func:`accumulate_gradients`.

    Args:
        parts: Indices of each member's training documents, equally many for all members.
        max_nodes: About how many nodes a piece may have, over all members.
    """

    max_loaded = 1
    draws_late = False

    def __init__(
        self,
        collection: Collection,
        parts: Sequence[Tensor],
        batch_size: int,
        max_nodes: int,
        seeds: Sequence[int],
    ) -> None:
        self.sizes = collection.num_nodes
        self.seeds = torch.tensor(seeds, device=collection.labels.device)
        self.indices = torch.stack(list(parts)).to(collection.labels.device)
        count = self.indices.size(1)
        # Nodes per document, over all members.
        nodes = int(look_up_sizes(self.sizes, self.indices).sum()) / count
        self.steps: list[tuple[slice, int]] = []
        for first in range(0, count, batch_size):
            documents = min(batch_size, count - first)
            pieces = min(documents, -int(-documents * nodes // max_nodes))
            self.steps.append((slice(first, first + documents), max(1, pieces)))
        self.drawn = [self._deal(self.indices[:, part], k) for part, k in self.steps]
        self.buffers = {drawn.shape: drawn.clone() for drawn in self.drawn}
        self.shapes: list[Shape] = []

    def draw(self, epoch: int) -> list[Shape]:
        """See :class:`quatgraph.training.batches.Batches`."""
        draws = epoch_draws(self.seeds, epoch)
        indices = self.indices.gather(1, random_order(draws, BATCHES, self.indices.size(1)))
        self.drawn = [self._deal(indices[:, part], k) for part, k in self.steps]
        needed = torch.stack(
            [look_up_sizes(self.sizes, drawn).sum(dim=2).max() for drawn in self.drawn]
        ).tolist()
        if indices.is_cuda:
            needed = [round_up(nodes) for nodes in needed]
        pairs = zip(self.drawn, needed, strict=True)
        self.shapes = [(drawn.size(0), drawn.size(2), nodes) for drawn, nodes in pairs]
        return self.shapes

    def load(self, step: int, count: int = 1) -> Sequence[BatchIndices]:
        drawn = self.drawn[step]
        buffer = self.buffers[drawn.shape].copy_(drawn)
        return (BatchIndices(buffer, Capacity(self.shapes[step][2])),)

    def _deal(self, indices: Tensor, pieces: int) -> Tensor:
        """Deals documents out to pieces by their size, ``(M, B) -> (pieces, M, B / pieces)``, and
        pads with -1."""
        order = look_up_sizes(self.sizes, indices).argsort(dim=1, descending=True, stable=True)
        missing = -indices.size(1) % pieces
        padded = torch.nn.functional.pad(indices.gather(1, order), (0, missing), value=-1)
        return padded.unflatten(1, (-1, pieces)).permute(2, 0, 1).contiguous()


def round_up(nodes: int) -> int:
    """Rounds up by at most a sixteenth, so that few shapes occur."""
    step = 1 << max(3, nodes.bit_length() - 5)
    return -(-nodes // step) * step


def accumulate_gradients(weights: Tensor, losses: Iterable[Tensor]) -> Tensor:
    """Sums losses, each ``(M,)``, and accumulates their gradients by the weights, ``(M, ...)``, one
    by one: the memory of each loss is freed before the next."""
    total, gradient = weights.new_zeros(len(weights)), torch.zeros_like(weights)
    for loss in losses:
        gradient += torch.autograd.grad(loss.sum(), weights)[0]
        total += loss.detach()
    # A term of value zero that has this gradient.
    return total + ((weights - weights.detach()) * gradient).flatten(1).sum(dim=1)
