"""Models of triples without a graph: DistMult, ComplEx, QuatE and TransE."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.models.link.base import DecoderOptions, LinkModel
from quatgraph.models.link.graphs import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions(DecoderOptions):
    name: Literal["embeddings"] = "embeddings"


class Embeddings(LinkModel):
    """A learned vector per entity and a decoder, which gives the method its name.

    Args:
        num_entities: Number of entities E.
        decoder: How triples are scored, see :mod:`quatgraph.layers.decoder`.
        num_relations, width, reciprocal, dropout, norm: As in the decoder.

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
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        nn.init.xavier_normal_(self.entities)
        self.decoder = DECODERS[decoder](
            num_relations, width, reciprocal=reciprocal, dropout=dropout, norm=norm
        )

    def encode(self, graph: Graph) -> Tensor:
        return self.entities
