"""The triples of a knowledge graph, prepared for sums of messages that depend on relations."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.errors import UserError

EdgeWeights = Literal["none", "row", "relation", "symmetric", "receivers"]
"""How edges are weighted, see :meth:`RelationalGraph.from_triples`."""
Message = Callable[[Tensor, Tensor], Tensor]
BLOCK = 32
"""Rows of a block, which share their relation."""


@dataclass(frozen=True, slots=True, eq=False)
class RelationalGraph:
    r"""Triples prepared once for many sums of messages.

    A triple :math:`(h, r, t)` is two edges: from h to t with the relation r, and back with the
    inverse relation :math:`r + R`. For each direction the sum over the edges into an entity is

    .. math::
        \mathbf{y}_v = \sum_{(u, r, v)} a_{u,r,v} \, \phi_r(\mathbf{x}_u)
        = \big(\mathbf{S} \, \phi(\mathbf{G} \mathbf{X})\big)_v

    A message :math:`\phi_r` is linear, so it is applied to sums as well as to single entities.
    Edges with the same relation and the same sender share their message, or those with the same
    relation and the same receiver: whichever are fewer for the relation. The 371,168 edges of
    CoDEx-M need 17,074 messages.

    Messages are sorted by relation and padded with zeros to blocks of :data:`BLOCK` rows of one
    relation. So a relation's vector is read once per block, and its gradient is a sum over blocks.

    Attributes:
        gather: :math:`\mathbf{G}`, ``(P, E)``.
        relation: The relation of each block, int64 ``(P / BLOCK,)``.
        scatter: :math:`\mathbf{S}`, ``(2E, P)``: the sums of the edges from heads to tails, then of
            those from tails to heads.
        gather_triple, scatter_triple: The triple of each entry; N where several share it, which has
            the weight one.
        pairs: The distinct pairs of an entity and a relation, inverse ones too, as sorted numbers
            ``entity * 2R + relation``, ``(Q,)``.
        query: The pair of each triple whose tail is predicted, and the one whose head is predicted,
            ``(2, N)``.
        num_relations: R.
    """

    gather: Adjacency
    relation: Tensor
    scatter: Adjacency
    gather_triple: Tensor
    scatter_triple: Tensor
    pairs: Tensor
    query: Tensor
    num_relations: int

    @classmethod
    def from_triples(
        cls,
        triples: Tensor,
        num_entities: int,
        num_relations: int,
        weights: EdgeWeights = "none",
    ) -> Self:
        """
        Args:
            triples: Head, relation and tail of each, int64 ``(N, 3)``; a repeated one counts once.
            weights: Of an edge, by the numbers of edges of its direction: one (``none``), or one
                over the edges into its receiver (``row``), over those with its relation
                (``relation``), over the root of the edges into its receiver times those out of its
                sender (``symmetric``), or the same with those into its sender (``receivers``):
                zero if there are none.
        """
        head, relation, tail = triples.unbind(1)
        key = _join(_join(head, relation, num_relations), tail, num_entities)
        pair, tail = _split(torch.unique(key), num_entities)
        head, relation = _split(pair, num_relations)
        count = len(head)
        sender, receiver = torch.cat((head, tail)), torch.cat((tail, head))
        relation = torch.cat((relation, relation + num_relations))
        triple = torch.arange(count).repeat(2)
        backward = torch.arange(2 * count) >= count
        row = receiver + num_entities * backward
        weight = _weigh(sender + num_entities * backward, relation, row, weights)

        by_sender, by_receiver = (
            _join(relation, entity, num_entities) for entity in (sender, receiver)
        )
        senders, receivers = (
            _count(key, num_entities, num_relations) for key in (by_sender, by_receiver)
        )
        shares_sender = (senders <= receivers)[relation]
        message, first, num_rows, block_relation = _place(
            torch.where(shares_sender, by_sender, by_receiver), num_entities
        )
        # One side of each edge is an entry of its own, with its weight; on the other side one
        # entry of weight one serves all edges of a message.
        shared = torch.full_like(triple, count)

        def build(
            own: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]
        ) -> tuple[Adjacency, Tensor]:
            kept = own | first
            of_triple = torch.where(own, triple, shared)[kept]
            values = torch.where(own, weight, 1.0)[kept]
            order = torch.argsort(rows[kept], stable=True)
            matrix = Adjacency.from_entries(rows[kept], columns[kept], values, shape)
            return matrix, of_triple[order]

        gather, gather_triple = build(~shares_sender, message, sender, (num_rows, num_entities))
        scatter, scatter_triple = build(shares_sender, row, message, (2 * num_entities, num_rows))
        keys = _join(sender, relation, 2 * num_relations)
        pairs, query = torch.unique(keys, return_inverse=True)
        return cls(
            gather=gather,
            relation=block_relation,
            scatter=scatter,
            gather_triple=gather_triple,
            scatter_triple=scatter_triple,
            pairs=pairs,
            query=query.view(2, count),
            num_relations=num_relations,
        )

    @property
    def num_entities(self) -> int:
        return self.gather.shape[1]

    @property
    def num_triples(self) -> int:
        return self.query.size(-1)

    @property
    def num_messages(self) -> int:
        """Rows of messages, with padding."""
        return self.gather.shape[0]

    @property
    def product_dtype(self) -> torch.dtype | None:
        return self.gather.product_dtype

    def sum_messages(self, x: Tensor, message: Message) -> tuple[Tensor, Tensor]:
        r"""The sums over the edges from heads to tails, and over those from tails to heads.

        Args:
            x: The vectors of all entities, ``(E, F)``.
            message: :math:`\phi`, called with vectors ``(B, BLOCK, F)`` and the relation of each of
                the B blocks; must be linear in the vectors.

        Shape:
            - output: twice ``(E, F)``
        """
        rows = (self.gather @ x).unflatten(-2, (-1, BLOCK))
        sums = self.scatter @ message(rows, self.relation).flatten(-3, -2)
        to_tails, to_heads = sums.unflatten(-2, (2, -1)).unbind(-3)
        return to_tails, to_heads

    def total_weights(self) -> Tensor:
        """The sum of the weights that each row of messages gathers, ``(B, BLOCK, 1)``."""
        ones = self.gather.weight.new_ones(self.num_entities, 1)
        return (self.gather @ ones).unflatten(-2, (-1, BLOCK))

    def hide(self, head: Tensor, relation: Tensor) -> Tensor:
        """Factors of triples: 0 for those that answer one of the queries, else 1.

        Shape:
            - head, relation: the queries, ``(B,)``
            - output: ``(N,)``
        """
        query = _join(head, relation, 2 * self.num_relations)
        place = torch.searchsorted(self.pairs, query)
        found = self.pairs[place.clamp(max=len(self.pairs) - 1)] == query
        place = torch.where(found, place, len(self.pairs))
        seen = torch.zeros(len(self.pairs) + 1, device=head.device)
        seen = torch.scatter(seen, 0, place, 1.0)
        return 1 - torch.maximum(seen[self.query[0]], seen[self.query[1]])

    def scaled(self, factor: Tensor) -> Self:
        """The graph with the weight of each triple, in both directions, times a factor ``(N,)``."""
        factor = F.pad(factor, (0, 1), value=1.0)
        return replace(
            self,
            gather=self.gather.with_weight(self.gather.weight * factor[self.gather_triple]),
            scatter=self.scatter.with_weight(self.scatter.weight * factor[self.scatter_triple]),
        )

    def with_product_dtype(self, dtype: torch.dtype | None) -> Self:
        """The same graph, whose sums round to this type; None for no rounding."""
        return replace(
            self,
            gather=self.gather.with_product_dtype(dtype),
            scatter=self.scatter.with_product_dtype(dtype),
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Self:
        moved: Self = pytree.tree_map(lambda t: t.to(device, non_blocking=non_blocking), self)
        return moved


def _join(first: Tensor, second: Tensor, size: int) -> Tensor:
    """A pair of numbers as one, the second below ``size``."""
    return first * size + second


def _split(key: Tensor, size: int) -> tuple[Tensor, Tensor]:
    return key // size, key % size


def _weigh(sender: Tensor, relation: Tensor, receiver: Tensor, weights: EdgeWeights) -> Tensor:
    """The weight of each edge. Entities of edges from tails to heads are numbered from E on."""

    def inverse_counts(key: Tensor, of: Tensor | None = None) -> Tensor:
        found, index = torch.unique(key, return_inverse=True)
        counts = torch.bincount(index).to(torch.get_default_dtype())
        if of is None:
            return 1 / counts[index]
        place = torch.searchsorted(found, of).clamp(max=len(found) - 1)
        return torch.where(found[place] == of, 1 / counts[place], 0.0)

    match weights:
        case "none":
            return torch.ones(len(sender))
        case "row":
            return inverse_counts(receiver)
        case "relation":
            return inverse_counts(relation * (1 + int(receiver.max())) + receiver)
        case "symmetric":
            return (inverse_counts(receiver) * inverse_counts(sender)).sqrt()
        case "receivers":
            return (inverse_counts(receiver) * inverse_counts(receiver, sender)).sqrt()
    raise UserError(
        f"there are no edge weights {weights!r}; choose none, row, relation, symmetric or receivers"
    )


def _count(key: Tensor, num_entities: int, num_relations: int) -> Tensor:
    """The number of different keys of each relation, ``(2R,)``."""
    return torch.bincount(torch.unique(key) // num_entities, minlength=2 * num_relations)


def _place(key: Tensor, num_entities: int) -> tuple[Tensor, Tensor, int, Tensor]:
    """The row of each edge's message, whether the edge is the first of its message, the number of
    rows, and the relation of each block.

    Args:
        key: ``relation * E + entity`` of each edge; equal for edges that share their message.
    """
    distinct, index = torch.unique(key, return_inverse=True)
    order = torch.argsort(index, stable=True)
    first = torch.zeros_like(key, dtype=torch.bool)
    first[order[torch.searchsorted(index[order], torch.arange(len(distinct)))]] = True
    relations, of_relation, counts = torch.unique(
        distinct // num_entities, return_inverse=True, return_counts=True
    )
    blocks = -(-counts // BLOCK)
    padding = (blocks * BLOCK - counts).cumsum(0) - (blocks * BLOCK - counts)
    rows = torch.arange(len(distinct)) + padding[of_relation]
    return rows[index], first, BLOCK * int(blocks.sum()), relations.repeat_interleave(blocks)


def _flatten(graph: RelationalGraph) -> tuple[list[Any], int]:
    *parts, num_relations = (getattr(graph, f.name) for f in fields(graph))
    return parts, num_relations


def _unflatten(parts: Iterable[Any], num_relations: int) -> RelationalGraph:
    values: list[Any] = [*parts, num_relations]
    return RelationalGraph(*values)


pytree.register_pytree_node(RelationalGraph, _flatten, _unflatten)
