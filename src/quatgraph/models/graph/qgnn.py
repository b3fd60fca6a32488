"""QGNN for graph classification (Section 4.3 of the paper)."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Normalization
from quatgraph.blocks import padding_masks
from quatgraph.layers import (
    BatchNorm,
    LayerwiseReadout,
    QGNNConv,
    QuaternionDropout,
    QuaternionLinear,
)
from quatgraph.layers.dropout import Masks
from quatgraph.layers.jumping import Jump
from quatgraph.layers.linear import Features, Matrix
from quatgraph.layers.messages import MessageGraph
from quatgraph.layers.pooling import Pooling
from quatgraph.layers.readout import Head
from quatgraph.layers.virtual_node import VirtualNode
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import GraphModel
from quatgraph.models.graph.layerwise import LayerwiseOptions
from quatgraph.ops.activation import ACTIVATIONS, Activation


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphQGNNOptions(LayerwiseOptions):
    name: Literal["qgnn"] = "qgnn"
    masks: Masks = "real"
    """Whether dropout masks real numbers (four per input feature) or whole quaternions."""
    activation: Activation = "relu"
    """The activation g."""
    norm: bool = True
    """Whether to normalize each layer over the nodes of a batch."""
    normalization: Normalization = "none"
    """Normalization of the adjacency matrix with self-loops."""
    edge_data: bool = configs.added(True)
    """Whether to use labels and features of edges, if there are some."""

    def num_activations(self, nodes: int, entries: int) -> int:
        messages = 4 * entries * self.width * self.num_layers
        return LayerwiseOptions.num_activations(self, nodes, entries) + messages

    @property
    def trains_on_four_copies(self) -> bool:
        return self.masks == "real" and self.dropout > 0


class GraphQGNN(GraphModel):
    """QGNN layers; the node vectors of all layers, pooled over a graph, give its logits.

    Args:
        in_channels: Number of features of a node; each becomes four equal components.
        num_classes: Number of classes C.
        hidden_quats: Quaternions per layer.
        num_layers: Number of QGNN layers.
        dropout: Rate on the input of every layer; 0 in the paper, 0.5 in the released code.
        masks: See :class:`QuaternionDropout`; for the input see
            :func:`quatgraph.models.common.four_copies`.
        activation: g, applied to each component.
        norm: Whether to normalize each layer's output over the nodes of a batch before g. The
            released code suggests this instead of dropout; the paper does not.
        pooled_dropout: Rate on the pooled vectors; 0 in the paper, 0.5 in the released code.
        per_layer, pooling, jump, head: See :class:`LayerwiseReadout`; the paper sums, concatenates
            and has a linear map.
        virtual_node: Whether there are :class:`VirtualNode` between layers; the paper has none.
        edge_dim: Number of features of an edge. With it, a layer adds a Hamilton product of them to
            the neighbour's vector and applies a ReLU before the sum, as ``GINEConv`` does.

    Shape:
        - x: ``(N, in_channels)``, dense, sparse or one-hot, or four copies of it
        - adjacency: of N nodes, prepared; with ``edge_dim`` a :class:`MessageGraph`
        - pool: ``(G, N)``, the nodes of each graph
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphQGNNOptions
    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden_quats: int = 32,
        num_layers: int = 2,
        dropout: float = 0.0,
        masks: Masks = "real",
        activation: Activation = "relu",
        norm: bool = False,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
        pooling: Pooling = "sum",
        jump: Jump = "concat",
        head: Head = "linear",
        virtual_node: bool = False,
        edge_dim: int = 0,
    ) -> None:
        super().__init__()
        hidden = 4 * hidden_quats
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.convs = nn.ModuleList(
            QGNNConv(a, b, tiled=not layer) for layer, (a, b) in enumerate(sizes)
        )
        self.norms = nn.ModuleList(BatchNorm(hidden, activation) for _ in sizes if norm)
        self.readout = LayerwiseReadout(
            [hidden] * num_layers,
            num_classes,
            dropout=pooled_dropout,
            per_layer=per_layer,
            pooling=pooling,
            jump=jump,
            head=head,
            in_channels=in_channels,
        )
        self.virtual_nodes = nn.ModuleList(
            VirtualNode(hidden, activation) for _ in sizes[1:] if virtual_node
        )
        # Input features are always masked one by one.
        self.input_dropout = QuaternionDropout(dropout, masks="real")
        self.dropout = QuaternionDropout(dropout, masks=masks)
        self.activation = ACTIVATIONS[activation]
        self.edge_linears = nn.ModuleList(
            QuaternionLinear(edge_dim, hidden, bias=True, tiled=True) for _ in sizes if edge_dim
        )

    def forward(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        return self.readout(self.encode(x, adjacency, pool), pool, x)

    def embed(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        return self.readout.embed(self.encode(x, adjacency, pool), pool, x)

    def encode(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> list[Tensor]:
        """The vectors of all nodes after each layer, ``(N, 4 hidden_quats)`` each."""
        layers: list[Tensor] = []
        virtual: Tensor | None = None
        nodes = padding_masks(pool, self.readout.weight)[1] if len(self.norms) else None
        for layer, conv in enumerate(self.convs):
            x = self.dropout(x) if layers else self.input_dropout(x)
            if isinstance(adjacency, MessageGraph):
                own: Tensor = conv.get_submodule("linear")(x)
                y = adjacency.sum_messages(own, self.edge_linears[layer])
            else:
                y = conv(x, adjacency)
            x = self.norms[layer](y, nodes) if len(self.norms) else self.activation(y)
            layers.append(x)
            if layer < len(self.virtual_nodes):
                x, virtual = self.virtual_nodes[layer](x, pool, virtual)
        return layers
