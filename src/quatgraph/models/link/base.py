"""The interface of models of triples."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.models.common import Count, Model, Options, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions(Options):
    """The hyperparameters of every model of triples."""

    decoder: Decoder = "distmult"
    """How triples are scored."""
    dim_quats: Count = 32
    """Quaternions per vector; real models have four times as many reals, the same width."""
    dropout: Rate = 0.5
    """Dropout rate on the query vectors."""
    norm: bool = True
    """Whether to normalize queries over their batch, and each layer over the entities."""

    @property
    def width(self) -> int:
        return 4 * self.dim_quats

    @property
    def components(self) -> int:
        """Reals per number: N3 regularization sums the cubed absolute values of numbers."""
        return DECODERS[self.decoder].components

    @property
    def matrix(self) -> Normalization:
        """The normalization of the entity graph with self-loops."""
        return getattr(self, "normalization", "none")

    def num_activations(self, entities: int, queries: int) -> int:
        """An upper estimate of the numbers that a training step stores per member."""
        return self.width * (3 * entities + 8 * queries)


class LinkModel(Model):
    """A model of triples.

    ``encode`` returns the vectors of all entities. The decoder computes query vectors ``(B, D)``
    and candidate vectors ``(E, D)`` from them; scores are inner products. ``decoder.relations``
    holds the relation vectors. A candidate vector starts with the vector of its entity.
    """

    Options: ClassVar[type[LinkOptions]]
    decoder: nn.Module

    def encode(self, adjacency: Adjacency) -> Tensor:
        """The vectors of all entities, ``(E, D)``, which are their embeddings too."""
        raise NotImplementedError

    def embed_relations(self) -> Tensor:
        """The vectors of all relations, ``(R, D)``; with inverse ones ``(2R, D)``."""
        relations: Any = self.decoder.relations
        return relations

    def forward(
        self, adjacency: Adjacency, head: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.decoder(self.encode(adjacency), head, relation)
