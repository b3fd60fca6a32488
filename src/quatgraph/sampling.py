"""Neighbour sampling in pure torch, on a CPU or a GPU; no compiled dependency."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.entries import check_range, stable_sort
from quatgraph.errors import UserError
from quatgraph.ops.csr import concat_rows, index2ptr
from quatgraph.ops.random import BITS, NEIGHBORS, random_bits


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """The sampled neighbourhood of some nodes, in PyG's terms.

    Attributes:
        n_id: The nodes, ``(N,)``: the seed nodes first, then their neighbours.
        edge_index: Sender and receiver of each edge as positions in ``n_id``, ``(2, E)``.
        e_id: The position of each edge in the ``edge_index`` of the whole graph, ``(E,)``.
        scale: For each edge, the number of its receiver's edges over the number sampled, ``(E,)``.
        num_sampled_nodes: The number of seed nodes, then the number that each hop adds.
        num_sampled_edges: The number of edges that each hop adds.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor
    scale: Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]


class NeighborSampler:
    """Samples neighbours of nodes without replacement.

    Samples are a function of the seed, the step, the hop and the node. They are the same on a CPU
    and a GPU, and do not depend on the other nodes of a mini-batch. A sampler is not thread-safe.

    Args:
        edge_index: Sender and receiver of each edge, ``(2, E)``; messages go to receivers.
        num_nodes: Number of nodes of the graph.
        num_neighbors: Maximum number of edges to sample per node, for each hop; -1 for all.
        seed: Seed of the samples.

    Example:
        >>> edge_index = torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]])
        >>> sample = NeighborSampler(edge_index, 4, [-1, -1]).sample(torch.tensor([0]))
        >>> sample.n_id
        tensor([0, 1, 2, 3])
        >>> sample.edge_index
        tensor([[1, 2, 3, 0],
                [0, 0, 1, 2]])
    """

    def __init__(
        self, edge_index: Tensor, num_nodes: int, num_neighbors: Sequence[int], *, seed: int = 0
    ) -> None:
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise UserError(f"edge_index must have the shape (2, E), got {tuple(edge_index.shape)}")
        if max(num_nodes, edge_index.size(1)) >= 1 << 31:
            raise UserError("a graph may have 2^31 - 1 nodes and edges")
        check_range(edge_index, num_nodes)
        sender, receiver = edge_index.unbind()
        sorted_receiver, order = stable_sort(receiver.int(), num_nodes)
        self._set_up(index2ptr(sorted_receiver, num_nodes), num_neighbors, seed)
        self._sender, self._loops = sender.int().index_select(0, order), 0
        self._edge: Tensor | None = order.int()
        """The edge of each entry; None if they are in the same order."""

    @classmethod
    def of(cls, matrix: Adjacency, num_neighbors: Sequence[int], *, seed: int = 0) -> Self:
        """Draws entries of a square matrix with self-loops, see
        :meth:`quatgraph.Adjacency.from_edge_index`. A node's own loop, the last entry of its row,
        is always drawn and does not count."""
        made = cls.__new__(cls)
        made._set_up(matrix.rowptr, num_neighbors, seed)
        made._sender, made._loops, made._edge = matrix.col, 1, None
        return made

    def _set_up(self, ptr: Tensor, num_neighbors: Sequence[int], seed: int) -> None:
        if isinstance(num_neighbors, int):
            example = [num_neighbors] * 2 if _is_limit(num_neighbors) else [15, 10]
            raise UserError(
                f"num_neighbors must be a list with a number for each hop, got {num_neighbors}; "
                f"use {example} for a model of two layers"
            )
        if not num_neighbors or not all(map(_is_limit, num_neighbors)):
            raise UserError(
                "num_neighbors must have a number of at least 1 for each hop, or -1 for all "
                f"neighbours, got {list(num_neighbors)}"
            )
        self.num_nodes, self.num_neighbors, self._ptr = len(ptr) - 1, list(num_neighbors), ptr
        self._draws = torch.tensor([seed, 0], device=ptr.device)
        self._position = torch.full_like(ptr[:-1], -1)
        """The position of each node in the sample that is being drawn; -1 outside of it."""

    def sample(self, nodes: Tensor, step: int = 0) -> Sample:
        """The nodes with the neighbours that are drawn for them.

        Args:
            nodes: Ids of different nodes, ``(B,)``.
            step: Number of the mini-batch; others draw other neighbours.
        """
        nodes = self._check(nodes)
        self._draws[1] = step
        found, sizes, edges = [nodes], [len(nodes)], list[tuple[Tensor, ...]]()
        self._position[nodes] = _count(nodes, 0)
        for hop, limit in enumerate(self.num_neighbors):
            row, entry, scale = self._draw(found[-1], hop, limit)
            sender = self._sender.index_select(0, entry).long()
            new = self._number(sender, sum(sizes))
            receiver = row + (sum(sizes) - sizes[-1])
            edges.append((self._position.index_select(0, sender).long(), receiver, entry, scale))
            found.append(new)
            sizes.append(len(new))
        n_id = torch.cat(found)
        self._position[n_id] = -1
        senders, receivers, entries, scales = map(torch.cat, zip(*edges, strict=True))
        return Sample(
            n_id,
            torch.stack((senders, receivers)),
            entries if self._edge is None else self._edge.index_select(0, entries).long(),
            scales,
            sizes,
            [len(sender) for sender, *_ in edges],
        )

    def _check(self, nodes: Tensor) -> Tensor:
        if nodes.dtype == torch.bool or nodes.is_floating_point() or nodes.dim() != 1:
            raise UserError("nodes must be a vector of node ids; use mask.nonzero().flatten()")
        nodes = nodes.to(self._ptr.device, torch.int64)
        check_range(nodes, self.num_nodes)
        if len(nodes.unique()) < len(nodes):
            raise UserError("a mini-batch must not hold the same node twice")
        return nodes

    def _draw(self, nodes: Tensor, hop: int, limit: int) -> tuple[Tensor, Tensor, Tensor]:
        """The entries drawn for some nodes: position of the node, the entry, its scale."""
        begin, loops = self._ptr.index_select(0, nodes).long(), self._loops
        end = self._ptr.index_select(0, nodes + 1).long()
        degree = end - begin - loops
        if limit == -1:
            row, entry = concat_rows(begin, degree + loops)
            return row, entry, torch.ones(len(row), device=nodes.device)
        size = degree.clamp(max=limit)
        columns = torch.arange(limit + loops, device=nodes.device)
        offset = columns.repeat(len(nodes), 1)
        large = (degree > limit).nonzero().flatten()
        bits = random_bits(self._draws, NEIGHBORS + hop, nodes[large], limit)
        drawn = draw_distinct(degree[large], bits)
        # The loop comes last, as in its row.
        offset[large] = torch.cat((drawn, degree[large, None]), dim=1) if loops else drawn
        entry = (begin[:, None] + offset)[columns < (size + loops)[:, None]]
        row = torch.repeat_interleave(size + loops, output_size=len(entry))
        scale = (degree / size).index_select(0, row)
        if loops:
            scale = scale.masked_fill(entry == end.index_select(0, row) - 1, 1)
        return row, entry, scale

    def _number(self, nodes: Tensor, start: int) -> Tensor:
        """Gives nodes without a position the next ones, in the order in which they come first."""
        new = nodes[self._position.index_select(0, nodes) < 0]
        # The least place decides, whatever the order in which a device writes them.
        place = _count(new, 0)
        self._position.scatter_reduce_(0, new, place, "amin", include_self=False)
        new = new[self._position.index_select(0, new) == place]
        self._position[new] = _count(new, start)
        return new


def draw_distinct(sizes: Tensor, bits: Tensor) -> Tensor:
    """Draws k different numbers below each size by Floyd's algorithm: every set is as probable.

    Shape:
        - sizes: at least k, ``(N,)``
        - bits: uniform 32-bit integers, ``(N, k)``
        - output: ``(N, k)``
    """
    k = bits.size(1)
    drawn = torch.empty_like(bits)
    for column in range(k):
        top = sizes - k + column
        number = (bits[:, column] * (top + 1)) >> BITS
        taken = (drawn[:, :column] == number[:, None]).any(dim=1)
        drawn[:, column] = torch.where(taken, top, number)
    return drawn


def _is_limit(count: int) -> bool:
    return count >= 1 or count == -1


def _count(like: Tensor, start: int) -> Tensor:
    return torch.arange(start, start + len(like), device=like.device, dtype=torch.int32)
