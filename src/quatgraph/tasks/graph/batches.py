"""Batches of graphs: sampled and assembled on the device, padded to a few shapes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.layers.messages import MessageGraph
from quatgraph.ops.batch_rows import BatchRows, batch_rows
from quatgraph.ops.random import BATCHES, BITS, STEPS, epoch_draws, random_bits, random_order
from quatgraph.training.ensemble import Ensemble

_SMALLEST = 32  # capacities below it are not worth a shape of their own


@dataclass(frozen=True, slots=True, eq=False)
class Collection:
    """All graphs of a dataset as the models take them, on one device.

    Attributes:
        node_start: Where the nodes of each graph begin, and the number of nodes, ``(G + 1,)``.
        adjacency: The block-diagonal adjacency matrix of all graphs, normalised for the model.
        symmetric: Whether it equals its transpose.
        pool: Which nodes each graph has, ``(G, N)``.
        features: The features of all nodes: one-hot codes, or a dense matrix.
        labels: Class of each graph, -1 where unknown, ``(G,)``.
        messages: The messages along edges with labels or features; None if the model uses none.
        message_start: Where the messages of each graph begin, and their number, ``(G + 1,)``.
    """

    node_start: Tensor
    adjacency: Adjacency
    symmetric: bool
    pool: Adjacency
    features: Codes | Tensor
    labels: Tensor
    messages: MessageGraph | None = None
    message_start: Tensor | None = None

    @classmethod
    def build(
        cls,
        node_ptr: Tensor,
        adjacency: Adjacency,
        features: Codes | Tensor,
        labels: Tensor,
        device: torch.device,
        *,
        symmetric: bool = True,
    ) -> Self:
        """Builds the collection of graphs whose nodes begin at ``node_ptr``."""
        num_nodes = int(node_ptr[-1])
        nodes = torch.arange(num_nodes, dtype=torch.int32)
        owner = torch.arange(len(node_ptr) - 1, dtype=torch.int32)
        pool = Adjacency(
            rowptr=node_ptr.int(),
            col=nodes,
            weight=torch.ones(num_nodes),
            t_rowptr=torch.arange(num_nodes + 1, dtype=torch.int32),
            t_col=owner.repeat_interleave(node_ptr.diff()),
            t_perm=nodes,
        )
        return cls(
            node_start=node_ptr.int().to(device),
            adjacency=adjacency.to(device),
            symmetric=symmetric,
            pool=pool.to(device),
            features=features.to(device),
            labels=labels.to(device),
        )

    def with_messages(self, messages: MessageGraph, node_ptr: Tensor) -> Self:
        """The collection for a model that uses labels or features of edges. Messages must be sorted
        by sender; ``node_ptr`` is as in :meth:`build`."""
        assert isinstance(messages.senders, Adjacency)
        start = messages.senders.t_rowptr[node_ptr]
        moved = pytree.tree_map_only(Tensor, lambda t: t.to(self.labels.device), messages)
        return replace(self, messages=moved, message_start=start.to(self.labels.device))

    @property
    def graph(self) -> Adjacency | MessageGraph:
        """What a model takes for all graphs at once."""
        return self.adjacency if self.messages is None else self.messages

    @property
    def num_nodes(self) -> Tensor:
        """Nodes of each graph, ``(G,)``."""
        return self.node_start.diff()

    @property
    def num_entries(self) -> Tensor:
        """Entries of the adjacency matrix of each graph, or its messages, if any, ``(G,)``."""
        if self.message_start is not None:
            return self.message_start.diff()
        return self.adjacency.rowptr.index_select(0, self.node_start).diff()


@dataclass(frozen=True, slots=True)
class Capacity:
    """The padded size of a member's graphs; it decides the shape of a batch."""

    nodes: int
    entries: int | None = None
    """Entries of the adjacency matrix, if the model has values of its own for them; or messages
    along edges, if it uses them."""
    largest: int | None = None
    """Nodes of the largest graph, if the model makes dense batches."""


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
    adjacency: Blocks | MessageGraph
    """``(K, K)``."""
    pool: Blocks
    """``(B, K)``."""
    labels: Tensor
    """Class of each graph, -1 where unknown, ``(M, B)``."""

    def through(self, ensemble: Ensemble, features: Codes | Tensor, *, last: bool = True) -> Tensor:
        """The logits of every member for its graphs, ``(M, B, C)``, or what else the model returns;
        see :meth:`Ensemble.forward` for ``last``."""
        own: Any = None  # blocks hold all members
        if isinstance(self.adjacency, MessageGraph):
            own = MessageGraph(None, None, None, 0)  # type: ignore[arg-type]
        return ensemble(features, self.adjacency, self.pool, in_dims=(0, own, None), last=last)


