"""Graph isomorphism network."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.blocks import padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.jumping import Jump, LayerAttention
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.messages import MessageGraph
from quatgraph.layers.pooling import GraphPooling, Pooling, pooled_width
from quatgraph.layers.real import LinearOfSums, SumPerceptron
from quatgraph.layers.virtual_node import VirtualNode
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import ConvolutionOptions, GraphModel, to_dense_features


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGINOptions(ConvolutionOptions):
    name: Literal["gin"] = "gin"
    edge_data: bool = configs.added(True)
    """Whether to use labels and features of edges, if there are some."""

    def num_activations(self, nodes: int, entries: int) -> int:
        messages = 4 * entries * self.width * self.num_layers
        return ConvolutionOptions.num_activations(self, nodes, entries) + messages


class GraphGIN(GraphModel):
    """`Graph isomorphism network <https://arxiv.org/abs/1810.00826>`_ (GIN-0), on a graph with
    self-loops and no normalization.

    The input and the vectors of each layer are pooled over a graph and mapped to logits. The sum of
    these logits is the output.

    Args:
        hidden: Width of the layers.
        num_layers: Number of layers, each a perceptron of the sum over neighbours.
        pooled_dropout: Rate on the logits of each layer.
        pooling: How nodes are pooled; see :class:`GraphPooling`.
        jump: Whether each layer has logits, or only what :class:`LayerAttention` makes of them.
        virtual_node: Whether there are :class:`VirtualNode` between layers.
        edge_dim: Number of features of an edge. With it, the model is GINE
            (`Strategies for Pre-training Graph Neural Networks <https://arxiv.org/abs/1905.12265>`_
            ): nodes are mapped to ``hidden`` numbers before each sum of messages.

    Shape:
        - as in :class:`LayerwiseModel`; with ``edge_dim``, adjacency is a :class:`MessageGraph`
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphGINOptions
    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        pooled_dropout: float = 0.0,
        pooling: Pooling = "sum",
        jump: Jump = "concat",
        virtual_node: bool = False,
        edge_dim: int = 0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.convs = nn.ModuleList(SumPerceptron(a, b) for a, b in sizes)
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.convs)
        attends = jump == "attention"
        read = [in_channels] + [hidden] * (1 if attends else num_layers)
        self.poolings = nn.ModuleList(GraphPooling(width, pooling) for width in read)
        self.predictions = nn.ModuleList(
            LinearOfSums(pooled_width(width, pooling), num_classes) for width in read
        )
        self.attention = LayerAttention(hidden, num_layers) if attends else None
        self.virtual_nodes = nn.ModuleList(
            VirtualNode(hidden, linear=RealLinear) for _ in sizes[1:] if virtual_node
        )
        self.dropout = QuaternionDropout(pooled_dropout)
        self.edge_linears = nn.ModuleList(
            RealLinear(edge_dim, hidden) for _ in self.convs if edge_dim
        )

    def forward(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        scores = self.dropout(self._predict(0, x, pool))
        for place, layer in enumerate(self._encode(x, adjacency, pool), start=1):
            scores = scores + self.dropout(self._predict(place, layer, pool))
        return scores

    def embed(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        """The pooled vectors of each layer, without the input's, side by side."""
        layers = self._encode(x, adjacency, pool)
        pairs = zip(self.poolings[1:], layers, strict=True)
        return torch.cat([one(layer, pool) for one, layer in pairs], dim=-1)

    def _predict(self, place: int, x: Features, pool: Matrix) -> Tensor:
        """The logits of graphs whose nodes have these vectors."""
        prediction, pooling = self.predictions[place], self.poolings[place]
        assert isinstance(prediction, LinearOfSums)
        if pooling.kind == "sum":  # sparse rows are mapped first
            return prediction(x, pool)
        pooled = pooling(to_dense_features(x, prediction.weight), pool)
        return RealLinear.forward(prediction, pooled)

    def _encode(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> list[Tensor]:
        """The vectors of all nodes after each layer, or their mean, ``(N, hidden)`` each."""
        _, nodes = padding_masks(pool, self.dropout.rate)
        layers: list[Tensor] = []
        virtual: Tensor | None = None
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            edges = self.edge_linears[layer] if len(self.edge_linears) else None
            y: Tensor = norm(conv(x, adjacency, nodes, edges), nodes)
            layers.append(y)
            x = y
            if layer < len(self.virtual_nodes):
                x, virtual = self.virtual_nodes[layer](y, pool, virtual)
        return layers if self.attention is None else [self.attention(layers)]
