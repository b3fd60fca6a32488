"""Batches of graphs: drawn and put together on the device, padded to a few shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.ops.batch_rows import batch_rows
from quatgraph.ops.random import BATCHES, BITS, STEPS, epoch_draws, random_bits, random_order
from quatgraph.training.ensemble import Ensemble

_SMALLEST = 32  # room below which there is no use in telling shapes apart


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """All graphs of a dataset as the models take them, on one device.

    Attributes:
        node_start: Where the nodes of each graph begin, and the number of nodes, ``(G + 1,)``.
        adjacency: Of all graphs, block-diagonal, as the model multiplies with it.
        symmetric: Whether it equals its transpose.
        pool: Which nodes each graph has, ``(G, N)``.
        features: Of all nodes: one-hot codes, or a dense matrix.
        labels: Class of each graph, -1 where unknown, ``(G,)``.
    """

    node_start: Tensor
    adjacency: Adjacency
    symmetric: bool
    pool: Adjacency
    features: Codes | Tensor
    labels: Tensor

    @property
    def num_nodes(self) -> Tensor:
        """Nodes of each graph, ``(G,)``."""
        return self.node_start.diff()

    @property
    def num_entries(self) -> Tensor:
        """Entries of the adjacency matrix in each graph, ``(G,)``."""
        return self.adjacency.rowptr.index_select(0, self.node_start).diff()


@dataclass(frozen=True, slots=True)
class Capacity:
    """Room for the graphs of a member: what the shape of a batch depends on."""

    nodes: int
    entries: int | None = None
    """Of the adjacency matrix, for models that need it as a matrix of its own; None for others."""


@dataclass(frozen=True, slots=True)
class BatchIndices:
    """Which graphs a batch has, and the size it is padded to."""

    graphs: Tensor
    """Indices, -1 for none, ``(M, B)``; of a batch in pieces ``(P, M, B)``."""
    capacity: Capacity


@dataclass(frozen=True, slots=True)
class Batch:
    """Graphs of all members, each member's padded to the same number of nodes.

    ``(M, ...)`` throughout; B graphs and K nodes a member.
    """

    features: Codes | Tensor
    adjacency: Blocks | Adjacency
    """``(K, K)``."""
    pool: Blocks
    """``(B, K)``."""
    labels: Tensor
    """Class of each graph, -1 where unknown, ``(M, B)``."""

    def through(self, ensemble: Ensemble, features: Codes | Tensor, *, last: bool = True) -> Tensor:
        """The logits of every member for its graphs, ``(M, B, C)``.

        Args:
            last: See :meth:`Ensemble.forward`.
        """
        own = 0 if isinstance(self.adjacency, Adjacency) else None  # blocks are given undivided
        return ensemble(features, self.adjacency, self.pool, in_dims=(0, own, None), last=last)


def assemble(collection: Collection, graphs: Tensor, capacity: Capacity) -> Batch:
    """The batch of the given graphs, without waiting for the device.

    Args:
        graphs: Their places, -1 for none, ``(M, B)``.
        capacity: No member's graphs may need more.
    """
    whole = collection.features
    codes = (whole.code, whole.weight) if isinstance(whole, Codes) else ()
    rows = batch_rows(collection.node_start, graphs, capacity.nodes, collection.labels, codes)
    node, shift = rows.node, rows.node_shift
    features: Codes | Tensor
    if isinstance(whole, Codes):
        code, weight = rows.codes
        features = Codes(code, weight, whole.num_codes)
    else:
        features = whole.index_select(0, node.clamp(min=0).flatten()).unflatten(0, node.shape)
    adjacency = Blocks(
        collection.adjacency, node, shift, node, shift, symmetric=collection.symmetric
    )
    return Batch(
        features=features,
        adjacency=adjacency if capacity.entries is None else adjacency.expanded(capacity.entries),
        pool=Blocks(collection.pool, rows.graph, rows.graph_shift, node, rows.slot_shift),
        labels=rows.labels,
    )


class TrainingBatches:
    """Every step each member draws graphs of its own afresh, each graph at most once a step.

    Args:
        collection: All graphs.
        parts: Places of each member's training graphs.
        batch_size: Graphs of a step; fewer of a member that has not as many to draw from.
        steps: Steps of an epoch.
        seeds: Of each member.
        expanded: Whether the model needs the batch's adjacency as a matrix of its own.
    """

    max_loaded = 1

    def __init__(
        self,
        collection: Collection,
        parts: Sequence[Tensor],
        batch_size: int,
        steps: int,
        seeds: Sequence[int],
        *,
        expanded: bool = False,
    ) -> None:
        self.collection, self.steps = collection, steps
        device = collection.labels.device
        self.seeds = torch.tensor(seeds, device=device)
        self.counts = torch.tensor([len(part) for part in parts], device=device)
        self.places = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True).to(device)
        self.batch_sizes = self.counts.clamp(max=batch_size)
        self.largest = min(batch_size, max(len(part) for part in parts))
        self.nodes = _Room(collection.num_nodes, parts, batch_size)
        self.entries = _Room(collection.num_entries, parts, batch_size) if expanded else None
        self.drawn = self.places.new_zeros(1, len(parts), self.largest)
        self.buffer = self.drawn[0].clone()
        self.capacities: list[Capacity] = []

    @property
    def shares(self) -> Tensor:
        """What each graph of a batch counts for in its member's mean, ``(M, B)``; nothing where a
        member's batch is smaller."""
        place = torch.arange(self.largest, device=self.counts.device)
        return (place < self.batch_sizes[:, None]) / self.batch_sizes[:, None]

    def draw(self, epoch: int) -> list[Capacity]:
        """See :class:`quatgraph.training.batches.Batches`; a batch's shape is its capacity."""
        bits = random_bits(epoch_draws(self.seeds, epoch), BATCHES, self.steps, self.largest)
        random = (bits.double() / 2**BITS).movedim(1, 0)
        chosen = _distinct(random, self.counts, self.batch_sizes).movedim(1, 0)
        graphs = self.places.gather(1, chosen.clamp(min=0).flatten(1)).view(chosen.shape)
        self.drawn = self._matched(torch.where(chosen >= 0, graphs, -1).movedim(0, 1), epoch)
        nodes = self.nodes.needed(self.drawn)
        entries = [None] * len(nodes) if self.entries is None else self.entries.needed(self.drawn)
        self.capacities = [Capacity(n, e) for n, e in zip(nodes, entries, strict=True)]
        return self.capacities

    def _matched(self, graphs: Tensor, epoch: int) -> Tensor:
        """The drawn batches ``(T, M, B)``, those of one step of about equal size, so that little is
        padding: each member's are sorted by size, then the steps are shuffled, in an order that
        depends on the epoch alone. To a member alone this is but a shuffle of batches drawn
        independently."""
        sizes = self.nodes.of(graphs)
        order = sizes.argsort(dim=0, stable=True)
        shuffle = random_order(epoch_draws(self.seeds.new_zeros(1), epoch), STEPS, len(order))
        order = order.index_select(0, shuffle[0])
        return graphs.gather(0, order[:, :, None].expand_as(graphs))

    def load(self, step: int, count: int = 1) -> Sequence[BatchIndices]:
        return (BatchIndices(self.buffer.copy_(self.drawn[step]), self.capacities[step]),)


