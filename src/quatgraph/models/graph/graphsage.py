"""GraphSAGE."""

from dataclasses import dataclass
from typing import Literal

import torch

from quatgraph.layers.real import NeighbourMean
from quatgraph.models.graph.base import Matrix
from quatgraph.models.graph.layerwise import LayerwiseModel, LayerwiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSAGEOptions(LayerwiseOptions):
    name: Literal["sage"] = "sage"

    @property
    def matrix(self) -> Matrix:
        return "neighbours"


class GraphSAGE(LayerwiseModel):
    """`GraphSAGE <https://arxiv.org/abs/1706.02216>`_ with the mean of all neighbours; its matrix
    is row-normalised and has no self-loops.

    Args:
        hidden, num_layers, dropout, pooled_dropout, per_layer: As in :class:`GraphGCN`.
    """

    Options = GraphSAGEOptions

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
            NeighbourMean,
            torch.relu,
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
        )
