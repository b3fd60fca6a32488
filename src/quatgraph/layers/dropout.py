"""Dropout for quaternion vectors and for sparse features."""

from collections.abc import Iterator
from typing import Literal, overload

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import quats
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.ops.dropout import keyed_dropout

Masks = Literal["real", "quaternion"]


class QuaternionDropout(nn.Module):
    """Drops real numbers one by one, or whole quaternions.

    The rate is a buffer, so that the members of an ensemble may have rates of their own. By itself
    the layer draws from torch's generator. Within an :class:`quatgraph.Ensemble` a mask depends on
    the member's seed, the step, the call and the row alone.

    Args:
        rate: Share of numbers dropped, in [0, 1).
        masks: ``"real"``: one mask per real number, as the released code does;
            ``"quaternion"``: one per quaternion, its four components live or die together.

    Shape:
        - x: ``(..., 4n)`` (any width with ``"real"``), or features as an :class:`Adjacency` or as
          :class:`Codes`, whose stored values are masked one by one
        - rows: what the rows of x are known by within an ensemble, ``(N,)``; their places unless
          given
        - output: as x
    """

    rate: Tensor
    draws: Tensor
    """Seed and step, which an ensemble sets."""
    calls: Iterator[int] | None = None
    """Numbers the dropouts of a step, which an ensemble sets; None outside one."""

    def __init__(self, rate: float = 0.5, *, masks: Masks = "real") -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise Mistake(f"a dropout rate must be at least 0 and less than 1, got {rate}")
        if masks not in ("real", "quaternion"):
            raise Mistake(f"dropout masks are 'real' or 'quaternion', got {masks!r}")
        self.masks = masks
        self.register_buffer("rate", torch.tensor(float(rate)), persistent=False)
        self.register_buffer("draws", torch.zeros(2, dtype=torch.int64), persistent=False)

    @overload
    def forward(self, x: Tensor, rows: Tensor | None = None) -> Tensor: ...
    @overload
    def forward(self, x: Adjacency) -> Adjacency: ...
    @overload
    def forward(self, x: Codes) -> Codes: ...
    def forward(
        self, x: Tensor | Adjacency | Codes, rows: Tensor | None = None
    ) -> Tensor | Adjacency | Codes:
        if not self.training:
            return x
        if isinstance(x, Adjacency | Codes):
            return x.with_weight(self._dropped(x.weight, 1, None))
        if self.masks == "quaternion":
            quats(x.size(-1))  # refuses a width that has none
            return self._dropped(x, 4, rows)
        return self._dropped(x, 1, rows)

    def _dropped(self, x: Tensor, tiles: int, rows: Tensor | None) -> Tensor:
        """Drops numbers, with one mask for so many blocks of columns."""
        if self.calls is not None:
            return keyed_dropout(x, self.draws, self.rate, next(self.calls), tiles, rows)
        random = torch.rand((*x.shape[:-1], x.size(-1) // tiles), device=x.device)
        return x * ((random.tile(tiles) >= self.rate) / (1 - self.rate)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"masks={self.masks!r}"
