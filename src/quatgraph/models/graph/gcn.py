"""Graph convolutional network, the real counterpart of QGNN."""

from dataclasses import dataclass
from typing import Literal

from torch import nn

from quatgraph.adjacency import Normalization
from quatgraph.layers.real import GraphConv
from quatgraph.models.graph.layerwise import LayerwiseModel, LayerwiseOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphGCNOptions(LayerwiseOptions):
    name: Literal["gcn"] = "gcn"
    normalization: Normalization = "none"
    """Normalization of the adjacency matrix with self-loops."""


class GraphGCN(LayerwiseModel):
    """`Graph convolutional network <https://arxiv.org/abs/1609.02907>`_, the real counterpart of
    QGNN. For arguments and shapes see :class:`LayerwiseModel`.
    """

    Options = GraphGCNOptions

    def conv(self, in_channels: int, out_channels: int) -> nn.Module:
        return GraphConv(in_channels, out_channels, bias=False)