class _Room:
    """How much room batches need, of nodes or of entries; on a GPU one of a few numbers.

    Args:
        sizes: Of each graph.
        parts: Places of the graphs that each member draws from.
        batch_size: Graphs of a batch.
    """

    def __init__(self, sizes: Tensor, parts: Sequence[Tensor], batch_size: int) -> None:
        self.sizes = sizes
        known = sizes.cpu()
        self.largest = max(
            int(known[part].topk(min(batch_size, len(part))).values.sum()) for part in parts
        )

    def of(self, graphs: Tensor) -> Tensor:
        """The size of each member's batch, ``(T, M, B) -> (T, M)``."""
        sizes = self.sizes.index_select(0, graphs.clamp(min=0).flatten()).view(graphs.shape)
        return torch.where(graphs >= 0, sizes, 0).sum(dim=2)

    def needed(self, graphs: Tensor) -> list[int]:
        """The room for each of the batches: that of its largest member."""
        needed = self.of(graphs).amax(dim=1).tolist()
        return [self.rounded(size) for size in needed] if graphs.is_cuda else needed

    def rounded(self, size: int) -> int:
        """The largest room there can be, divided by cube roots of two, and a multiple of eight; not
        below the given size."""
        thirds = math.floor(3 * math.log2(self.largest / max(size, _SMALLEST)) + 1e-9)
        room = max(size, math.ceil(self.largest * 2 ** (-max(thirds, 0) / 3)))
        return -(-room // 8) * 8


def _distinct(random: Tensor, counts: Tensor, wanted: Tensor) -> Tensor:
    """Different whole numbers below each member's count, every choice equally likely.

    The k-th number is drawn among those that are left, counted without the numbers before it.

    Shape:
        - random: numbers in [0, 1), ``(T, M, B)``
        - counts: ``(M,)``
        - wanted: how many of the B numbers each member takes, ``(M,)``
        - output: ascending, and -1 beyond those that are wanted, ``(T, M, B)``
    """
    none = torch.iinfo(torch.int64).max
    chosen = random.new_empty(*random.shape[:2], 0, dtype=torch.int64)
    for k in range(random.size(2)):
        left = (counts - k).clamp(min=1)
        number = torch.minimum((random[:, :, k] * left).long(), left - 1)
        for other in chosen.unbind(dim=2):  # ascending
            number = number + (number >= other)
        number = torch.where(k < wanted, number, none)
        chosen = torch.cat((chosen, number[:, :, None]), dim=2).sort(dim=2).values
    return torch.where(chosen < none, chosen, -1)
