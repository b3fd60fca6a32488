"""Dropout for quaternion vectors and for sparse features."""

from typing import Literal, overload

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import quats
from quatgraph.errors import Mistake

Masks = Literal["real", "quaternion"]


class QuaternionDropout(nn.Module):
    """Drops real numbers one by one, or whole quaternions.

    The rate is a buffer, so that the members of an ensemble may have rates of their own.

    Args:
        rate: Share of numbers dropped, in [0, 1).
        masks: ``"real"``: one mask per real number, as the released code does;
            ``"quaternion"``: one per quaternion, its four components live or die together.

    Shape:
        - x: ``(..., 4n)`` (any width with ``"real"``), or an :class:`Adjacency` of features,
          whose stored values are masked one by one
        - output: as x
    """

    rate: Tensor

    def __init__(self, rate: float = 0.5, *, masks: Masks = "real") -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise Mistake(f"a dropout rate must be at least 0 and less than 1, got {rate}")
        if masks not in ("real", "quaternion"):
            raise Mistake(f"dropout masks are 'real' or 'quaternion', got {masks!r}")
        self.masks = masks
        self.register_buffer("rate", torch.tensor(float(rate)), persistent=False)

    @overload
    def forward(self, x: Tensor) -> Tensor: ...
    @overload
    def forward(self, x: Adjacency) -> Adjacency: ...
    def forward(self, x: Tensor | Adjacency) -> Tensor | Adjacency:
        if not self.training:
            return x
        if isinstance(x, Adjacency):
            return x.with_weight(x.weight * self._mask(x.weight, x.weight.shape))
        if self.masks == "real":
            return x * self._mask(x, x.shape)
        return x * self._mask(x, (*x.shape[:-1], quats(x.size(-1)))).tile(4)

    def _mask(self, like: Tensor, shape: tuple[int, ...]) -> Tensor:
        kept = torch.rand(shape, device=like.device) >= self.rate
        return (kept / (1 - self.rate)).to(like.dtype)

    def extra_repr(self) -> str:
        return f"masks={self.masks!r}"
