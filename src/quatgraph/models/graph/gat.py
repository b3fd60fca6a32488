"""Graph attention network."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from quatgraph.layers.jumping import Jump
from quatgraph.layers.pooling import Pooling
from quatgraph.layers.readout import Head
from quatgraph.layers.real import GraphAttention, check_heads
from quatgraph.models.common import Count
from quatgraph.models.graph.layerwise import LayerwiseModel, LayerwiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGATOptions(LayerwiseOptions):
    name: Literal["gat"] = "gat"
    heads: Count = 4
    """Number of attention heads."""

    def __post_init__(self) -> None:
        LayerwiseOptions.__post_init__(self)
        check_heads(self.width, self.heads)

    def num_activations(self, nodes: int, entries: int) -> int:
        attention = 12 * self.heads * self.num_layers * entries
        return LayerwiseOptions.num_activations(self, nodes, entries) + attention


class GraphGAT(LayerwiseModel):
    """`Graph attention network <https://arxiv.org/abs/1710.10903>`_, on a graph with self-loops and
    no normalization.

    Args:
        hidden: Total width of the heads of a layer.
        heads: Attention heads of every layer.
        dropout: Rate on the input of every layer and on the attention coefficients.
        others: As in :class:`LayerwiseModel`.
    """

    Options = GraphGATOptions
    needs_entries = True
    activation = "elu"

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
        pooling: Pooling = "sum",
        jump: Jump = "concat",
        head: Head = "linear",
        virtual_node: bool = False,
    ) -> None:
        check_heads(hidden, heads)
        super().__init__(
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
            pooling=pooling,
            jump=jump,
            head=head,
            virtual_node=virtual_node,
            heads=heads,
            attention_dropout=dropout,
        )

    def conv(
        self, in_channels: int, out_channels: int, *, heads: int = 4, attention_dropout: float = 0.0
    ) -> nn.Module:
        return GraphAttention(
            in_channels, out_channels // heads, heads=heads, dropout=attention_dropout
        )