def assemble(collection: Collection, graphs: Tensor, capacity: Capacity) -> Batch:
    """Assembles a batch of graphs ``(M, B)``, -1 for none, without waiting for the device. No
    member's graphs may need more than the capacity."""
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
    adjacency: Blocks | MessageGraph
    if collection.messages is not None:
        adjacency = _assemble_messages(collection, rows, capacity)
    else:
        adjacency = Blocks(
            collection.adjacency,
            node,
            shift,
            node,
            shift,
            symmetric=collection.symmetric,
            max_entries=capacity.entries,
        )
    return Batch(
        features=features,
        adjacency=adjacency,
        pool=Blocks(
            collection.pool,
            rows.graph,
            rows.graph_shift,
            node,
            rows.slot_shift,
            max_row=capacity.largest,
        ),
        labels=rows.labels,
    )


def _assemble_messages(
    collection: Collection, nodes: BatchRows, capacity: Capacity
) -> MessageGraph:
    """The messages of the graphs whose nodes are ``nodes``."""
    whole, start = collection.messages, collection.message_start
    assert whole is not None
    assert start is not None
    assert capacity.entries is not None
    assert isinstance(whole.senders, Adjacency)
    assert isinstance(whole.sums, Adjacency)
    features = whole.features
    codes = (features.code, features.weight) if isinstance(features, Codes) else ()
    rows = batch_rows(start, nodes.graph, capacity.entries, collection.labels, codes)
    message, node = rows.node, nodes.node
    sender = whole.senders.col.index_select(0, message.clamp(min=0).flatten()).view_as(message)
    # The position of its graph in the batch gives each row the shift of its columns.
    to_message = rows.graph_shift.gather(1, _graph_positions(collection, nodes, node))
    to_node = nodes.graph_shift.gather(1, _graph_positions(collection, rows, sender))
    chosen: Codes | Tensor
    if isinstance(features, Codes):
        code, weight = rows.codes
        chosen = Codes(code, weight, features.num_codes)
    else:
        index = message.clamp(min=0)
        chosen = features.index_select(0, index.flatten()).unflatten(0, index.shape)
    loops: Blocks | None = None
    if isinstance(whole.loops, Adjacency):
        shift = nodes.node_shift
        loops = Blocks(whole.loops, node, shift, node, shift, symmetric=True)
    return MessageGraph(
        senders=Blocks(whole.senders, message, to_node, node, to_message),
        sums=Blocks(whole.sums, node, to_message, message, to_node),
        loops=loops,
        features=chosen,
    )


def _graph_positions(collection: Collection, rows: BatchRows, node: Tensor) -> Tensor:
    """The position in the batch of the graph of each row, ``(M, K)``; any for padding. ``node`` is
    a node of that graph."""
    graph = collection.pool.t_col.index_select(0, node.clamp(min=0).flatten()).view_as(node)
    return (rows.slot_shift + graph).clamp(0, rows.graph.size(1) - 1).long()


