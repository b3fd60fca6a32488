"""Batches of documents: each document once an epoch, in an order of each member's own."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from quatgraph.ops.random import BATCHES, epoch_draws, random_order
from quatgraph.tasks.graph.batches import BatchIndices, Capacity, Collection

Shape = tuple[int, int, int]
"""Of a batch: its pieces, and the documents and nodes of a piece, of each member."""


class DocumentBatches:
    """An epoch is as many steps as the training documents fill; the last may be a shorter one.

    A batch comes in pieces of about equally many nodes, so that a step need hold but one of them;
    see :func:`summed`.

    Args:
        collection: All documents.
        parts: Places of each member's training documents, equally many of all members.
        batch_size: Documents of a step.
        nodes_at_once: About how many nodes a piece may have, over all members.
        seeds: Of each member.
    """

    max_loaded = 1

    def __init__(
        self,
        collection: Collection,
        parts: Sequence[Tensor],
        batch_size: int,
        nodes_at_once: int,
        seeds: Sequence[int],
    ) -> None:
        self.sizes = collection.num_nodes
        self.seeds = torch.tensor(seeds, device=collection.labels.device)
        self.places = torch.stack(list(parts)).to(collection.labels.device)
        count = self.places.size(1)
        nodes = int(self._nodes(self.places).sum()) / count  # of a document, over all members
        self.steps: list[tuple[slice, int]] = []
        for first in range(0, count, batch_size):
            documents = min(batch_size, count - first)
            pieces = min(documents, -int(-documents * nodes // nodes_at_once))
            self.steps.append((slice(first, first + documents), max(1, pieces)))
        self.drawn = [self._dealt(self.places[:, part], k) for part, k in self.steps]
        self.buffers = {drawn.shape: drawn.clone() for drawn in self.drawn}
        self.shapes: list[Shape] = []

    def draw(self, epoch: int) -> list[Shape]:
        """See :class:`quatgraph.training.batches.Batches`."""
        draws = epoch_draws(self.seeds, epoch)
        places = self.places.gather(1, random_order(draws, BATCHES, self.places.size(1)))
        self.drawn = [self._dealt(places[:, part], k) for part, k in self.steps]
        needed = torch.stack([self._nodes(drawn).sum(dim=2).max() for drawn in self.drawn]).tolist()
        if places.is_cuda:
            needed = [rounded(nodes) for nodes in needed]
        pairs = zip(self.drawn, needed, strict=True)
        self.shapes = [(drawn.size(0), drawn.size(2), nodes) for drawn, nodes in pairs]
        return self.shapes

    def load(self, step: int, count: int = 1) -> Sequence[BatchIndices]:
        drawn = self.drawn[step]
        buffer = self.buffers[drawn.shape].copy_(drawn)
        return (BatchIndices(buffer, Capacity(self.shapes[step][2])),)

    def _nodes(self, places: Tensor) -> Tensor:
        """Nodes of each document, 0 of none."""
        sizes = self.sizes.index_select(0, places.clamp(min=0).flatten()).view_as(places)
        return torch.where(places >= 0, sizes, 0)

    def _dealt(self, places: Tensor, pieces: int) -> Tensor:
        """Documents in pieces, dealt out by their sizes: ``(M, B) -> (pieces, M, B / pieces)``, -1
        where there is none left."""
        order = self._nodes(places).argsort(dim=1, descending=True, stable=True)
        missing = -places.size(1) % pieces
        held = torch.nn.functional.pad(places.gather(1, order), (0, missing), value=-1)
        return held.unflatten(1, (-1, pieces)).permute(2, 0, 1).contiguous()


def rounded(nodes: int) -> int:
    """At most a sixteenth more, so that shapes come again."""
    step = 1 << max(3, nodes.bit_length() - 5)
    return -(-nodes // step) * step


def summed(weights: Tensor, losses: Iterable[Tensor]) -> Tensor:
    """The sum of losses with the gradient of each taken as it comes, so that what one needed is
    free before the next: the same numbers in less memory.

    Args:
        weights: What is learned, ``(M, ...)``.
        losses: Each ``(M,)``.
    """
    total, slope = weights.new_zeros(len(weights)), torch.zeros_like(weights)
    for loss in losses:
        slope += torch.autograd.grad(loss.sum(), weights)[0]
        total += loss.detach()
    # A term that is zero and has that gradient.
    return total + ((weights - weights.detach()) * slope).flatten(1).sum(dim=1)
