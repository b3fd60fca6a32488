"""Simple graph convolution."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.layers.linear import RealLinear
from quatgraph.models.common import Count
from quatgraph.models.node.base import Edges, NodeModel, NodeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SGCOptions(NodeOptions):
    name: Literal["sgc"] = "sgc"
    num_hops: Count = 2
    """How often features are averaged over neighbours."""
    normalization: Normalization = "symmetric"
    """Normalization of the adjacency matrix with self-loops."""

    @property
    def propagations(self) -> int:
        return self.num_hops


class SGC(NodeModel):
    r"""`Simple graph convolution <https://arxiv.org/abs/1902.07153>`_: logistic regression on
    propagated features :math:`\mathbf{A}^K \mathbf{X}`.

    Args:
        in_channels, num_classes: As in :class:`GCN`.
        num_hops: K.

    Shape:
        - adjacency: as in :class:`GCN`; None if x is propagated already, as training does once
    """

    Options = SGCOptions

    def __init__(self, in_channels: int, num_classes: int, *, num_hops: int = 2) -> None:
        super().__init__()
        self.num_hops = num_hops
        self.prediction = RealLinear(in_channels, num_classes)

    def forward(
        self,
        x: Tensor | Adjacency,
        adjacency: Edges | None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        if adjacency is None:
            return self.prediction(x)
        matrix = self.prepare(x, adjacency, edge_weight)
        assert isinstance(matrix, Adjacency)
        y = x @ self.prediction.weight.mT  # all maps are linear, and this one leaves fewer columns
        for _ in range(self.num_hops):
            y = matrix @ y
        return y + self.prediction.bias

    def embed(
        self,
        x: Tensor | Adjacency,
        adjacency: Edges | None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        return self(x, adjacency, edge_weight)
