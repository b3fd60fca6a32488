"""Graph attention network."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import GlorotLinear
from quatgraph.layers.real import GraphAttention, check_heads
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.node.base import ConvModel, HiddenOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GATOptions(HiddenOptions):
    name: Literal["gat"] = "gat"
    skip: bool = True
    """Whether layers have a learned skip connection."""
    heads: Count = 8
    """Number of attention heads."""

    def __post_init__(self) -> None:
        HiddenOptions.__post_init__(self)
        check_heads(self.width, self.heads)

    def num_activations(self, nodes: int, edges: int) -> int:
        return HiddenOptions.num_activations(self, nodes, edges) + 12 * self.heads * edges


class GAT(ConvModel):
    """`Graph attention network <https://arxiv.org/abs/1710.10903>`_, on a graph with self-loops and
    no normalization.

    Args:
        hidden: Total width of the heads of a hidden layer.
        heads: Attention heads of a hidden layer; the prediction layer has one.
        dropout: Rate on the input of every layer and on the attention coefficients.
        in_channels, num_classes, num_layers, skip: As in :class:`GCN`.
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
        self.input_dropout = self.dropout = QuaternionDropout(dropout)
