r"""Decoders with a matrix per relation, :math:`\mathbf{e}_h^\top \mathbf{M}_r \mathbf{e}_t`.

Queries are multiplied by the matrices group by group, never with a copy of the matrix for each
query. So dropout masks a relation's matrix once in a step, for all of its queries. The inverse of
a relation has the transposed matrix, or one of its own.
"""

from typing import Literal

import torch
from torch import Tensor

from quatgraph.layers.decoder import DistMult
from quatgraph.layers.norm import BatchNorm
from quatgraph.layers.tables import DEFAULT_TABLES, Tables, build_dropout
from quatgraph.ops import grouped_product

CoreInit = Literal["uniform", "normal"]


class RESCAL(DistMult):
    r"""`RESCAL <https://icml.cc/2011/papers/438_icmlpaper.pdf>`_:
    :math:`\mathbf{e}_h^\top \mathbf{M}_r \mathbf{e}_t`. The vector of a relation holds its matrix,
    row by row.

    Args:
        num_relations, width, reciprocal, dropout, norm, tables: As in
            :class:`quatgraph.layers.decoder.DistMult`.
        relation_width: Width of the vector of a relation.

    Shape:
        - as in :class:`quatgraph.layers.decoder.DistMult`; relations ``(2R, D * D)``
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        relation_width: int | None = None,
        reciprocal: bool = True,
        dropout: float = 0.0,
        norm: bool = False,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__(
            num_relations,
            width,
            relation_width=relation_width or width**2,
            reciprocal=reciprocal,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
        self.width = width

    def query(
        self, entities: Tensor, head: Tensor, relations: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        entities, heads = self.entity_rows(entities, head)
        heads = self.prepare(self.entity_dropout(heads))
        return self.drop_candidates(entities), grouped_product(heads, relations, relation)

    def as_relation_query(
        self, head: Tensor, tail: Tensor, relations: Tensor
    ) -> tuple[Tensor, Tensor]:
        return (head.unsqueeze(-1) * tail.unsqueeze(-2)).flatten(-2), relations.flatten(-2)

    def prepare(self, heads: Tensor) -> Tensor:
        """The vectors of heads that are multiplied by the matrices."""
        return heads

    def with_inverses(self, relations: Tensor) -> Tensor:
        """The matrices of all relations and inverse ones, ``(2R, D, D)``."""
        matrices = self.relation_dropout(self.matrices(relations))
        matrices = matrices.unflatten(-1, (self.width, self.width))
        return matrices if self.reciprocal else torch.cat((matrices, matrices.mT), dim=-3)

    def matrices(self, relations: Tensor) -> Tensor:
        """The matrices of relation vectors, ``(R, D * D)``."""
        return relations


class TuckER(RESCAL):
    r"""`TuckER <https://arxiv.org/abs/1901.09590>`_: RESCAL whose matrices are combinations of
    those in a core tensor, :math:`\mathbf{M}_r = \sum_k v_{rk} \mathbf{W}_k`.

    Args:
        num_relations, width: As in :class:`RESCAL`.
        relation_width: Width of a relation vector, the number of matrices in the core; ``width``
            if None.
        core_init: The core starts uniformly in [-1, 1], or normally with standard deviation 1 as in
            LibKGE.
        reciprocal: Whether inverse relations have vectors of their own.
        input_dropout: Rate on the vectors of heads, after the norm.
        dropout: Rate on the query vectors.
        norm: Whether to batch-normalize the vectors of heads and the query vectors.
        tables: As in :class:`RESCAL`.

    Shape:
        - as in :class:`quatgraph.layers.decoder.DistMult`; relations ``(2R, relation_width)``
    """

    def __init__(
        self,
        num_relations: int,
        width: int,
        *,
        relation_width: int | None = None,
        core_init: CoreInit = "uniform",
        reciprocal: bool = True,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        norm: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__(
            num_relations,
            width,
            relation_width=relation_width or width,
            reciprocal=reciprocal,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
        self.core = Tables(core_init).build(self.relations.size(1), width**2)
        self.input_norm = BatchNorm(width) if norm else None
        self.input_dropout = build_dropout(input_dropout)

    def prepare(self, heads: Tensor) -> Tensor:
        return self.input_dropout(heads if self.input_norm is None else self.input_norm(heads))

    def matrices(self, relations: Tensor) -> Tensor:
        return relations @ self.core
