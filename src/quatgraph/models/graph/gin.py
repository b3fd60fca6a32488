"""Graph isomorphism network."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.blocks import padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.layers.messages import MessageGraph
from quatgraph.layers.real import LinearOfSums, SumPerceptron
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGINOptions(LayeredOptions):
    name: Literal["gin"] = "gin"
    edge_data: bool = configs.added(True)
    """Whether to use labels and features of edges, if there are some."""

    def num_activations(self, nodes: int, entries: int) -> int:
        messages = 4 * entries * self.width * self.num_layers
        return LayeredOptions.num_activations(self, nodes, entries) + messages


class GraphGIN(GraphModel):
    """`Graph isomorphism network <https://arxiv.org/abs/1810.00826>`_ (GIN-0), on a graph with
    self-loops and no normalization.

    The input and the vectors of each layer are summed over a graph and mapped to logits. The sum of
    these logits is the output.

    Args:
        hidden: Width of the layers.
        num_layers: Number of layers, each a perceptron of the sum over neighbours.
        pooled_dropout: Rate on the logits of each layer.
        edge_dim: Number of features of an edge. With it, the model is GINE
            (`Strategies for Pre-training Graph Neural Networks <https://arxiv.org/abs/1905.12265>`_
            ): nodes are mapped to ``hidden`` numbers before each sum of messages.

    Shape:
        - as in :class:`LayerwiseModel`; with ``edge_dim``, adjacency is a :class:`MessageGraph`
    """

    Options = GraphGINOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        pooled_dropout: float = 0.0,
        edge_dim: int = 0,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers, num_classes)
        self.convs = nn.ModuleList(SumPerceptron(a, b) for a, b in sizes[:-1])
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.convs)
        self.predictions = nn.ModuleList(LinearOfSums(width, num_classes) for width, _ in sizes)
        self.dropout = QuaternionDropout(pooled_dropout)
        self.edge_linears = nn.ModuleList(
            RealLinear(edge_dim, hidden) for _ in self.convs if edge_dim
        )

    def forward(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        first, *others = self.predictions
        scores = self.dropout(first(x, pool))
        for layer, prediction in zip(self._encode(x, adjacency, pool), others, strict=True):
            scores = scores + self.dropout(prediction(layer, pool))
        return scores

    def embed(self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix) -> Tensor:
        """The summed vectors of each layer, without the input's, ``(G, num_layers * hidden)``."""
        return torch.cat([pool @ layer for layer in self._encode(x, adjacency, pool)], dim=-1)

    def _encode(
        self, x: Features, adjacency: Matrix | MessageGraph, pool: Matrix
    ) -> Iterator[Tensor]:
        """The vectors of all nodes after each layer, ``(N, hidden)`` each."""
        _, nodes = padding_masks(pool, self.dropout.rate)
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            edges = self.edge_linears[layer] if len(self.edge_linears) else None
            y: Tensor = norm(conv(x, adjacency, nodes, edges), nodes)
            yield y
            x = y
