"""Models of triples without a graph: DistMult, ComplEx, QuatE and TransE."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.layers.tables import DEFAULT_TABLES, Tables
from quatgraph.models.link.base import DecoderOptions, TableModel, TableOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions(TableOptions, DecoderOptions):
    name: Literal["embeddings"] = "embeddings"


class Embeddings(TableModel):
    """A learned vector per entity and a decoder, which gives the method its name.

    Args:
        num_entities: Number of entities E.
        decoder: How triples are scored, see :mod:`quatgraph.layers.decoder`.
        num_relations, width, reciprocal, dropout, norm, tables: As in the decoder.

    Shape:
        - graph: ignored
        - head, relation, output: as in the decoder
    """

    Options = EmbeddingsOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Decoder = "distmult",
        width: int = 128,
        reciprocal: bool = True,
        dropout: float = 0.0,
        norm: bool = False,
        tables: Tables = DEFAULT_TABLES,
    ) -> None:
        super().__init__()
        self.entities = tables.build_entities(num_entities, width)
        self.decoder = DECODERS[decoder](
            num_relations,
            width,
            reciprocal=reciprocal,
            dropout=dropout,
            norm=norm,
            tables=tables,
        )
