r"""Decoders of triples.

The score of a triple is the inner product of a query vector, computed from head and relation, and
a candidate vector, computed from the tail. One matrix product scores queries against all entities.

A query for heads is a query for the tails of the inverse relation, ``r + R``. Inverse relations
have their own vectors, or vectors that preserve the score when head and tail are swapped:

.. math:: f(h, r, t) = \mathbf{q}(\mathbf{h}, \mathbf{v}_r) \cdot \mathbf{x}(\mathbf{t})
    = \mathbf{q}(\mathbf{t}, \mathbf{v}_{r^{-1}}) \cdot \mathbf{x}(\mathbf{h})
"""

from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.algebra import components, conjugate, hamilton_product, unit
from quatgraph.errors import UserError
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.norm import BatchNorm
from quatgraph.layers.tables import DEFAULT_TABLES, Tables, build_dropout
from quatgraph.ops import lookup, table_and_rows


class TripleDecoder(nn.Module):
    """The interface of decoders; :class:`DistMult` describes arguments and shapes."""

    relations: Tensor
    """The learned vectors of relations."""

    def forward(
        self, entities: Tensor, head: Tensor, relation: Tensor, relations: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Query vectors and candidate vectors."""
        raise NotImplementedError

    def relation_query(
        self, entities: Tensor, head: Tensor, tail: Tensor, relations: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""Query vectors for the relations of heads and tails, ``(B, D)``, and the candidate
        vectors of all relations. Their inner products are the scores, without norm and dropout.

        .. math:: f(h, r, t) = \mathbf{p}(\mathbf{h}, \mathbf{t}) \cdot \mathbf{y}(\mathbf{v}_r)
        """
        raise UserError(
            f"{type(self).__name__} cannot predict relations: set train.relation_weight=0"
        )


class DistMult(TripleDecoder):
    r"""`DistMult <https://arxiv.org/abs/1412.6575>`_:
    :math:`\langle \mathbf{e}_h, \mathbf{v}_r, \mathbf{e}_t \rangle`.

    Args:
        num_relations: Number of relations R, not counting inverse ones.
        width: Real width of a vector.
        reciprocal: Whether inverse relations have their own vectors.
        dropout: Rate on the query vectors; 0 in the paper, 0.5 in the released code.
        norm: Whether to batch-normalize the query vectors, as in the released code.
        relation_width: Width of a relation vector; by default that of the decoder.
        tables: How vectors are initialized and dropped out.

    Shape:
        - entities: the vectors of all entities, ``(E, D)``
        - head: indices of entities, ``(B,)``
        - relation: indices of relations, less than 2R, ``(B,)``
        - relations: the vectors of all relations, if not ``self.relations``
        - output: query vectors ``(B, D)`` and candidate vectors ``(E, D)``; ``D + 2`` for TransE
    """

    components = 1
    """Reals per number: 2 for complex numbers, 4 for quaternions."""
    relation_factor = 1
    """How many times as wide as an entity vector a relation vector is."""

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        reciprocal: bool = True,
        dropout: float = 0.0,
        norm: bool = False,
        relation_width: int | None = None,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        if width % self.components:
            raise UserError(
                f"{type(self).__name__} needs a width divisible by {self.components}, got {width}"
            )
        self.reciprocal = reciprocal
        rows = 2 * num_relations if reciprocal else num_relations
        self.relations = tables.build(rows, relation_width or self.relation_factor * width)
        self.norm = BatchNorm(width) if norm else None
        self.dropout = QuaternionDropout(dropout)
        self.drops_rows = tables.entity_dropout > 0 or tables.relation_dropout > 0
        self.shards = tables.shards
        self.entity_dropout = build_dropout(tables.entity_dropout)
        self.relation_dropout = build_dropout(tables.relation_dropout)

    def forward(
        self, entities: Tensor, head: Tensor, relation: Tensor, relations: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        relations = self.with_inverses(self.relations if relations is None else relations)
        entities, query = self.query(entities, head, relations, relation)
        return self.as_inner_product(self.finish(query), entities)

    def query(
        self, entities: Tensor, head: Tensor, relations: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The candidates' vectors, and the query vectors before normalization."""
        if self.shards or (self.drops_rows and self.training):
            return self.query_rows(entities, head, relations, relation)
        return table_and_rows(entities, head, times=(relations, relation))

    def relation_query(
        self, entities: Tensor, head: Tensor, tail: Tensor, relations: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        relations = self.with_inverses(self.relations if relations is None else relations)
        heads, tails = (self.entity_rows(entities, one)[1] for one in (head, tail))
        return self.as_relation_query(heads, tails, relations)

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The vectors of :meth:`relation_query` from rows of heads and tails, ``(B, D)``, and the
        vectors of all relations, with inverses."""
        return head * tail, relations

    def query_rows(
        self, entities: Tensor, head: Tensor, relations: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The same, with the vectors of head and relation of each query."""
        entities, heads = self.entity_rows(entities, head)
        rows = self.relation_dropout(self.relation_rows(relations, relation))
        query = self.combine(self.entity_dropout(heads), rows)
        return self.drop_candidates(entities), query

    def entity_rows(self, entities: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The vectors of all entities, and those of some."""
        if self.shards:
            return self.shards.rows(entities, index)
        return table_and_rows(entities, index)

    def drop_candidates(self, entities: Tensor) -> Tensor:
        """Drops numbers of the candidates, by masks of their place among all entities."""
        if self.shards and isinstance(self.entity_dropout, QuaternionDropout):
            return self.entity_dropout(entities, self.shards.keys(entities.device))
        return self.entity_dropout(entities)

    def relation_rows(self, relations: Tensor, relation: Tensor) -> Tensor:
        """The vectors of the queries' relations, before dropout."""
        return lookup(relations, relation)

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        """The query vectors, all ``(B, D)``."""
        return head * relation

    def finish(self, query: Tensor) -> Tensor:
        """Normalizes the query vectors, and drops numbers of them."""
        return self.dropout(query if self.norm is None else self.norm(query))

    def with_inverses(self, relations: Tensor) -> Tensor:
        """The vectors of all relations and inverse ones, ``(2R, D)``."""
        if self.reciprocal:
            return relations
        return torch.cat((relations, self.inverse(relations)), dim=-2)

    def inverse(self, relations: Tensor) -> Tensor:
        """The vectors that preserve scores when head and tail are swapped."""
        return relations

    def as_inner_product(self, query: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Both vectors in a form in which their inner product is the score."""
        return query, candidates


class RowDecoder(DistMult):
    """A decoder that computes each query vector from the rows of its head and relation."""

    def query(
        self, entities: Tensor, head: Tensor, relations: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.query_rows(entities, head, relations, relation)


class ComplEx(RowDecoder):
    r"""`ComplEx <https://arxiv.org/abs/1606.06357>`_:
    :math:`\mathrm{Re} \langle \mathbf{e}_h, \mathbf{v}_r, \bar{\mathbf{e}}_t \rangle`. The first
    half of a vector holds the real parts, the second the imaginary parts."""

    components = 2

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        (a, b), (c, d) = head.chunk(2, dim=-1), relation.chunk(2, dim=-1)
        return torch.cat((a * c - b * d, a * d + b * c), dim=-1)

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        real, imaginary = head.chunk(2, dim=-1)
        return self.combine(torch.cat((real, -imaginary), dim=-1), tail), relations

    def inverse(self, relations: Tensor) -> Tensor:
        real, imaginary = relations.chunk(2, dim=-1)
        return torch.cat((real, -imaginary), dim=-1)


class Hamilton(RowDecoder):
    r"""The quaternion counterpart of ComplEx: the Hamilton product of head and relation,
    :math:`\langle \mathbf{e}_h \otimes \mathbf{v}_r, \mathbf{e}_t \rangle`. Unlike in
    :class:`QuatE`, relations scale as well as rotate."""

    components = 4

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        return hamilton_product(head, relation)

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        return hamilton_product(conjugate(head), tail), relations

    def inverse(self, relations: Tensor) -> Tensor:
        return conjugate(relations)


class QuatE(Hamilton):
    r"""`QuatE <https://arxiv.org/abs/1904.10281>`_: the head rotated by the unit quaternions of
    the relation, :math:`\langle \mathbf{e}_h \otimes \mathbf{v}^\triangleleft_r,
    \mathbf{e}_t \rangle`."""

    def relation_rows(self, relations: Tensor, relation: Tensor) -> Tensor:
        return unit(super().relation_rows(relations, relation))

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        return super().as_relation_query(head, tail, unit(relations))


class Rotation4D(Hamilton):
    r"""The head rotated from both sides by unit quaternions of the relation,
    :math:`\langle \mathbf{u}^\triangleleft_r \otimes \mathbf{e}_h \otimes
    \mathbf{v}^\triangleleft_r, \mathbf{e}_t \rangle`.

    Every rotation of four dimensions has this form; one factor alone, as in :class:`QuatE`, gives
    only those that turn two planes by the same angle. `Rotate4D
    <https://github.com/QuocHuyy/Rotate4D>`_ has the same rotations, but scores by distances. A
    relation vector holds n quaternions u, then n quaternions v.
    """

    relation_factor = 2

    def relation_rows(self, relations: Tensor, relation: Tensor) -> Tensor:
        return unit(super().relation_rows(relations, relation))

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        left, right = _halves(relation)
        return hamilton_product(left, hamilton_product(head, right))

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        # The score is linear in the 16 products of a component of u and one of v: the component b
        # of conj(e_a h) t belongs to u_a v_b, where e_a is one of 1, i, j, k.
        left, right = _halves(unit(relations))
        zeros, ones = torch.zeros_like(components(head)[0]), torch.ones_like(components(head)[0])
        basis = [torch.cat([ones if a == b else zeros for b in range(4)], -1) for a in range(4)]
        queries = [hamilton_product(conjugate(hamilton_product(e, head)), tail) for e in basis]
        products = [
            part.repeat((1,) * (part.dim() - 1) + (4,)) * right for part in components(left)
        ]
        return torch.cat(queries, dim=-1), torch.cat(products, dim=-1)


def _halves(relations: Tensor) -> tuple[Tensor, Tensor]:
    """The first n and the last n of 2n quaternions."""
    parts = relations.unflatten(-1, (4, 2, -1))
    return parts[..., 0, :].flatten(-2), parts[..., 1, :].flatten(-2)


class TransE(RowDecoder):
    r"""`TransE <https://papers.nips.cc/paper/5071>`_ with the squared distance,
    :math:`-\|\mathbf{e}_h + \mathbf{v}_r - \mathbf{e}_t\|^2`. Two more components make it an
    inner product."""

    def combine(self, head: Tensor, relation: Tensor) -> Tensor:
        return head + relation

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.as_inner_product(tail - head, relations)

    def inverse(self, relations: Tensor) -> Tensor:
        return -relations

    def as_inner_product(self, query: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like
        squares = query.square().sum(-1, keepdim=True), candidates.square().sum(-1, keepdim=True)
        return (
            torch.cat((2 * query, -squares[0], one(squares[0])), dim=-1),
            torch.cat((candidates, one(squares[1]), -squares[1]), dim=-1),
        )


Decoder = Literal["distmult", "complex", "quate", "hamilton", "rotation4d", "transe"]
DECODERS: dict[Decoder, type[DistMult]] = {
    "distmult": DistMult,
    "complex": ComplEx,
    "quate": QuatE,
    "hamilton": Hamilton,
    "rotation4d": Rotation4D,
    "transe": TransE,
}
