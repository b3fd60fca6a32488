"""SimQGNN for knowledge-graph completion (Section 4.4 of the paper)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from quatgraph.adjacency import Normalization
from quatgraph.layers import BatchNorm, QGNNConv
from quatgraph.layers.decoder import DECODERS, Decoder
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.link.base import DecoderOptions, GraphModel, LinkOptions
from quatgraph.models.link.graphs import Graph, GraphKind
from quatgraph.ops.activation import ACTIVATIONS, Activation


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityGraphOptions(DecoderOptions):
    """The hyperparameters of models with layers on the entity graph."""

    num_layers: Count = 1
    """Number of layers on the entity graph."""
    activation: Activation = "tanh"
    """The activation g."""
    normalization: Normalization = "row"
    """Normalization of the entity graph with self-loops."""

    @property
    def graph(self) -> GraphKind:
        return GraphKind("entities", self.normalization)

    def num_activations(self, entities: int, queries: int, messages: int = 0) -> int:
        layers = 6 * self.num_layers * self.width * entities
        return LinkOptions.num_activations(self, entities, queries) + layers


@dataclass(frozen=True, slots=True, kw_only=True)
class SimQGNNOptions(EntityGraphOptions):
    name: Literal["simqgnn"] = "simqgnn"


class SimQGNN(GraphModel):
    r"""QGNN layers on the undirected entity graph, then DistMult.

    .. math::
        \mathbf{h}^{(l+1)}_e = g\Big(\sum_{e'} a_{e,e'} \mathbf{W}^{(l)} \otimes
        \mathbf{h}^{(l)}_{e'}\Big), \qquad
        f(h, r, t) = \big\langle \mathrm{Vec}(\mathbf{h}_h), \mathrm{Vec}(\mathbf{v}_r),
        \mathrm{Vec}(\mathbf{h}_t) \big\rangle

    Args:
        num_entities: Number of entities E.
        num_relations: Number of relations, not counting inverse ones.
        decoder: How triples are scored; DistMult in the paper.
        dim_quats: Quaternions per entity and relation vector.
        num_layers: Number of QGNN layers; the output of the last one is used.
        reciprocal: Whether inverse relations have their own vectors.
        dropout: Rate on the query vectors; 0 in the paper, 0.5 in the released code.
        activation: g, applied to each component.
        norm: Whether to normalize each layer's output over the entities, and the query vectors over
            the batch, as in the released code.
        num_features: Features of an entity, mapped into all four components; 0 for none.

    Shape:
        - graph: the prepared adjacency of E entities; a :class:`FeaturedGraph` of it with features
        - head, relation, output: as in :mod:`quatgraph.layers.decoder`
    """

    Options: ClassVar[type[LinkOptions]] = SimQGNNOptions

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        *,
        decoder: Decoder = "distmult",
        dim_quats: int = 32,
        num_layers: int = 1,
        reciprocal: bool = True,
        dropout: float = 0.0,
        activation: Activation = "tanh",
        norm: bool = False,
        num_features: int = 0,
    ) -> None:
        width = 4 * dim_quats
        super().__init__(num_entities, width, num_features)
        sizes = layer_sizes(width, width, num_layers)
        self.convs = nn.ModuleList(self.conv(width) for _ in sizes)
        self.norms = nn.ModuleList(BatchNorm(width, activation) for _ in sizes if norm)
        self.activation = ACTIVATIONS[activation]
        self.decoder = DECODERS[decoder](
            num_relations, width, reciprocal=reciprocal, dropout=dropout, norm=norm
        )

    def conv(self, width: int) -> nn.Module:
        """Builds a layer, called as ``conv(x, adjacency)``."""
        return QGNNConv(width, width)

    def encode(self, graph: Graph) -> Tensor:
        """The vectors of all entities, ``(E, 4 dim_quats)``."""
        edges, x = self.read_graph(graph)
        for layer, conv in enumerate(self.convs):
            y = conv(x, edges)
            x = self.norms[layer](y) if len(self.norms) else self.activation(y)
        return x
