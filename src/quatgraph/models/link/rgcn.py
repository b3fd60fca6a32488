"""R-GCN for knowledge-graph completion."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from quatgraph.layers import BatchNorm
from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.layers.linear import GlorotLinear
from quatgraph.layers.tables import build_dropout
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.link.graphs import Graph, GraphKind
from quatgraph.models.link.relational import RelationalModel, RelationalOptions
from quatgraph.ops import lookup
from quatgraph.ops.members import add_bias
from quatgraph.relational import RelationalGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class RGCNOptions(RelationalOptions):
    name: Literal["rgcn"] = "rgcn"
    decoder: Decoder = "distmult"
    num_layers: Count = 2
    num_bases: Count = 5
    """Matrices per direction, of which those of relations are combined."""
    normalization: Literal["row", "relation"] = "row"
    """Edge weights: one over the edges into the receiver, as in the released code, or over those
    with the same relation, as in the paper's equation."""
    input_layer: bool = True
    """Whether entity vectors get a bias and ReLU before the first layer, as in the released
    code."""
    loop_dropout: Rate = 0.2
    """Dropout rate on the entity's own part of each layer."""
    norm: bool = False

    @property
    def graph(self) -> GraphKind:
        return GraphKind("relations", self.normalization)

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        matrices = 2 * self.num_layers * self.width**2 * messages // 32
        return RelationalOptions.num_activations(self, entities, queries, messages) + matrices


class RGCN(RelationalModel):
    r"""`R-GCN <https://arxiv.org/abs/1703.06103>`_ with basis decomposition.

    .. math::
        \mathbf{h}'_v = \mathrm{ReLU}\Big(\mathbf{W}_0 \mathbf{h}_v +
        \sum_{(u, r, v)} a_{u,r,v} \mathbf{W}_r \mathbf{h}_u\Big), \qquad
        \mathbf{W}_r = \sum_b c_{r,b} \mathbf{V}_b

    Edges go both ways; inverse relations have matrices :math:`\mathbf{V}_b` of their own. The last
    layer has no ReLU. The model is trained on all entities as the others are, not by sampled
    subgraphs and negatives as in the paper.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        decoder: How triples are scored; DistMult in the paper.
        width: Real width of a vector.
        num_layers: Number of layers.
        num_bases: Number of matrices :math:`\mathbf{V}_b` per direction.
        input_layer: Whether entity vectors get a bias and ReLU before the first layer.
        reciprocal: Whether inverse relations have their own vectors in the decoder.
        dropout: Rate on the query vectors.
        loop_dropout: Rate on :math:`\mathbf{W}_0 \mathbf{h}_v`.
        norm: Whether to normalize each layer's output over the entities.
        query_norm: Whether to normalize the query vectors over the batch.
        edge_dropout, hide_answers, num_features: As in :class:`RelationalModel`.

    Shape:
        - graph: the :class:`RelationalGraph` of E entities
        - head, relation, output: as in :mod:`quatgraph.layers.decoder`
    """

    Options = RGCNOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Decoder = "distmult",
        width: int = 128,
        num_layers: int = 2,
        num_bases: int = 5,
        input_layer: bool = True,
        reciprocal: bool = True,
        dropout: float = 0.0,
        loop_dropout: float = 0.0,
        norm: bool = False,
        query_norm: bool = False,
        edge_dropout: float = 0.0,
        hide_answers: bool = False,
        num_features: int = 0,
    ) -> None:
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
        count = len(layer_sizes(width, width, num_layers))
        self.input_bias = nn.Parameter(torch.zeros(width)) if input_layer else None
        self.layers = nn.ModuleList(
            _Layer(num_relations, width, num_bases, loop_dropout) for _ in range(count)
        )
        self.norms = nn.ModuleList(
            BatchNorm(width, "relu" if layer < count - 1 else "none")
            for layer in range(count if norm else 0)
        )

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, width)``."""
        edges, x = self.read_graph(graph)
        if self.input_bias is not None:
            x = add_bias(x, self.input_bias).relu()
        for index, layer in enumerate(self.layers):
            y = layer(x, cast(RelationalGraph, edges))
            if len(self.norms):
                x = self.norms[index](y)
            else:
                x = y.relu() if index < len(self.layers) - 1 else y
        return x


class _Layer(nn.Module):
    def __init__(self, num_relations: int, width: int, num_bases: int, dropout: float) -> None:
        super().__init__()
        self.dropout = build_dropout(dropout)
        self.own = GlorotLinear(width, width, bias=False)
        self.bases = nn.Parameter(torch.empty(2, num_bases, width, width))
        self.coefficients = nn.Parameter(torch.empty(2, num_relations, num_bases))
        nn.init.xavier_uniform_(self.coefficients)
        for basis in self.bases.flatten(0, 1):
            nn.init.xavier_uniform_(basis)

    def forward(self, x: Tensor, graph: RelationalGraph) -> Tensor:
        width = x.size(-1)
        matrices = (self.coefficients @ self.bases.flatten(-2)).flatten(-3, -2)  # (2R, D * D)
        blocks = lookup(matrices, graph.relation).unflatten(-1, (width, width))
        to_tails, to_heads = graph.sum_messages(x, lambda u, _: u @ blocks)
        return self.dropout(self.own(x)) + to_tails + to_heads
