"""RESCAL: a matrix per relation."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers import bilinear_decoder
from quatgraph.layers.tables import DEFAULT_TABLES, Tables
from quatgraph.models.common import Rate
from quatgraph.models.link.base import LinkOptions, TableModel, TableOptions

MATRICES = 256
"""Matrices of relations that a training step copies: a guess, for estimates of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixOptions(TableOptions, LinkOptions):
    """The hyperparameters of models with a matrix per relation."""

    dropout: Rate = 0.0
    """Dropout rate on the query vectors."""
    norm: bool = False
    """Whether to batch-normalize the query vectors."""
    relation_dropout: Rate = 0.0
    """Dropout rate on the matrices of relations, with one mask in a step for all queries of a
    relation."""

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        matrices = 4 * MATRICES * self.width**2
        return LinkOptions.num_activations(self, entities, queries) + matrices


@dataclass(frozen=True, slots=True, kw_only=True)
class RESCALOptions(MatrixOptions):
    name: Literal["rescal"] = "rescal"


class RESCAL(TableModel):
    """`RESCAL <https://icml.cc/2011/papers/438_icmlpaper.pdf>`_: a learned vector per entity, and a
    matrix per relation.

    Args:
        num_entities: Number of entities E.
        others: As in :class:`quatgraph.layers.bilinear_decoder.RESCAL`.

    Shape:
        - graph: ignored
        - head, relation, output: as in the decoder
    """

    Options = RESCALOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 128,
        reciprocal: bool = True,
        dropout: float = 0.0,
        norm: bool = False,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        self.entities = tables.build_entities(num_entities, width)
        self.decoder = bilinear_decoder.RESCAL(
            num_relations,
            width,
            reciprocal=reciprocal,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
