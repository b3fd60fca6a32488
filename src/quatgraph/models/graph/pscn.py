"""PATCHY-SAN."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import Count, Rate
from quatgraph.models.graph.base import GraphModel, GraphOptions
from quatgraph.ops.dense_batch import slide_window, to_dense_batch
from quatgraph.ops.members import add_bias

_FILTERS, _WIDTH, _DENSE = (16, 8), 10, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphPSCNOptions(GraphOptions):
    name: Literal["pscn"] = "pscn"
    num_fields: Count = 18
    """Nodes of a graph that have a field; smaller graphs are padded with zeros."""
    field_size: Count = 10
    """Nodes of a field."""
    pooled_dropout: Rate = 0.5
    """Dropout rate on the vector of a graph."""

    @property
    def width(self) -> int:
        return _FILTERS[0]

    @property
    def field_shape(self) -> tuple[int, int]:
        return self.num_fields, self.field_size

    def num_activations(self, nodes: int, entries: int) -> int:
        return 8 * nodes * self.width

    def num_held(self, nodes: int) -> int:
        # Distances of all pairs of nodes, and what counts paths.
        return nodes**2 + 2048 * nodes + 4 * self.num_fields * self.field_size * self.width


class GraphPSCN(GraphModel):
    r"""`PATCHY-SAN <https://arxiv.org/abs/1605.05273>`_: a convolutional network on the receptive
    fields of a graph (:mod:`quatgraph.tasks.graph.fields`), which are computed once.

    The first convolution maps each field to 16 channels, the second maps 10 adjacent fields at a
    time to 8 channels, both with ReLU. A perceptron with a hidden layer of 128 follows.

    Args:
        in_channels: Number of codes of a place of a field, over all places.
        num_classes: Number of classes C.
        num_fields: Fields of a graph.
        field_size: Places of a field.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - x: the places of all fields, field by field, one-hot
        - adjacency: ignored
        - pool: ``(G, N)``, the places of each graph
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphPSCNOptions
    supports_members = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        num_fields: int = 18,
        field_size: int = 10,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_fields, self.field_size = num_fields, field_size
        self.conv_width = min(_WIDTH, num_fields)
        self.field_conv = GlorotLinear(in_channels, _FILTERS[0], bias=False)
        self.field_bias = nn.Parameter(torch.zeros(_FILTERS[0]))
        self.conv = GlorotLinear(self.conv_width * _FILTERS[0], _FILTERS[1])
        self.dense = GlorotLinear((num_fields - self.conv_width + 1) * _FILTERS[1], _DENSE)
        self.prediction = GlorotLinear(_DENSE, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool)))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        shape = self.num_fields, self.field_size
        places = to_dense_batch(self.field_conv(x), boundaries(pool), shape[0] * shape[1])
        fields = places.unflatten(-2, shape).sum(dim=-2)  # (G, num_fields, 16)
        graphs = fields.size(-3)
        y = torch.relu(add_bias(fields.flatten(-3, -2), self.field_bias))
        windows = slide_window(y.unflatten(-2, (graphs, -1)), self.conv_width)
        y = torch.relu(self.conv(windows.flatten(-3, -2)))
        return torch.relu(self.dense(y.unflatten(-2, (graphs, -1)).flatten(-2)))
