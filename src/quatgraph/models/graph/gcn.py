"""Graph convolutional network, the real twin of QGNN."""

from dataclasses import dataclass
from typing import Literal

import torch

from quatgraph.adjacency import Normalization
from quatgraph.layers.real import GraphConv
from quatgraph.models.graph.base import Matrix
from quatgraph.models.graph.layerwise import LayerwiseModel, LayerwiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGCNOptions(LayerwiseOptions):
    name: Literal["gcn"] = "gcn"
    normalization: Normalization = "none"
    """Of the adjacency matrix with self-loops."""

    @property
    def matrix(self) -> Matrix:
        return self.normalization


class GraphGCN(LayerwiseModel):
    """`Graph convolutional network <https://arxiv.org/abs/1609.02907>`_: the real twin of QGNN, on
    the same matrix, with self-loops.

    Args:
        hidden, num_layers, dropout, pooled_dropout, per_layer: As in :class:`GraphQGNN`, with
            ``hidden`` counted in reals.

    Shape:
        - as :class:`GraphQGNN`
    """

    Options = GraphGCNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
    ) -> None:
        super().__init__(
            lambda a, b: GraphConv(a, b, bias=False),
            torch.relu,
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
        )
