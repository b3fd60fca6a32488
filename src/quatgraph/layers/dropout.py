"""Dropout for quaternion vectors and for sparse features."""

from typing import Literal, overload

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import quats
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.ops.dropout import dropped

Masks = Literal["real", "quaternion"]


class QuaternionDropout(nn.Module):
    """Drops real numbers one by one, or whole quaternions.

    The rate is a buffer, so that the members of an ensemble may have rates of their own.

    Args:
        rate: Share of numbers dropped, in [0, 1).
        masks: ``"real"``: one mask per real number, as the released code does;
            ``"quaternion"``: one per quaternion, its four components live or die together.

    Shape:
        - x: ``(..., 4n)`` (any width with ``"real"``), or features as an :class:`Adjacency` or as
          :class:`Codes`, whose stored values are masked one by one
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
    @overload
    def forward(self, x: Codes) -> Codes: ...
    def forward(self, x: Tensor | Adjacency | Codes) -> Tensor | Adjacency | Codes:
        if not self.training:
            return x
        if isinstance(x, Adjacency | Codes):
            return x.with_weight(self._dropped(x.weight, x.weight.shape))
        if self.masks == "real":
            return self._dropped(x, x.shape)
        return self._dropped(x, (*x.shape[:-1], quats(x.size(-1))), times=4)

    def _dropped(self, x: Tensor, shape: tuple[int, ...], times: int = 1) -> Tensor:
        random = torch.rand(shape, device=x.device)
        return dropped(x, random.tile(times) if times > 1 else random, self.rate)

    def extra_repr(self) -> str:
        return f"masks={self.masks!r}"
