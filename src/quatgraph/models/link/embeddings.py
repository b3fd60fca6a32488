"""Models of triples without a graph: DistMult, ComplEx, QuatE and TransE."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.models.link.base import LinkModel, LinkOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsOptions(LinkOptions):
    name: Literal["embeddings"] = "embeddings"

    def arguments(self) -> dict[str, Any]:
        found = LinkOptions.arguments(self)
        del found["dim_quats"]
        return found | {"width": self.width}


class Embeddings(LinkModel):
    """A learned vector for each entity, and a decoder: the paper's baselines, by its name.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, without inverse ones.
        decoder: How triples are scored, see :mod:`quatgraph.layers.decoder`.
        width: Real numbers of a vector.
        reciprocal: Whether inverse relations have vectors of their own.
        dropout: Rate on the query vector.
        norm: Whether to normalise the query vectors over the batch.

    Shape:
        - adjacency: not looked at
        - head, relation and output: as those of the decoder
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

    def encode(self, adjacency: Adjacency) -> Tensor:
        return self.entities
