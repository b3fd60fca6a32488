"""Graph isomorphism network."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, Matrix
from quatgraph.layers.real import LinearOfSums, SumPerceptron
from quatgraph.models.common import layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGINOptions(LayeredOptions):
    name: Literal["gin"] = "gin"


class GraphGIN(GraphModel):
    """`Graph isomorphism network <https://arxiv.org/abs/1810.00826>`_ (GIN-0), on a graph with
    self-loops and no normalization.

    The input and the vectors of each layer are summed over a graph and mapped to logits. The sum of
    these logits is the output.

    Args:
        hidden: Width of the layers.
        num_layers: Number of layers, each a perceptron of the sum over neighbours.
        pooled_dropout: Rate on the logits of each layer.

    Shape:
        - as in :class:`LayerwiseModel`
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
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers, num_classes)
        self.convs = nn.ModuleList(SumPerceptron(a, b) for a, b in sizes[:-1])
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.convs)
        self.predictions = nn.ModuleList(LinearOfSums(width, num_classes) for width, _ in sizes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        first, *others = self.predictions
        scores = self.dropout(first(x, pool))
        for layer, prediction in zip(self._encode(x, adjacency, pool), others, strict=True):
            scores = scores + self.dropout(prediction(layer, pool))
        return scores

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The summed vectors of each layer, without the input's, ``(G, num_layers * hidden)``."""
        return torch.cat([pool @ layer for layer in self._encode(x, adjacency, pool)], dim=-1)

    def _encode(self, x: Features, adjacency: Matrix, pool: Matrix) -> Iterator[Tensor]:
        """The vectors of all nodes after each layer, ``(N, hidden)`` each."""
        _, nodes = padding_masks(pool, self.dropout.rate)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            y: Tensor = norm(conv(x, adjacency, nodes), nodes)
            yield y
            x = y
