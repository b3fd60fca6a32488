"""The quaternion counterpart of :class:`torch.nn.Linear`, and real ones in its form."""

import math

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix_tiled, quats, right_matrix
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.ops import hamilton_linear, hamilton_matrix, lookup
from quatgraph.ops.members import add_bias


class QuaternionLinear(nn.Module):
    r"""Multiplies a quaternion vector by a quaternion matrix.

    .. math:: \mathbf{y} = \mathbf{W} \otimes \mathbf{x} + \mathbf{b}

    The four components of :math:`\mathbf{W}` are shared by the four components of
    :math:`\mathbf{x}`, so the layer holds a quarter of the weights of a real one of its width.

    Args:
        in_features: Width of the input, a multiple of four (any width if ``tiled``).
        out_features: Width of the output, a multiple of four.
        bias: Whether to add a learned quaternion vector.
        tiled: Whether the input is a real vector standing for the quaternion vector whose
            four components all equal it, as the paper lifts given features (Section 5.1). Such a
            layer also takes the four components themselves, as needed once they differ.

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
        """Draws the weights as the released code does: Glorot over ``in_quats + 4 * out_quats``."""
        bound = math.sqrt(6.0 / (self.in_quats + 4 * self.out_quats))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(
        self, x: Tensor | Adjacency | Codes, product_dtype: torch.dtype | None = None
    ) -> Tensor:
        width = x.shape[-1]
        stands_for_four = self.tiled and width == self.in_quats
        if not stands_for_four and width != 4 * self.in_quats:
            wanted = self.in_quats if self.tiled else 4 * self.in_quats
            raise Mistake(f"{self} takes inputs {wanted} wide, got {width}")
        if isinstance(x, Tensor):
            if not x.is_floating_point():
                raise Mistake(f"{self} takes real numbers, got {x.dtype}: use x.float()")
            return hamilton_linear(
                x, self.weight, self.bias, tiled=stands_for_four, product_dtype=product_dtype
            )
        if isinstance(x, Codes) and not stands_for_four:
            y = self._of_four_codes(x)
        else:
            matrix = (hamilton_matrix_tiled if stands_for_four else hamilton_matrix)(self.weight)
            y = x @ matrix.mT
        return add_bias(y, self.bias)

    def _of_four_codes(self, x: Codes) -> Tensor:
        """The product with one column t of ones and zeros times a quaternion k: the t-th column of
        the matrix, each of its quaternions times k."""
        if not self.tiled:
            raise Mistake(f"{self} takes quaternion vectors; only a tiled layer takes codes")
        column = lookup(self.weight.flatten(-3, -2).mT, x.code).unflatten(-1, (4, self.out_quats))
        return (right_matrix(x.weight) @ column).flatten(-2)

    def extra_repr(self) -> str:
        return f"{self.in_quats} -> {self.out_quats} quaternions, tiled={self.tiled}"


class RealLinear(nn.Linear):
    """:class:`torch.nn.Linear` that also takes members.

    Shape:
        - x: ``(..., in_features)``
        - output: ``(..., out_features)``
        - of several members ``(M, N, ...)``, the parameters with a leading ``M`` too
    """

    def forward(self, x: Tensor) -> Tensor:
        if self.weight.dim() == 2:
            return super().forward(x)
        return add_bias(x @ self.weight.mT, self.bias)


class GlorotLinear(RealLinear):
    """The real counterpart of :class:`QuaternionLinear`: the same with Glorot's start."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
