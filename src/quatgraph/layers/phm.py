r"""Linear layers over hypercomplex numbers, with learned or given rules of multiplication."""

import math
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.errors import UserError
from quatgraph.layers.linear import Features
from quatgraph.ops.members import add_bias

Rules = Literal["learned", "fixed"]


class PHMLinear(nn.Module):
    r"""Parameterized hypercomplex multiplication (`Zhang et al. 2021
    <https://arxiv.org/abs/2102.08597>`_).

    .. math::
        \mathbf{y} = \Big(\sum_{k=1}^n \mathbf{A}_k \otimes_{\mathrm{Kronecker}} \mathbf{S}_k\Big)
        \mathbf{x} + \mathbf{b}

    A number has n components. :math:`\mathbf{A}_k`, of shape n x n, says how component k of a
    weight multiplies; with the rules of the quaternions, this is :class:`QuaternionLinear`. The
    layer has 1/n of the weights of a real layer of the same width, and n³ for learned rules.

    Args:
        in_features, out_features: Real widths, multiples of n.
        n: Number of components.
        rules: ``"learned"`` for learned A; ``"fixed"`` for those of the real and complex numbers,
            quaternions and octonions (n = 1, 2, 4, 8).
        bias: Whether to add a learned vector.

    Shape:
        - x: ``(..., in_features)``, the first component of all numbers, then the second, and so on;
          an :class:`Adjacency` if sparse, :class:`Codes` if one-hot
        - output: ``(..., out_features)``

    Example:
        >>> PHMLinear(24, 36, 3)(torch.randn(5, 24)).shape
        torch.Size([5, 36])
    """

    rules: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        n: int,
        *,
        rules: Rules = "learned",
        bias: bool = False,
    ) -> None:
        super().__init__()
        add_rules(self, n, rules)
        if min(in_features, out_features) < 1 or in_features % n or out_features % n:
            raise UserError(
                f"the widths of a hypercomplex layer must be positive multiples of n={n}, got "
                f"{in_features} and {out_features}"
            )
        self.in_features = in_features
        self.out_features = out_features
        self.n = n
        self.weight = nn.Parameter(torch.empty(n, out_features // n, in_features // n))
        self.bias = nn.Parameter(torch.empty(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes so that the entries of the real matrix have the variance of Glorot's, whether
        rules are learned or fixed."""
        if isinstance(self.rules, nn.Parameter):
            draw_rules(self.rules)
        bound = math.sqrt(6.0 / (self.in_features + self.out_features))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        """The real matrix ``(out_features, in_features)``."""
        blocks = torch.einsum("...kab,...kpq->...apbq", self.rules, self.weight)
        return blocks.flatten(-2).flatten(-3, -2)

    def forward(self, x: Features) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise UserError(f"{self} takes inputs of width {self.in_features}, got {x.shape[-1]}")
        matrix = self.matrix()
        if isinstance(x, Tensor) and matrix.dim() == 2:
            return F.linear(x, matrix, self.bias)
        return add_bias(x @ matrix.mT, self.bias)

    def extra_repr(self) -> str:
        rules = "learned" if isinstance(self.rules, nn.Parameter) else "fixed"
        return f"{self.in_features}, {self.out_features}, n={self.n}, rules={rules}"


def add_rules(module: nn.Module, n: int, rules: Rules) -> None:
    """Gives a module ``rules`` ``(n, n, n)``: a parameter if they are learned, else a buffer."""
    if not hasattr(n, "__index__"):
        raise UserError(f"the number of components must be an integer, got n={n!r}")
    if n < 1:
        raise UserError(f"a hypercomplex number has at least 1 component, got n={n}")
    if rules not in get_args(Rules):
        raise UserError(f"there are no rules {rules!r}; choose learned or fixed")
    if rules == "fixed":
        module.register_buffer("rules", multiplication_rules(n), persistent=False)
    else:
        module.register_parameter("rules", nn.Parameter(torch.empty(n, n, n)))


@torch.no_grad()
def draw_rules(rules: Tensor) -> None:
    """Draws rules by which a product of random numbers has the variance that it has with fixed
    ones."""
    rules.copy_(F.normalize(torch.randn_like(rules), dim=0))


def multiplication_rules(n: int) -> Tensor:
    """The matrices ``(n, n, n)`` by which the units of the real and complex numbers, quaternions
    and octonions multiply from the left (n = 1, 2, 4, 8).

    Example:
        >>> multiplication_rules(2)[1]  # i (a + bi) = -b + ai
        tensor([[ 0., -1.],
                [ 1.,  0.]])
    """
    if n not in (1, 2, 4, 8):
        raise UserError(f"fixed rules need n = 1, 2, 4 or 8, got {n}")
    units = torch.eye(n)
    return _cayley_dickson(units[:, None], units).mT


def _cayley_dickson(x: Tensor, y: Tensor) -> Tensor:
    """The product of numbers with 1, 2, 4, ... components, as pairs of numbers with half as many:
    (a, b) (c, d) = (ac - d*b, da + bc*), where * is the conjugate."""
    if x.size(-1) == 1:
        return x * y
    a, b = x.chunk(2, dim=-1)
    c, d = y.chunk(2, dim=-1)
    left = _cayley_dickson(a, c) - _cayley_dickson(_conjugate(d), b)
    right = _cayley_dickson(d, a) + _cayley_dickson(b, _conjugate(c))
    return torch.cat((left, right), dim=-1)


def _conjugate(x: Tensor) -> Tensor:
    return torch.cat((x[..., :1], -x[..., 1:]), dim=-1)
