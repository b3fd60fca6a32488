"""What training and predicting know of a model of triples."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.models.common import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions(Options):
    """What every model of triples reads."""

    decoder: Decoder = "distmult"
    """How vectors of head, relation and tail become a score."""
    dim_quats: int = 32
    """Quaternions of a vector; real models get the same width, four times as many reals."""
    dropout: float = 0.5
    """Rate on the query vector."""
    norm: bool = True
    """Whether the query is normalized over its batch, and each layer over the entities."""

    def __post_init__(self) -> None:
        configs.check(self, "model", counts=("dim_quats",), rates=("dropout",))

    @property
    def width(self) -> int:
        return 4 * self.dim_quats

    @property
    def components(self) -> int:
        """Real numbers that make one number of the vectors, whose absolute values N3 sums."""
        return DECODERS[self.decoder].components

    @property
    def matrix(self) -> Normalization:
        """How the graph of the entities with self-loops is normalized for the model."""
        return "none"

    def num_activations(self, entities: int, queries: int) -> int:
        """Numbers that a training step holds for one member, by a generous count."""
        return self.width * (3 * entities + 8 * queries)


class LinkModel(nn.Module):
    """A model of triples: ``encode`` gives the vectors of all entities, of which the decoder makes
    query vectors ``(B, D)`` and candidate vectors ``(E, D)``, whose inner products are the scores.
    The vectors of relations are ``decoder.relations``; candidates begin with those of entities."""

    Options: ClassVar[type[LinkOptions]]
    decoder: nn.Module

    def encode(self, adjacency: Adjacency) -> Tensor:
        """The vectors of all entities, ``(E, D)``."""
        raise NotImplementedError

    def forward(
        self, adjacency: Adjacency, head: Tensor, relation: Tensor
    ) -> tuple[Tensor, Tensor]:
        return self.decoder(self.encode(adjacency), head, relation)

    @classmethod
    def from_options(
        cls, options: LinkOptions, num_entities: int, num_relations: int, *, reciprocal: bool
    ) -> Self:
        """Builds the model of a configuration."""
        return cls(num_entities, num_relations, reciprocal=reciprocal, **options.arguments())
