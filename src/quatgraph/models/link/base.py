"""The interface of models of triples."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.layers.decoder import DECODERS, Decoder, TripleDecoder
from quatgraph.layers.linear import RealLinear
from quatgraph.layers.tables import Init, Tables
from quatgraph.models.common import Count, Model, Options, Positive, Rate
from quatgraph.models.link.graphs import NO_GRAPH, Edges, FeaturedGraph, Graph, GraphKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions(Options):
    """The hyperparameters of every model of triples."""

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
        return 1

    @property
    def graph(self) -> GraphKind:
        """The graph of the training triples that the model takes."""
        return NO_GRAPH

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        """An upper estimate of the numbers that a training step stores per member.

        Args:
            messages: Rows of messages of a :class:`RelationalGraph`.
        """
        return self.width * (3 * entities + 8 * queries)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOptions(LinkOptions):
    """The hyperparameters of models with any of the decoders."""

    decoder: Decoder = "distmult"
    """How triples are scored."""

    @property
    def components(self) -> int:
        return DECODERS[self.decoder].components


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The hyperparameters of the tables of vectors, to be mixed into those of a model."""

    __slots__ = ()
    entity_dropout: Rate = configs.added(0.0)
    """Dropout rate on the vectors of heads and of candidates, each with masks of their own."""
    relation_dropout: Rate = configs.added(0.0)
    """Dropout rate on the vectors of the queries' relations."""
    init: Init = configs.added("xavier_normal")
    """How vectors are initialized."""
    init_scale: Positive = configs.added(1.0)
    """The gain of Xavier, the standard deviation of ``normal``, the bound of ``uniform``."""

    @property
    def tables(self) -> Tables:
        return Tables(self.init, self.init_scale, self.entity_dropout, self.relation_dropout)


class LinkModel(Model):
    """A model of triples.

    ``encode`` returns the vectors of all entities. The decoder computes query vectors ``(B, D)``
    and candidate vectors ``(E, D)`` from them; scores are inner products. ``decoder.relations``
    holds the relation vectors. A candidate vector starts with the vector of its entity.
    """

    Options: ClassVar[type[LinkOptions]]
    shardable: ClassVar[bool] = False
    """Whether ranks can share out its entities: only their own vectors belong to them."""
    decoder: TripleDecoder

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, D)``, which are their embeddings too."""
        raise NotImplementedError

    def embed_relations(self) -> Tensor:
        """The vectors of all relations, ``(R, D)``; with inverse ones ``(2R, D)``."""
        return self.decoder.relations

    def decode(self, entities: Tensor, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Query and candidate vectors from the vectors of all entities."""
        return self.decoder(entities, head, relation, self.embed_relations())

    def forward(
        self, graph: Graph, head: Tensor, relation: Tensor, ends: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Query and candidate vectors; with the heads and tails of triples, ``ends`` ``(T, 2)``,
        also those of their relations."""
        entities = self.encode(graph)
        found = self.decode(entities, head, relation)
        if ends is None:
            return found
        head, tail = ends.unbind(-1)
        return *found, *self.decoder.relation_query(entities, head, tail, self.embed_relations())


class FeatureMap(RealLinear):
    """A linear map of features, zero at first: training starts like that of a model without
    features."""

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)


class GraphModel(LinkModel):
    """A model on a graph. Each entity has a learned vector and, if entities have features, a
    learned linear map of these is added to it.

    An entity in no training triple has no vector of its own, only that of its features.

    Args:
        num_entities: Number of entities E.
        width: Real width of a vector; all four components of a quaternion model.
        num_features: Number of features of an entity; 0 for a plain graph, which is no
            :class:`FeaturedGraph`.
    """

    def __init__(self, num_entities: int, width: int, num_features: int = 0) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(num_entities, width))
        nn.init.xavier_normal_(self.entities)
        self.feature_map = FeatureMap(num_features, width, bias=False) if num_features else None

    def read_graph(self, graph: Graph) -> tuple[Edges, Tensor]:
        """The edges of a graph, and the first vectors of its entities, ``(E, D)``."""
        featured = isinstance(graph, FeaturedGraph)
        if featured != (self.feature_map is not None):
            raise UserError(
                "a model with num_features takes a FeaturedGraph, and only such a model does"
            )
        if not isinstance(graph, FeaturedGraph) or self.feature_map is None:
            return cast(Edges, graph), self.entities
        own = self.entities if graph.trained is None else graph.trained * self.entities
        return graph.edges, own + self.feature_map(graph.features)


class TableModel(LinkModel):
    """A model without a graph: each entity has a learned vector."""

    shardable = True
    entities: nn.Parameter

    def encode(self, graph: Graph) -> Tensor:
        return self.entities
