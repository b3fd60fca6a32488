"""Models of triples without a graph, in the form of SimQGNN: a query vector for each head and
relation, a candidate vector for each entity, and their inner product as the score."""

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_product, unit
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.ops import lookup


class DistMult(nn.Module):
    r"""`DistMult <https://arxiv.org/abs/1412.6575>`_:
    :math:`\langle \mathbf{e}_h, \mathbf{v}_r, \mathbf{e}_t \rangle`.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, inverse ones included.
        width: Real numbers of a vector.
        dropout: Rate on the query vector.
        norm: Whether to normalise the query vectors over the batch.

    Shape:
        - adjacency: not looked at
        - head, relation: whole numbers, ``(B,)``
        - present: 0 for queries that are padding, else 1, ``(B,)``; None where none is
        - output: query vectors ``(B, D)``, candidate vectors ``(E, D)``
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 128,
        dropout: float = 0.0,
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        self.relations = nn.Parameter(torch.empty(num_relations, width))
        self.query_norm = BatchNorm(width) if norm else None
        self.dropout = QuaternionDropout(dropout)
        for table in (self.entities, self.relations):
            nn.init.xavier_normal_(table)

    def forward(
        self,
        adjacency: Adjacency | None,
        head: Tensor,
        relation: Tensor,
        present: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        query = self.query(lookup(self.entities, head), lookup(self.relations, relation))
        if self.query_norm is not None:
            query = self.query_norm(query, present)
        return self.finished(self.dropout(query), self.entities)

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        """The query vector, before it is normalised."""
        return head * relation

    def finished(self, query: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Both vectors in the form whose inner product is the score."""
        return query, candidates


class ComplEx(DistMult):
    r"""`ComplEx <https://arxiv.org/abs/1606.06357>`_:
    :math:`\mathrm{Re} \langle \mathbf{e}_h, \mathbf{v}_r, \bar{\mathbf{e}}_t \rangle`; the first
    half of a vector is real, the second imaginary."""

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        (a, b), (c, d) = head.chunk(2, dim=-1), relation.chunk(2, dim=-1)
        return torch.cat((a * c - b * d, a * d + b * c), dim=-1)


class QuatE(DistMult):
    r"""`QuatE <https://arxiv.org/abs/1904.10281>`_: the head turned by the unit quaternions of the
    relation, :math:`\langle \mathbf{e}_h \otimes \mathbf{v}^\triangleleft_r,
    \mathbf{e}_t \rangle`."""

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return hamilton_product(head, unit(relation))


class TransE(DistMult):
    r"""`TransE <https://papers.nips.cc/paper/5071>`_ with the squared distance,
    :math:`-\|\mathbf{e}_h + \mathbf{v}_r - \mathbf{e}_t\|^2`, as an inner product of vectors that
    are two numbers longer."""

    def query(self, head: Tensor, relation: Tensor) -> Tensor:
        return head + relation

    def finished(self, query: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        one = torch.ones_like
        squares = query.square().sum(-1, keepdim=True), candidates.square().sum(-1, keepdim=True)
        return (
            torch.cat((2 * query, -squares[0], one(squares[0])), dim=-1),
            torch.cat((candidates, one(squares[1]), -squares[1]), dim=-1),
        )
