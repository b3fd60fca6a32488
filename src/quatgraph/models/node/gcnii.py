"""GCNII."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers.linear import RealLinear
from quatgraph.layers.residual import ResidualGraphConv
from quatgraph.models.node.base import ResidualModel, ResidualOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GCNIIOptions(ResidualOptions):
    name: Literal["gcnii"] = "gcnii"


class GCNII(ResidualModel):
    """`Simple and deep graph convolutional network <https://arxiv.org/abs/2007.02133>`_, the real
    counterpart of :class:`DeepQGNN`.

    Args:
        in_channels, num_classes, hidden, num_layers, dropout: As in :class:`GCN`.
        alpha, theta, shared_weights: As in :class:`quatgraph.layers.residual.ResidualConv`.
    """

    Options = GCNIIOptions
    Conv = ResidualGraphConv

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 64,
        num_layers: int = 16,
        dropout: float = 0.5,
        alpha: float = 0.1,
        theta: float = 0.5,
        shared_weights: bool = True,
    ) -> None:
        super().__init__(
            RealLinear(in_channels, hidden),
            hidden,
            num_classes,
            num_layers=num_layers,
            dropout=dropout,
            alpha=alpha,
            theta=theta,
            shared_weights=shared_weights,
        )
