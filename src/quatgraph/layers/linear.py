"""The quaternion counterpart of :class:`torch.nn.Linear`, and real layers for comparison."""

import math

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix_tiled, quats, right_matrix
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
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

    The four components of :math:`\mathbf{W}` are shared by the four components of
    :math:`\mathbf{x}`, so the layer holds a quarter of the weights of a real one of its width.

    Args:
        in_features: Width of the input, a multiple of four (any width if ``tiled``).
        out_features: Width of the output, a multiple of four.
        bias: Whether to add a learned quaternion vector.
        tiled: Whether the input is a real vector that represents the quaternion vector whose four
            components all equal it, as in Section 5.1 of the paper. Such a layer also takes the
            four components themselves, which dropout makes different.

    Shape:
        - x: ``(..., in_features)``, or sparse rows as an :class:`Adjacency`, or one-hot rows as
          :class:`Codes`; if ``tiled`` also ``(..., 4 * in_features)``
        - output: ``(..., out_features)``; a ``product_dtype`` is that of :func:`hamilton_linear`

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
        """Initialises as the released code does: Glorot over ``in_quats + 4 * out_quats``."""
        bound = math.sqrt(6.0 / (self.in_quats + 4 * self.out_quats))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, product_dtype: torch.dtype | None = None) -> Tensor:
        width = x.shape[-1]
        is_tiled = self.tiled and width == self.in_quats
        if not is_tiled and width != 4 * self.in_quats:
            expected = self.in_quats if self.tiled else 4 * self.in_quats
            raise Mistake(f"{self} takes inputs {expected} wide, got {width}")
        if isinstance(x, Tensor):
            if not x.is_floating_point():
                raise Mistake(f"{self} takes real numbers, got {x.dtype}: use x.float()")
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
        """The product with one-hot rows, each scaled by a quaternion: a column of the matrix, whose
        quaternions are multiplied by it."""
        if not self.tiled:
            raise Mistake(f"{self} takes quaternion vectors; only a tiled layer takes codes")
        column = lookup(self.weight.flatten(-3, -2).mT, x.code).unflatten(-1, (4, self.out_quats))
        return (right_matrix(x.weight) @ column).flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.in_quats} -> {self.out_quats} quaternions, tiled={self.tiled}"


class RealLinear(nn.Linear):
    """:class:`torch.nn.Linear` that also takes sparse and one-hot rows, and members.

    Shape:
        - x: ``(..., in_features)``
        - output: ``(..., out_features)``
        - with members ``(M, N, ...)``; the parameters have a leading ``M`` too
    """

    def forward(self, x: Features) -> Tensor:
        if isinstance(x, Tensor) and self.weight.dim() == 2:
            return super().forward(x)
        return add_bias(x @ self.weight.mT, self.bias)


class GlorotLinear(RealLinear):
    """The real counterpart of :class:`QuaternionLinear`, with Glorot initialisation."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
