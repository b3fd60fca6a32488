"""The quaternion counterpart of :class:`torch.nn.Linear`, and real linear layers."""

import math
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

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


def sums_first(x: Features, out_features: int) -> TypeGuard[Tensor]:
    """Whether a convolution sums rows before it maps them: dense rows that are narrower than the
    output. So fewer numbers are summed; without gradients of x, none in the backward pass."""
    return isinstance(x, Tensor) and x.shape[-1] < out_features


class QuaternionLinear(nn.Module):
    r"""Multiplies a quaternion vector by a quaternion matrix.

    .. math:: \mathbf{y} = \mathbf{W} \otimes \mathbf{x} + \mathbf{b}

    The four components of :math:`\mathbf{x}` share the four components of :math:`\mathbf{W}`, so
    the layer has a quarter of the weights of a real layer of the same width.

    Args:
        in_features: Real width of the input, a multiple of four unless ``tiled``; -1 to take that
            of the first input, as PyG's lazy layers do.
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

    weight: nn.Parameter | UninitializedParameter

    def __init__(
        self, in_features: int, out_features: int, *, bias: bool = False, tiled: bool = False
    ) -> None:
        super().__init__()
        if not hasattr(in_features, "__index__"):  # such as the pair of a bipartite layer of PyG
            raise UserError(f"a quaternion layer takes one input width, got {in_features}")
        self.tiled = tiled
        self.in_quats = -1 if in_features == -1 else self._count_inputs(in_features)
        self.out_quats = quats(out_features)
        if in_features == -1:
            self._make_lazy()
        else:
            self.weight = nn.Parameter(torch.empty(4, self.out_quats, self.in_quats))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    @property
    def in_features(self) -> int:
        """-1 before the first input, if it is to be inferred."""
        return self.in_quats if self.tiled or self.in_quats < 0 else 4 * self.in_quats

    def reset_parameters(self) -> None:
        """Initializes like the released code: Glorot over ``in_quats + 4 * out_quats``."""
        if self.in_quats >= 0:
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

    def _count_inputs(self, width: int) -> int:
        """The number of quaternions of an input."""
        if width < 1:
            raise UserError(
                f"the width of an input must be at least 1, or -1 to infer it, got {width}"
            )
        return width if self.tiled else quats(width)

    def _make_lazy(self) -> None:
        """Leaves the weight without a shape until the first input or state dict gives one."""
        self.in_quats = -1
        self.weight = UninitializedParameter()
        self._lazy_hook = self.register_forward_pre_hook(_infer_inputs)

    def _materialize(self, in_quats: int) -> None:
        assert isinstance(self.weight, UninitializedParameter)
        self.in_quats = in_quats
        self.weight.materialize((4, self.out_quats, in_quats))
        self._lazy_hook.remove()
        del self._lazy_hook

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if self.in_quats >= 0:
            super()._save_to_state_dict(destination, prefix, keep_vars)
            return
        destination[f"{prefix}weight"] = self.weight  # which cannot be detached
        if self.bias is not None:
            destination[f"{prefix}bias"] = self.bias if keep_vars else self.bias.detach()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        given = state_dict.get(f"{prefix}weight")
        if isinstance(given, UninitializedParameter):
            if self.in_quats >= 0:
                self._make_lazy()
        elif given is not None and self.in_quats < 0:
            self._materialize(given.size(-1))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def extra_repr(self) -> str:
        return f"{self.in_quats} -> {self.out_quats} quaternions, tiled={self.tiled}"


def _infer_inputs(layer: QuaternionLinear, inputs: tuple[Any, ...]) -> None:
    """Gives a lazy layer the width of its first input."""
    with torch.no_grad():
        layer._materialize(layer._count_inputs(inputs[0].shape[-1]))
        layer.reset_parameters()


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
