"""Graph convolutional network."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import GlorotLinear
from quatgraph.layers.real import GraphConv
from quatgraph.models.common import layer_sizes
from quatgraph.models.node.base import ConvModel, ConvOptions, build_input_dropout


@dataclass(frozen=True, slots=True, kw_only=True)
class GCNOptions(ConvOptions):
    name: Literal["gcn"] = "gcn"


class GCN(ConvModel):
    """`Graph convolutional network <https://arxiv.org/abs/1609.02907>`_, the real counterpart of
    QGNN.

    Args:
        in_channels: Number of features of a node.
        num_classes: Number of classes C.
        hidden: Width of the hidden layers.
        num_layers: Hidden layers before the prediction layer.
        dropout: Rate on the input of every layer.
        input_dropout: Rate on the features; ``dropout`` if None.
        skip: Whether each layer adds a linear map of the node's own vector.
        bias: Whether layers have a bias.

    Shape:
        - x: ``(N, in_channels)``, dense or sparse
        - adjacency: of N nodes, prepared; or ``edge_index`` ``(2, E)``, to which self-loops are
          added
        - edge_weight: ``(E,)``, with ``edge_index``
        - output: logits ``(N, C)``
    """

    Options: ClassVar[type[ConvOptions]] = GCNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 1,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        skip: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers, num_classes)
        self.convs = nn.ModuleList(GraphConv(a, b, bias=bias) for a, b in sizes)
        self.owns = nn.ModuleList(GlorotLinear(a, b, bias=False) for a, b in sizes if skip)
        self.dropout = QuaternionDropout(dropout)
        self.input_dropout = build_input_dropout(input_dropout, dropout)
