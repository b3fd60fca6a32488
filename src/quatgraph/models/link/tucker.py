"""TuckER: RESCAL with matrices from a core tensor."""

from dataclasses import dataclass
from typing import Annotated, Literal

from quatgraph.layers import bilinear_decoder
from quatgraph.layers.bilinear_decoder import CoreInit
from quatgraph.layers.tables import DEFAULT_TABLES, Tables
from quatgraph.models.common import Rate
from quatgraph.models.link.base import TableModel
from quatgraph.models.link.rescal import MatrixOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TuckEROptions(MatrixOptions):
    name: Literal["tucker"] = "tucker"
    relation_width: Annotated[int | None, "counts"] = None
    """Reals per relation vector; ``none`` for as many as an entity has."""
    core_init: CoreInit = "uniform"
    """How the core is initialized: uniformly in [-1, 1], or normally with standard deviation 1 as
    in LibKGE."""
    input_dropout: Rate = 0.3
    """Dropout rate on the vectors of heads, after their norm."""
    relation_dropout: Rate = 0.4
    dropout: Rate = 0.5
    norm: bool = True
    """Whether to batch-normalize heads and queries; not in LibKGE."""


class TuckER(TableModel):
    """`TuckER <https://arxiv.org/abs/1901.09590>`_: a learned vector per entity and relation, and a
    core tensor that makes a matrix of each relation.

    Args:
        num_entities: Number of entities E.
        others: As in :class:`quatgraph.layers.bilinear_decoder.TuckER`.

    Shape:
        - graph: ignored
        - head, relation, output: as in the decoder
    """

    Options = TuckEROptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        width: int = 128,
        relation_width: int | None = None,
        core_init: CoreInit = "uniform",
        reciprocal: bool = True,
        input_dropout: float = 0.0,
        dropout: float = 0.0,
        norm: bool = True,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        self.entities = tables.build_entities(num_entities, width)
        self.decoder = bilinear_decoder.TuckER(
            num_relations,
            width,
            relation_width=relation_width,
            core_init=core_init,
            reciprocal=reciprocal,
            input_dropout=input_dropout,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
