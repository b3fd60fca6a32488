"""The quaternion counterpart of :class:`torch.nn.Linear`, and real linear layers."""

import math

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix_tiled, quats, right_matrix
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.ops import hamilton_linear, hamilton_matrix, lookup
from quatgraph.ops.members import add_bias

Features = Tensor | Adjacency | Codes
"""Rows of features: dense, sparse or one-hot."""
Matrix = Adjacency | Blocks
"""A prepared graph, or a pooling matrix."""
Edges = Tensor | Matrix
"""A plain ``edge_index``, or a prepared graph."""


class QuaternionLinear(nn.Module):
    r"""Multiplies a quaternion vector by a quaternion matrix.

    .. math:: \mathbf{y} = \mathbf{W} \otimes \mathbf{x} + \mathbf{b}

    The four components of :math:`\mathbf{x}` share the four components of :math:`\mathbf{W}`, so
    the layer has a quarter of the weights of a real layer of the same width.

    Args:
        in_features: Real width of the input, a multiple of four unless ``tiled``.
        out_features: Real width of the output, a multiple of four.
        bias: Whether to add a learned quaternion vector.
        tiled: Whether the input is a real vector that stands for a quaternion vector with four
            equal components, as in Section 5.1 of the paper. Such a layer also takes the four
            components, which differ after dropout.

    Shape:
        - x: ``(..., in_features)``, and ``(..., 4 * in_features)`` if ``tiled``; an
          :class:`Adjacency` if sparse, :class:`Codes` if one-hot
        - product_dtype: see :func:`hamilton_linear`
        - output: ``(..., out_features)``

    Example:
        >>> layer = QuaternionLinear(32, 64)
        >>> layer(torch.randn(5, 32)).shape
        torch.Size([5, 64])
    """

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = False, tiled: bool = False
    ) -> None:
        super().__init__()
        self.in_quats = in_features if tiled else quats(in_features)
        self.out_quats = quats(out_features)
        self.tiled = tiled
        self.weight = nn.Parameter(torch.empty(4, self.out_quats, self.in_quats))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes like the released code: Glorot over ``in_quats + 4 * out_quats``."""
        bound = math.sqrt(6.0 / (self.in_quats + 4 * self.out_quats))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, product_dtype: torch.dtype | None = None) -> Tensor:
        width = x.shape[-1]
        is_tiled = self.tiled and width == self.in_quats
        if not is_tiled and width != 4 * self.in_quats:
            expected = self.in_quats if self.tiled else 4 * self.in_quats
            raise UserError(f"{self} takes inputs of width {expected}, got {width}")
        if isinstance(x, Tensor):
            if not x.is_floating_point():
                raise UserError(f"{self} takes real numbers, got {x.dtype}: use x.float()")
            return hamilton_linear(
                x, self.weight, self.bias, tiled=is_tiled, product_dtype=product_dtype
            )
        if isinstance(x, Codes) and not is_tiled:
            y = self._product_with_codes(x)
        else:
            matrix = (hamilton_matrix_tiled if is_tiled else hamilton_matrix)(self.weight)
            y = x @ matrix.mT
        return add_bias(y, self.bias)

    def _product_with_codes(self, x: Codes) -> Tensor:
        """The product with one-hot rows, each scaled by a quaternion: looks up the row's column of
        the matrix and multiplies its quaternions by the scale."""
        if not self.tiled:
            raise UserError(f"{self} takes quaternion vectors; only a tiled layer takes codes")
        column = lookup(self.weight.flatten(-3, -2).mT, x.code).unflatten(-1, (4, self.out_quats))
        return (right_matrix(x.weight) @ column).flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.in_quats} -> {self.out_quats} quaternions, tiled={self.tiled}"


class RealLinear(nn.Linear):
    """:class:`torch.nn.Linear` that also takes sparse and one-hot rows, and members.

    Shape:
        - x: ``(..., in_features)``
        - output: ``(..., out_features)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def forward(self, x: Features) -> Tensor:
        if isinstance(x, Tensor) and self.weight.dim() == 2:
            return super().forward(x)
        return add_bias(x @ self.weight.mT, self.bias)


class GlorotLinear(RealLinear):
    """The real counterpart of :class:`QuaternionLinear`, with Glorot initialization."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
