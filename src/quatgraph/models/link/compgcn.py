"""CompGCN for knowledge-graph completion."""

from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn

from quatgraph.layers import BatchNorm
from quatgraph.layers.conv_decoder import ConvE, image_size
from quatgraph.layers.decoder import DECODERS, Decoder, DistMult
from quatgraph.layers.linear import RealLinear
from quatgraph.layers.tables import build_dropout
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.link.graphs import Graph, GraphKind
from quatgraph.models.link.relational import (
    RelationalModel,
    RelationalOptions,
    count_map_numbers,
    relation_rows,
)
from quatgraph.ops.activation import ACTIVATIONS
from quatgraph.relational import RelationalGraph

Head = Decoder | Literal["conve"]
Composition = Literal["sub", "mult", "corr"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompGCNOptions(RelationalOptions):
    name: Literal["compgcn"] = "compgcn"
    decoder: Head = "distmult"
    num_filters: Count = 200
    """Filters of the decoder ConvE."""
    kernel_size: Count = 7
    """Rows and columns of a filter of ConvE."""
    map_dropout: Rate = 0.3
    """Dropout rate on the feature maps of ConvE."""
    composition: Composition = "corr"
    """How a message combines entity and relation: their difference, product or circular
    correlation."""
    normalization: Literal["receivers", "symmetric"] = "receivers"
    """Edge weights: by the edges into both ends, as in the released code, where a sender without
    any sends nothing; or by those into the receiver and out of the sender."""
    message_dropout: Rate = 0.1
    """Dropout rate on the sums of messages."""
    layer_dropout: Rate = 0.3
    """Dropout rate on the output of each layer."""

    @property
    def graph(self) -> GraphKind:
        return GraphKind("relations", self.normalization)

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        maps = 0
        if self.decoder == "conve":
            rows, columns = image_size(self.width, None, self.kernel_size)
            positions = (rows - self.kernel_size + 1) * (columns - self.kernel_size + 1)
            maps = count_map_numbers(positions, self.num_filters, self.kernel_size**2)
        own = RelationalOptions.num_activations(self, entities, queries, messages)
        return own + queries * maps


class CompGCN(RelationalModel):
    r"""`CompGCN <https://arxiv.org/abs/1911.03082>`_, which composes entities with relations.

    .. math::
        \mathbf{h}'_v = \tanh\Big(\mathrm{BN}\Big(\frac{1}{3}\Big(
        \mathbf{W}_1 \sum_{(v, r, u)} a \, \phi(\mathbf{h}_u, \mathbf{z}_r) +
        \mathbf{W}_2 \sum_{(u, r, v)} a \, \phi(\mathbf{h}_u, \mathbf{z}_{r^{-1}}) +
        \mathbf{W}_3 \, \phi(\mathbf{h}_v, \mathbf{z}_0) \Big)\Big)\Big), \qquad
        \mathbf{z}'_r = \mathbf{W}_4 \mathbf{z}_r

    As in the released code the tail of a triple sends with the relation, and the head with the
    inverse one. All vectors have one width. The correlation is a product of Fourier transforms, so
    entities are transformed once, and sums once.

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        decoder: How triples are scored: a decoder, or ``"conve"`` for the interleaved ConvE of the
            released code.
        num_filters, kernel_size, map_dropout: Of ConvE.
        width: Real width of a vector.
        num_layers: Number of layers.
        composition: :math:`\phi`: ``"sub"``, ``"mult"`` or ``"corr"``.
        reciprocal: Whether inverse relations have their own vectors.
        dropout: Rate on the query vectors.
        message_dropout: Rate on the sums over both directions.
        layer_dropout: Rate on the output of each layer.
        norm: Whether to normalize each layer's output over the entities.
        query_norm: Whether to normalize the query vectors over the batch.
        edge_dropout, hide_answers, num_features: As in :class:`RelationalModel`.

    Shape:
        - graph: the :class:`RelationalGraph` of E entities
        - head, relation, output: as in :mod:`quatgraph.layers.decoder`
    """

    Options = CompGCNOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Head = "distmult",
        num_filters: int = 200,
        kernel_size: int = 7,
        map_dropout: float = 0.0,
        width: int = 128,
        num_layers: int = 1,
        composition: Composition = "corr",
        reciprocal: bool = True,
        dropout: float = 0.0,
        message_dropout: float = 0.0,
        layer_dropout: float = 0.0,
        norm: bool = True,
        query_norm: bool = False,
        edge_dropout: float = 0.0,
        hide_answers: bool = False,
        num_features: int = 0,
    ) -> None:
        head: DistMult
        if decoder == "conve":
            head = ConvE(
                num_relations,
                width,
                num_entities=num_entities,
                image="interleaved",
                num_filters=num_filters,
                kernel_size=kernel_size,
                reciprocal=reciprocal,
                map_dropout=map_dropout,
                whole_maps=False,
                dropout=dropout,
            )
        else:
            head = DECODERS[decoder](
                num_relations,
                width,
                reciprocal=reciprocal,
                dropout=dropout,
                norm=query_norm,
                relation_width=width,
            )
        super().__init__(
            num_entities,
            width,
            head,
            edge_dropout=edge_dropout,
            hide_answers=hide_answers,
            num_features=num_features,
        )
        self.layers = nn.ModuleList(
            _Layer(width, composition, message_dropout, norm)
            for _ in layer_sizes(width, width, num_layers)
        )
        # The last map yields the vectors that the decoder takes.
        widths = [width] * (num_layers - 1) + [head.relation_factor * width]
        self.relation_maps = nn.ModuleList(RealLinear(width, out, bias=False) for out in widths)
        for weight in self.relation_maps.parameters():
            nn.init.xavier_normal_(weight)
        self.dropout = build_dropout(layer_dropout)

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, width)``."""
        (edges, x), z = self.read_graph(graph), self.decoder.relations
        for layer, relation_map in zip(self.layers, self.relation_maps, strict=True):
            # The released code sends from tails with the relation, the graph from heads.
            of_heads, of_tails = self.decoder.with_inverses(z).chunk(2, dim=-2)
            table = torch.cat((of_tails, of_heads), dim=-2)
            x = self.dropout(layer(x, table, cast(RelationalGraph, edges)))
            z = relation_map(z)
        return x

    def embed_relations(self) -> Tensor:
        z = self.decoder.relations
        for relation_map in self.relation_maps:
            z = relation_map(z)
        return z


class _Layer(nn.Module):
    def __init__(self, width: int, composition: Composition, dropout: float, norm: bool) -> None:
        super().__init__()
        self.compose = _COMPOSITIONS[composition]
        self.to_heads, self.to_tails, self.own = (
            RealLinear(width, width, bias=False) for _ in range(3)
        )
        self.loop = nn.Parameter(torch.empty(1, width))
        self.dropout = build_dropout(dropout)
        self.norm = BatchNorm(width, "tanh") if norm else None
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.xavier_normal_(weight)

    def forward(self, x: Tensor, relations: Tensor, graph: RelationalGraph) -> Tensor:
        to_tails, to_heads, own = self.compose(x, relations, self.loop, graph)
        y = self.dropout(self.to_heads(to_heads)) + self.dropout(self.to_tails(to_tails))
        y = (y + self.own(own)) / 3
        return ACTIVATIONS["tanh"](y) if self.norm is None else self.norm(y)


def _subtract(
    x: Tensor, z: Tensor, loop: Tensor, graph: RelationalGraph
) -> tuple[Tensor, Tensor, Tensor]:
    """The sums of differences to tails and to heads, and each entity's own."""
    rows = graph.total_weights() * relation_rows(graph, z)
    return *graph.sum_messages(x, lambda u, _: u - rows), x - loop


