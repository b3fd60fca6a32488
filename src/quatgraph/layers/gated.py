"""Gated graph networks, quaternion and real."""

import math
from typing import ClassVar

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.linear import Edges, GlorotLinear, QuaternionLinear
from quatgraph.ops import gated_step, hamilton_matrix
from quatgraph.ops.activation import Activation


class GatedQGNNConv(nn.Module):
    r"""The Gated Quaternion GNN of the paper's appendix: several steps with shared weights.

    .. math::
        \mathbf{a}_v &= \sum_{u \in \mathcal{N}_v} a_{v,u} \mathbf{h}_u \\
        \mathbf{z}_v &= \sigma\big(\mathbf{W}^z \otimes \mathbf{a}_v
            + \mathbf{U}^z \otimes \mathbf{h}_v + \mathbf{b}^z\big) \\
        \mathbf{r}_v &= \sigma\big(\mathbf{W}^r \otimes \mathbf{a}_v
            + \mathbf{U}^r \otimes \mathbf{h}_v + \mathbf{b}^r\big) \\
        \tilde{\mathbf{h}}_v &= g\big(\mathbf{W}^o \otimes \mathbf{a}_v
            + \mathbf{U}^o \otimes (\mathbf{r}_v \odot \mathbf{h}_v) + \mathbf{b}^o\big) \\
        \mathbf{h}'_v &= (1 - \mathbf{z}_v) \odot \mathbf{h}_v
            + \mathbf{z}_v \odot \tilde{\mathbf{h}}_v

    Matrices that multiply the same vector are stacked. :func:`quatgraph.ops.gated_step` computes
    one step.

    Args:
        width: Real width of a node's vector, a multiple of four.
        steps: Number of updates.
        bias: Whether the gates and the candidate have biases; the paper and its code have none.
        activation: g, applied to each component.

    Shape:
        - x: ``(N, width)``
        - edge_index: a prepared :class:`Adjacency` or :class:`Blocks` of N nodes, used unchanged;
          or ``(2, E)``, which is normalized symmetrically, without self-loops
        - edge_weight: ``(E,)``
        - output: ``(N, width)``
        - with several members, all of these and the parameters have a leading ``M``

    Example:
        >>> import torch
        >>> conv = GatedQGNNConv(64)
        >>> conv(torch.randn(3, 64), torch.tensor([[0, 1], [1, 0]])).shape
        torch.Size([3, 64])
    """

    components = 4
    """Reals per number: 4 for quaternions."""
    linear: ClassVar[type[QuaternionLinear] | type[GlorotLinear]] = QuaternionLinear

    def __init__(
        self, width: int, *, steps: int = 2, bias: bool = False, activation: Activation = "relu"
    ) -> None:
        super().__init__()
        if steps < 1:
            raise UserError(f"a gated layer needs at least one step, got steps={steps}")
        self.width, self.steps, self.activation = width, steps, activation
        self.of_sum = self.linear(width, 3 * width, bias=bias)  # W of z, of r, of the candidate
        self.of_own = self.linear(width, 2 * width, bias=False)  # U of z, of r
        self.of_reset = self.linear(width, width, bias=False)  # U of the candidate
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes each of the six matrices like a layer of its own (Glorot)."""
        bound = math.sqrt(6.0 / (self.width // self.components + self.width))
        for layer in (self.of_sum, self.of_own, self.of_reset):
            layer.reset_parameters()
            nn.init.uniform_(layer.weight, -bound, bound)

    def forward(self, x: Tensor, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        if not isinstance(edge_index, Blocks):
            edge_index = Adjacency.of(edge_index, x.size(-2), edge_weight, self_loops=False)
        of_sum = self._group_by_matrix(self._matrix(self.of_sum.weight), 3)
        of_own = self._group_by_matrix(self._matrix(self.of_own.weight), 2)
        of_reset, bias = self._matrix(self.of_reset.weight), None
        if self.of_sum.bias is not None:
            bias = self._group_by_matrix(self.of_sum.bias[..., None], 3).squeeze(-1)
        for _ in range(self.steps):
            x = gated_step(x, edge_index @ x, of_sum, of_own, of_reset, bias, self.activation)
        return x

    def _matrix(self, weight: Tensor) -> Tensor:
        """The real matrix of a layer's weights."""
        return hamilton_matrix(weight)

    def _group_by_matrix(self, matrix: Tensor, count: int) -> Tensor:
        """Groups rows by matrix instead of by component:
        ``(components count size, K) -> (count components size, K)``."""
        parts = matrix.unflatten(-2, (self.components, count, -1))
        return parts.transpose(-4, -3).flatten(-4, -2)

    def extra_repr(self) -> str:
        return f"{self.width}, steps={self.steps}"


class GatedGNNConv(GatedQGNNConv):
    """`Gated graph network <https://arxiv.org/abs/1511.05493>`_ as in TextING: real matrices, with
    four times the weights."""

    components = 1
    linear = GlorotLinear

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight
