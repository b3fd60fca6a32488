"""Logistic regression."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers.linear import RealLinear
from quatgraph.models.node.base import Edges, NodeModel, NodeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearOptions(NodeOptions):
    name: Literal["linear"] = "linear"


class Linear(NodeModel):
    """Multinomial logistic regression on a node's own features; ``train.weight_decay`` is its only
    hyperparameter. All weights start at zero: the loss is convex, so runs differ in nothing else.

    Args:
        in_channels, num_classes: As in :class:`GCN`.
    """

    Options = LinearOptions

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.prediction = RealLinear(in_channels, num_classes)
        for parameter in self.prediction.parameters():
            nn.init.zeros_(parameter)

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        return self.prediction(x)
