"""GraphSAGE."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from quatgraph.layers.real import NeighbourMean
from quatgraph.models.graph.base import GraphNormalization
from quatgraph.models.graph.layerwise import LayerwiseModel, LayerwiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSAGEOptions(LayerwiseOptions):
    name: Literal["sage"] = "sage"

    @property
    def matrix(self) -> GraphNormalization:
        return "neighbours"


class GraphSAGE(LayerwiseModel):
    """`GraphSAGE <https://arxiv.org/abs/1706.02216>`_ with the mean over all neighbours, on a
    row-normalized graph without self-loops. For arguments and shapes see :class:`LayerwiseModel`.
    """

    Options = GraphSAGEOptions

    def conv(self, in_channels: int, out_channels: int) -> nn.Module:
        return NeighbourMean(in_channels, out_channels)
