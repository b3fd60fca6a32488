"""Graph classifiers whose layers are all read: the vectors of each, summed over a graph."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.layers import LayerwiseReadout, QuaternionDropout
from quatgraph.layers.real import Features, Matrix
from quatgraph.models.common import check_layers
from quatgraph.models.graph.base import GraphModel, GraphOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerwiseOptions(GraphOptions):
    dropout: float = 0.5
    """Rate on the input of every layer."""
    per_layer: bool = True
    """Whether the last linear map starts as one map per layer, each with a bias."""
    of_reals: ClassVar[bool] = True

    def __post_init__(self) -> None:
        GraphOptions.__post_init__(self)
        configs.check(self, "model", rates=("dropout",))


class LayerwiseModel(GraphModel):
    """Layers one after the other; the vectors of all of them, summed over a graph, tell its class.

    Args:
        layer: Makes a layer of the given widths.
        activation: Of every layer.
        hidden: Width of the layers.
        num_layers: Number of layers.
        dropout: Rate on the input of every layer.
        pooled_dropout: Rate on the summed vectors.
        per_layer: See :class:`LayerwiseReadout`.

    Shape:
        - x: ``(N, in_channels)``, dense, sparse or one-hot
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, which nodes each graph has
        - output: logits ``(G, C)``
    """

    def __init__(
        self,
        layer: Callable[[int, int], nn.Module],
        activation: Callable[[Tensor], Tensor],
        in_channels: int,
        num_classes: int,
        *,
        hidden: int,
        num_layers: int,
        dropout: float,
        pooled_dropout: float,
        per_layer: bool,
    ) -> None:
        super().__init__()
        check_layers(num_layers)
        widths = [hidden] * num_layers
        self.convs = nn.ModuleList(layer(a, b) for a, b in pairwise([in_channels, *widths]))
        self.activation = activation
        self.dropout = QuaternionDropout(dropout)
        self.readout = LayerwiseReadout(
            widths, num_classes, dropout=pooled_dropout, per_layer=per_layer
        )

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        layers: list[Tensor] = []
        for conv in self.convs:
            x = self.activation(conv(self.dropout(x), adjacency))
            layers.append(x)
        return self.readout(layers, pool)
