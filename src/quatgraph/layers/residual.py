r"""Graph convolutions with an initial residual and an identity map, for deep networks.

.. math::
    \mathbf{H}' = \big((1 - \alpha) \mathbf{A H} + \alpha \mathbf{H}_0\big)
    \big((1 - \beta) \mathbf{I} + \beta \mathbf{W}\big)^\top, \qquad
    \beta = \log(1 + \theta / l)

for the l-th layer. The layers are called like PyG's ``GCN2Conv``, whose equation this is, without
the activation.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.linear import Edges, GlorotLinear, QuaternionLinear
from quatgraph.ops import hamilton_matrix


class ResidualConv(nn.Module, ABC):
    """The equation above, for a W that a subclass defines.

    Args:
        channels: Real width of input and output.
        alpha: The share of the first layer's vectors, in [0, 1).
        theta: How much the layers mix channels, at least 0.
        layer: The number l of the layer, from 1.

    Shape:
        - x: ``(N, channels)``
        - x_0: ``(N, channels)``, the vectors before the first layer
        - edge_index: ``(2, E)``, to which self-loops are added and which is normalized
          symmetrically, or a prepared :class:`Adjacency` or :class:`Blocks` of N nodes
        - edge_weight: ``(E,)``
        - output: ``(N, channels)``
    """

    def __init__(self, channels: int, alpha: float, theta: float = 0.5, layer: int = 1) -> None:
        super().__init__()
        if not 0 <= alpha < 1:
            raise UserError(f"alpha must be at least 0 and less than 1, got {alpha}")
        if theta < 0 or layer < 1:
            raise UserError(
                f"theta must be at least 0 and layer at least 1, got {theta} and {layer}"
            )
        self.channels, self.alpha, self.beta = channels, alpha, math.log(1 + theta / layer)

    @abstractmethod
    def matrix(self) -> Tensor:
        """W, ``(channels, channels)``."""

    def forward(
        self, x: Tensor, x_0: Tensor, edge_index: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = edge_index
        if not isinstance(graph, Blocks):
            dtype = x.dtype if x.dtype == torch.float64 else None
            graph = Adjacency.of(graph, x.size(-2), edge_weight, dtype=dtype)
        # A factor 1 - alpha moves to the small matrix: one operation less on the large ones.
        sums = torch.add(graph @ x, x_0, alpha=self.alpha / (1 - self.alpha))
        return sums @ self._mixing().mT

    def _mixing(self) -> Tensor:
        """The right factor of the equation, times 1 - alpha."""
        weight = self.matrix()
        identity = torch.eye(self.channels, device=weight.device, dtype=weight.dtype)
        own, mixed = (1 - self.alpha) * (1 - self.beta), (1 - self.alpha) * self.beta
        return torch.add(own * identity, weight, alpha=mixed)

    def extra_repr(self) -> str:
        return f"{self.channels}, alpha={self.alpha}, beta={self.beta:.4g}"


class ResidualQGNNConv(ResidualConv):
    """:class:`ResidualConv` with a quaternion matrix W: a quarter of the weights of
    :class:`ResidualGraphConv`. The identity is a quaternion matrix too.

    Example:
        >>> conv, x = ResidualQGNNConv(64, alpha=0.1), torch.randn(3, 64)
        >>> conv(x, x, torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 64])
    """

    def __init__(self, channels: int, alpha: float, theta: float = 0.5, layer: int = 1) -> None:
        super().__init__(channels, alpha, theta, layer)
        self.linear = QuaternionLinear(channels, channels)

    def matrix(self) -> Tensor:
        return hamilton_matrix(self.linear.weight)


class ResidualGraphConv(ResidualConv):
    """PyG's ``GCN2Conv`` with shared weights."""

    def __init__(self, channels: int, alpha: float, theta: float = 0.5, layer: int = 1) -> None:
        super().__init__(channels, alpha, theta, layer)
        self.linear = GlorotLinear(channels, channels, bias=False)

    def matrix(self) -> Tensor:
        return self.linear.weight
