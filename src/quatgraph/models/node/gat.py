"""Graph attention network."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import GlorotLinear
from quatgraph.layers.real import GraphAttention, check_heads
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.node.base import ConvModel, NodeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GATOptions(NodeOptions):
    name: Literal["gat"] = "gat"
    skip: bool = True
    """Whether layers have a skip connection with weights."""
    heads: Count = 8
    """Attention heads."""

    def __post_init__(self) -> None:
        NodeOptions.__post_init__(self)
        check_heads(self.width, self.heads)

    def num_activations(self, nodes: int, edges: int) -> int:
        return NodeOptions.num_activations(self, nodes, edges) + 12 * self.heads * edges


class GAT(ConvModel):
    """`Graph attention network <https://arxiv.org/abs/1710.10903>`_; its graph has self-loops
    and no normalisation. One head in the prediction layer.

    Args:
        hidden: Total width of a hidden layer's heads.
        heads: Attention heads of the hidden layers.
        dropout: Rate on the input of every layer and on the attention coefficients.
        skip: Whether each layer adds a linear map of the node's own vector.
    """

    Options = GATOptions
    activation = "elu"

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 64,
        num_layers: int = 1,
        heads: int = 8,
        dropout: float = 0.6,
        skip: bool = False,
    ) -> None:
        super().__init__()
        sizes = layer_sizes(in_channels, hidden, num_layers, num_classes)
        check_heads(hidden, heads)
        self.convs = nn.ModuleList(
            GraphAttention(a, b // heads, heads=heads, dropout=dropout) for a, b in sizes[:-1]
        )
        self.convs.append(GraphAttention(hidden, num_classes, dropout=dropout))
        self.owns = nn.ModuleList(GlorotLinear(a, b, bias=False) for a, b in sizes if skip)
        self.dropout = QuaternionDropout(dropout)