class TrainingBatches:
    """Every step samples graphs for each member, without replacement; a member with fewer training
    graphs than ``batch_size`` takes all of them.

    Args:
        parts: Indices of each member's training graphs.
        steps: Steps of an epoch.
        by_entry: Whether the model has values of its own for entries of the adjacency matrix, or
            messages.
        dense: Whether the model makes dense batches.
    """

    max_loaded = 1
    draws_late = False

    def __init__(
        self,
        collection: Collection,
        parts: Sequence[Tensor],
        batch_size: int,
        steps: int,
        seeds: Sequence[int],
        *,
        by_entry: bool = False,
        dense: bool = False,
    ) -> None:
        self.collection, self.steps = collection, steps
        device = collection.labels.device
        self.seeds = torch.tensor(seeds, device=device)
        self.counts = torch.tensor([len(part) for part in parts], device=device)
        self.indices = torch.nn.utils.rnn.pad_sequence(list(parts), batch_first=True).to(device)
        self.batch_sizes = self.counts.clamp(max=batch_size)
        self.largest = min(batch_size, max(len(part) for part in parts))
        self.nodes = _Sizes(collection.num_nodes, parts, batch_size)
        self.entries = _Sizes(collection.num_entries, parts, batch_size) if by_entry else None
        self.graph_nodes = _LargestSizes(collection.num_nodes, parts, 1) if dense else None
        self.drawn = self.indices.new_zeros(1, len(parts), self.largest)
        self.buffer = self.drawn[0].clone()
        self.capacities: list[Capacity] = []

    @property
    def shares(self) -> Tensor:
        """The weight of each graph of a batch in its member's mean, ``(M, B)``; 0 for padding."""
        index = torch.arange(self.largest, device=self.counts.device)
        return (index < self.batch_sizes[:, None]) / self.batch_sizes[:, None]

    def draw(self, epoch: int) -> list[Capacity]:
        """See :class:`quatgraph.training.batches.Batches`; a batch's shape is its capacity."""
        bits = random_bits(epoch_draws(self.seeds, epoch), BATCHES, self.steps, self.largest)
        random = (bits.double() / 2**BITS).movedim(1, 0)
        chosen = _sample_distinct(random, self.counts, self.batch_sizes).movedim(1, 0)
        graphs = self.indices.gather(1, chosen.clamp(min=0).flatten(1)).view(chosen.shape)
        self.drawn = self._match_sizes(torch.where(chosen >= 0, graphs, -1).movedim(0, 1), epoch)
        nodes = self.nodes.capacities(self.drawn)
        entries, largest = (
            sizes.capacities(self.drawn) if sizes else [None] * len(nodes)
            for sizes in (self.entries, self.graph_nodes)
        )
        self.capacities = list(map(Capacity, nodes, entries, largest))
        return self.capacities

    def _match_sizes(self, graphs: Tensor, epoch: int) -> Tensor:
        """Reorders batches ``(T, M, B)`` so that those of one step are about equally large, which
        saves padding: each member's batches are sorted by size, then the steps are shuffled in an
        order that depends only on the epoch. For a single member this is just a shuffle."""
        sizes = self.nodes.of(graphs)
        order = sizes.argsort(dim=0, stable=True)
        shuffle = random_order(epoch_draws(self.seeds.new_zeros(1), epoch), STEPS, len(order))
        order = order.index_select(0, shuffle[0])
        return graphs.gather(0, order[:, :, None].expand_as(graphs))

    def load(self, step: int, count: int = 1) -> Sequence[BatchIndices]:
        return (BatchIndices(self.buffer.copy_(self.drawn[step]), self.capacities[step]),)


class _Sizes:
    """The sizes of batches, in nodes or in entries; on a GPU padded to a few capacities."""

    def __init__(self, sizes: Tensor, parts: Sequence[Tensor], batch_size: int) -> None:
        self.sizes = sizes
        known = sizes.cpu()
        largest = max(
            int(known[part].topk(min(batch_size, len(part))).values.sum()) for part in parts
        )
        self.largest = max(1, largest)  # histograms may be empty

    def of(self, graphs: Tensor) -> Tensor:
        """The size of each member's batch, ``(T, M, B) -> (T, M)``."""
        return look_up_sizes(self.sizes, graphs).sum(dim=2)

    def capacities(self, graphs: Tensor) -> list[int]:
        """The capacity of each step: the size of its largest member."""
        needed = self.of(graphs).amax(dim=1).tolist()
        return [self.round_up(size) for size in needed] if graphs.is_cuda else needed

    def round_up(self, size: int) -> int:
        """Rounds up to the largest capacity divided by a power of the cube root of two, and to a
        multiple of eight."""
        thirds = math.floor(3 * math.log2(self.largest / max(size, _SMALLEST)) + 1e-9)
        capacity = max(size, math.ceil(self.largest * 2 ** (-max(thirds, 0) / 3)))
        return -(-capacity // 8) * 8


class _LargestSizes(_Sizes):
    """The sizes of the largest graphs of batches."""

    def of(self, graphs: Tensor) -> Tensor:
        return look_up_sizes(self.sizes, graphs).amax(dim=2)


def look_up_sizes(sizes: Tensor, graphs: Tensor) -> Tensor:
    """The size of each graph; 0 for -1."""
    found = sizes.index_select(0, graphs.clamp(min=0).flatten()).view_as(graphs)
    return torch.where(graphs >= 0, found, 0)


def _sample_distinct(random: Tensor, counts: Tensor, wanted: Tensor) -> Tensor:
    """Samples distinct integers below each member's count, every set equally likely.

    The k-th number is drawn among the remaining ones, counted without the numbers before it.

    Shape:
        - random: numbers in [0, 1), ``(T, M, B)``
        - counts: ``(M,)``
        - wanted: how many of the B numbers each member takes, ``(M,)``
        - output: ascending, then padded with -1, ``(T, M, B)``
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