def _multiply(
    x: Tensor, z: Tensor, loop: Tensor, graph: RelationalGraph
) -> tuple[Tensor, Tensor, Tensor]:
    """The same of products."""
    rows = relation_rows(graph, z)
    return *graph.sum_messages(x, lambda u, _: u * rows), x * loop


def _correlate(
    x: Tensor, z: Tensor, loop: Tensor, graph: RelationalGraph
) -> tuple[Tensor, Tensor, Tensor]:
    r"""The same of circular correlations :math:`\sum_i x_i z_{i + k}`."""
    of_x, of_z, of_loop = (_transform(v, sign) for v, sign in ((x, -1), (z, 1), (loop, 1)))
    rows = relation_rows(graph, of_z)
    sums = graph.sum_messages(of_x, lambda u, _: _complex_product(u, rows))
    to_tails, to_heads, own = (
        torch.fft.irfft(torch.complex(*part.chunk(2, dim=-1)), n=x.size(-1))
        for part in (*sums, _complex_product(of_x, of_loop))
    )
    return to_tails, to_heads, own


def _transform(x: Tensor, sign: int) -> Tensor:
    """Real, then imaginary parts of the Fourier transform; of its conjugate if the sign is -1."""
    transformed = torch.fft.rfft(x)
    return torch.cat((transformed.real, sign * transformed.imag), dim=-1)


def _complex_product(x: Tensor, z: Tensor) -> Tensor:
    (a, b), (c, d) = x.chunk(2, dim=-1), z.chunk(2, dim=-1)
    return torch.cat((a * c - b * d, a * d + b * c), dim=-1)


_COMPOSITIONS = {"sub": _subtract, "mult": _multiply, "corr": _correlate}
