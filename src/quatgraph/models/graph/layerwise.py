"""The base class of graph classifiers with a readout of every layer."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.layers import LayerwiseReadout, QuaternionDropout
from quatgraph.layers.jumping import Jump
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.pooling import Pooling
from quatgraph.layers.readout import Head
from quatgraph.layers.virtual_node import VirtualNode
from quatgraph.models.common import Rate, layer_sizes
from quatgraph.models.graph.base import ConvolutionOptions, GraphModel
from quatgraph.ops.activation import ACTIVATIONS, Activation


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerwiseOptions(ConvolutionOptions):
    """The hyperparameters of graph classifiers with a readout of every layer."""

    dropout: Rate = 0.5
    """Dropout rate on the input of every layer."""
    per_layer: bool = True
    """Whether to initialize the last linear map as one map per layer, each with a bias."""
    head: Head = configs.added("linear")
    """What maps a graph's vector to logits: a linear map, or a perceptron that also takes the sum
    of the nodes' features."""


class LayerwiseModel(GraphModel):
    """A stack of convolutions; the vectors of all layers, pooled over a graph, give its logits.

    A subclass implements :meth:`conv`.

    Args:
        in_channels: Number of features of a node.
        num_classes: Number of classes C.
        hidden: Width of the layers.
        num_layers: Number of layers.
        dropout: Rate on the input of every layer.
        pooled_dropout: Rate on the pooled vectors.
        per_layer, pooling, jump, head: See :class:`LayerwiseReadout`.
        virtual_node: Whether there are :class:`VirtualNode` between layers.
        conv_options: Keyword arguments of :meth:`conv`.

    Shape:
        - x: ``(N, in_channels)``, dense, sparse or one-hot
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, the nodes of each graph
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    supports_members = True
    activation: ClassVar[Activation] = "relu"

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
        pooling: Pooling = "sum",
        jump: Jump = "concat",
        head: Head = "linear",
        virtual_node: bool = False,
        **conv_options: Any,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.convs = nn.ModuleList(self.conv(a, b, **conv_options) for a, b in sizes)
        self.dropout = QuaternionDropout(dropout)
        self.readout = LayerwiseReadout(
            [hidden] * num_layers,
            num_classes,
            dropout=pooled_dropout,
            per_layer=per_layer,
            pooling=pooling,
            jump=jump,
            head=head,
            in_channels=in_channels,
            linear=RealLinear,
        )
        self.virtual_nodes = nn.ModuleList(
            VirtualNode(hidden, self.activation, RealLinear) for _ in sizes[1:] if virtual_node
        )

    def conv(self, in_channels: int, out_channels: int) -> nn.Module:
        """Builds a layer, called as ``conv(x, adjacency)``."""
        raise NotImplementedError

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.readout(self.encode(x, adjacency, pool), pool, x)

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.readout.embed(self.encode(x, adjacency, pool), pool, x)

    def encode(self, x: Features, adjacency: Matrix, pool: Matrix) -> list[Tensor]:
        """The vectors of all nodes after each layer, ``(N, hidden)`` each."""
        layers: list[Tensor] = []
        activation, virtual = ACTIVATIONS[self.activation], None
        for layer, conv in enumerate(self.convs):
            x = activation(conv(self.dropout(x), adjacency))
            layers.append(x)
            if layer < len(self.virtual_nodes):
                x, virtual = self.virtual_nodes[layer](x, pool, virtual)
        return layers
