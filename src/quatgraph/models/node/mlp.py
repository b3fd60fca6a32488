"""Multilayer perceptron."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import GlorotLinear
from quatgraph.models.common import layer_sizes
from quatgraph.models.node.base import Edges, InputOptions, NodeModel, build_input_dropout


@dataclass(frozen=True, slots=True, kw_only=True)
class MLPOptions(InputOptions):
    name: Literal["mlp"] = "mlp"

    @property
    def hops(self) -> int:
        return 0


class MLP(NodeModel):
    """A perceptron on a node's own features: a baseline that shows what the graph adds.

    Args:
        in_channels, num_classes, hidden, num_layers, dropout, input_dropout: As in :class:`GCN`.
    """

    Options = MLPOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 1,
        dropout: float = 0.5,
        input_dropout: float | None = None,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers, num_classes)
        self.linears = nn.ModuleList(GlorotLinear(a, b) for a, b in sizes)
        self.dropout = QuaternionDropout(dropout)
        self.input_dropout = build_input_dropout(input_dropout, dropout)

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        return self.linears[-1](self.dropout(self.embed(x, adjacency)))

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        y = torch.relu(self.linears[0](self.input_dropout(x)))
        for linear in self.linears[1:-1]:
            y = torch.relu(linear(self.dropout(y)))
        return y
