r"""Graph convolutions with an initial residual and an identity map, for deep networks.

.. math::
    \mathbf{H}' = \big((1 - \alpha) \mathbf{A H} + \alpha \mathbf{H}_0\big)
    \big((1 - \beta) \mathbf{I} + \beta \mathbf{W}\big)^\top, \qquad
    \beta = \log(1 + \theta / l)

for the l-th layer. With ``shared_weights=False``, :math:`\mathbf{H}_0` is multiplied by a matrix of
its own instead of :math:`\mathbf{W}`. The layers are called like PyG's ``GCN2Conv``, whose equation
this is, without the activation.
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
        shared_weights: Whether the sums and the first layer's vectors have the same W.

    Shape:
        - x: ``(N, channels)``
        - x_0: ``(N, channels)``, the vectors before the first layer
        - edge_index: ``(2, E)``, to which self-loops are added and which is normalized
          symmetrically, or a prepared :class:`Adjacency` or :class:`Blocks` of N nodes
        - edge_weight: ``(E,)``
        - output: ``(N, channels)``
    """

    linear: QuaternionLinear | GlorotLinear
    initial_linear: QuaternionLinear | GlorotLinear | None

    def __init__(
        self,
        channels: int,
        alpha: float,
        theta: float = 0.5,
        layer: int = 1,
        shared_weights: bool = True,
    ) -> None:
        super().__init__()
        if not 0 <= alpha < 1:
            raise UserError(f"alpha must be at least 0 and less than 1, got {alpha}")
        if theta < 0 or layer < 1:
            raise UserError(
                f"theta must be at least 0 and layer at least 1, got {theta} and {layer}"
            )
        self.channels, self.alpha, self.beta = channels, alpha, math.log(1 + theta / layer)
        self.linear = self.build_linear()
        self.initial_linear = None if shared_weights else self.build_linear()

    @abstractmethod
    def build_linear(self) -> QuaternionLinear | GlorotLinear:
        """A module with the weights of one W."""

    @abstractmethod
    def matrix(self, weight: Tensor) -> Tensor:
        """W, ``(channels, channels)``."""

    def forward(
        self, x: Tensor, x_0: Tensor, edge_index: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = edge_index
        if not isinstance(graph, Blocks):
            dtype = x.dtype if x.dtype == torch.float64 else None
            graph = Adjacency.of(graph, x.size(-2), edge_weight, dtype=dtype)
        return self.update(graph @ x, x_0)

    def update(self, sums: Tensor, x_0: Tensor) -> Tensor:
        """The output from the sums over neighbours."""
        # Factors of large matrices move to the small one: one operation less on the large ones.
        if self.initial_linear is None:
            sums = torch.add(sums, x_0, alpha=self.alpha / (1 - self.alpha))
            return sums @ self._mixing(self.linear.weight, 1 - self.alpha).mT
        initial = x_0 @ self._mixing(self.initial_linear.weight, self.alpha).mT
        return sums @ self._mixing(self.linear.weight, 1 - self.alpha).mT + initial

    def _mixing(self, weight: Tensor, share: float) -> Tensor:
        """The right factor of the equation for the weights of a W, times a share."""
        weight = self.matrix(weight)
        identity = torch.eye(self.channels, device=weight.device, dtype=weight.dtype)
        return torch.add(share * (1 - self.beta) * identity, weight, alpha=share * self.beta)

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

    def build_linear(self) -> QuaternionLinear:
        return QuaternionLinear(self.channels, self.channels)

    def matrix(self, weight: Tensor) -> Tensor:
        return hamilton_matrix(weight)


class ResidualGraphConv(ResidualConv):
    """PyG's ``GCN2Conv``."""

    def build_linear(self) -> GlorotLinear:
        return GlorotLinear(self.channels, self.channels, bias=False)

    def matrix(self, weight: Tensor) -> Tensor:
        return weight
