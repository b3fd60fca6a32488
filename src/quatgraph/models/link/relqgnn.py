"""RelQGNN, a relational quaternion network for knowledge-graph completion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from quatgraph.algebra import hamilton_product, unit
from quatgraph.layers import BatchNorm, QuaternionLinear
from quatgraph.layers.decoder import DECODERS, Decoder, Hamilton
from quatgraph.layers.tables import build_dropout
from quatgraph.models.common import Rate, layer_sizes
from quatgraph.models.link.graphs import Graph, GraphKind
from quatgraph.models.link.relational import (
    RelationalModel,
    RelationalOptions,
    relation_rows,
)
from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.relational import RelationalGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class RelQGNNOptions(RelationalOptions):
    name: Literal["relqgnn"] = "relqgnn"
    decoder: Decoder = "quate"
    norm: bool = False
    activation: Activation = "tanh"
    """The activation g."""
    normalization: Literal["none", "row", "symmetric"] = "row"
    """Edge weights: one, or one over the edges into the receiver, or over the root of those times
    the edges out of the sender; each direction by itself."""
    residual: float = 1.0
    """Weight of an entity's first vector in the output of every layer."""
    shared_relations: bool = True
    """Whether messages are rotated by the decoder's relation vectors, or by their own."""
    layer_dropout: Rate = 0.0
    """Dropout rate on the messages that each layer adds."""

    @property
    def graph(self) -> GraphKind:
        return GraphKind("relations", self.normalization)


class RelQGNN(RelationalModel):
    r"""QGNN layers whose messages are rotated by the relation.

    .. math::
        \mathbf{h}^{(l+1)}_v = \beta \, \mathbf{h}^{(0)}_v + g\Big(\mathrm{BN}\Big(
        \mathbf{W}_1 \otimes \sum_{(u, r, v)} a_{u,v} \, \mathbf{h}^{(l)}_u \otimes
        \mathbf{z}^\triangleleft_r +
        \mathbf{W}_2 \otimes \sum_{(v, r, u)} a_{u,v} \, \mathbf{h}^{(l)}_u \otimes
        \mathbf{z}^\triangleleft_{r^{-1}} +
        \mathbf{W}_3 \otimes \mathbf{h}^{(l)}_v \Big)\Big)

    In QuatE :math:`\mathbf{h}_u \otimes \mathbf{z}^\triangleleft_r` is the query for the tails of u
    and r: an entity receives the queries that it answers, from heads by the relation and from tails
    by the inverse one. Where the layer adds nothing, the model is QuatE.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        decoder: How triples are scored.
        dim_quats: Quaternions per entity and relation vector.
        num_layers: Number of layers; the output of the last one is used.
        activation: g, applied to each component.
        residual: :math:`\beta`.
        shared_relations: Whether messages are rotated by the decoder's relation vectors, or by
            vectors of their own.
        reciprocal: Whether inverse relations have their own vectors.
        dropout: Rate on the query vectors.
        layer_dropout: Rate on what each layer adds.
        norm: Whether to normalize each layer's sums over the entities.
        query_norm: Whether to normalize the query vectors over the batch.
        edge_dropout, hide_answers, num_features: As in :class:`RelationalModel`.

    Shape:
        - graph: the :class:`RelationalGraph` of E entities
        - head, relation, output: as in :mod:`quatgraph.layers.decoder`
    """

    Options = RelQGNNOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Decoder = "quate",
        dim_quats: int = 32,
        num_layers: int = 1,
        activation: Activation = "tanh",
        residual: float = 1.0,
        shared_relations: bool = True,
        reciprocal: bool = True,
        dropout: float = 0.0,
        layer_dropout: float = 0.0,
        norm: bool = False,
        query_norm: bool = False,
        edge_dropout: float = 0.0,
        hide_answers: bool = False,
        num_features: int = 0,
    ) -> None:
        width = 4 * dim_quats
        super().__init__(
            num_entities,
            width,
            DECODERS[decoder](
                num_relations, width, reciprocal=reciprocal, dropout=dropout, norm=query_norm
            ),
            edge_dropout=edge_dropout,
            hide_answers=hide_answers,
            num_features=num_features,
        )
        sizes = layer_sizes(width, width, num_layers)
        self.residual = residual
        self.layers = nn.ModuleList(_Layer(width) for _ in sizes)
        self.norms = nn.ModuleList(BatchNorm(width, activation) for _ in sizes if norm)
        self.activation = ACTIVATIONS[activation]
        self.dropout = build_dropout(layer_dropout)
        self.relations = None
        if not shared_relations:
            self.relations = nn.Parameter(torch.empty(2 * num_relations, width))
            nn.init.xavier_normal_(self.relations)

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, 4 dim_quats)``."""
        edges, first = self.read_graph(graph)
        triples, x = cast(RelationalGraph, edges), first
        own = self.relations
        relations = self.decoder.with_inverses(self.decoder.relations) if own is None else own
        rotations = relation_rows(triples, unit(relations))
        shared = own is None and isinstance(self.decoder, Hamilton)
        rotate = self.decoder.combine if shared else hamilton_product
        for index, layer in enumerate(self.layers):
            y = layer(triples.sum_messages(x, lambda u, _: rotate(u, rotations)), x)
            y = self.norms[index](y) if len(self.norms) else self.activation(y)
            x = self.residual * first + self.dropout(y)
        return x


class _Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.to_tails, self.to_heads, self.own = (QuaternionLinear(width, width) for _ in range(3))

    def forward(self, sums: Sequence[Tensor], x: Tensor) -> Tensor:
        return self.to_tails(sums[0]) + self.to_heads(sums[1]) + self.own(x)
