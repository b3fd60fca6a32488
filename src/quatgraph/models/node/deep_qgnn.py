"""Deep QGNN: quaternion layers with an initial residual and an identity map."""

from dataclasses import dataclass
from typing import Literal

from quatgraph.layers import QuaternionLinear
from quatgraph.layers.residual import ResidualQGNNConv
from quatgraph.models.node.base import ResidualModel, ResidualOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepQGNNOptions(ResidualOptions):
    name: Literal["deep-qgnn"] = "deep-qgnn"


class DeepQGNN(ResidualModel):
    r"""A quaternion layer on features, then many that mix quaternions a little and stay close to
    the first one's output, then a real prediction layer.

    .. math::
        \mathbf{H}_l = \mathrm{relu}\Big(\big((1 - \alpha) \mathbf{A H}_{l-1}
        + \alpha \mathbf{H}_0\big) \big((1 - \beta_l) \mathbf{I} + \beta_l \mathbf{W}_l\big)^\top
        \Big), \qquad \beta_l = \log(1 + \theta / l)

    The :math:`\mathbf{W}_l` are quaternion matrices. Each feature stands for four equal components,
    as in :class:`QGNN`.

    Args:
        hidden_quats: Quaternions per layer.
        in_channels, num_classes, num_layers, dropout: As in :class:`GCN`.
        alpha, theta, shared_weights: As in :class:`quatgraph.layers.residual.ResidualConv`.

    Example:
        >>> import torch
        >>> DeepQGNN(16, 3)(torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
        torch.Size([4, 3])
    """

    Options = DeepQGNNOptions
    Conv = ResidualQGNNConv

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden_quats: int = 16,
        num_layers: int = 16,
        dropout: float = 0.5,
        alpha: float = 0.1,
        theta: float = 0.5,
        shared_weights: bool = True,
    ) -> None:
        hidden = 4 * hidden_quats
        super().__init__(
            QuaternionLinear(in_channels, hidden, bias=True, tiled=True),
            hidden,
            num_classes,
            num_layers=num_layers,
            dropout=dropout,
            alpha=alpha,
            theta=theta,
            shared_weights=shared_weights,
        )
