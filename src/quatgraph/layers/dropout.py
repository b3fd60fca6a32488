"""Dropout for quaternion vectors and for sparse features."""

from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import quats
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers.linear import Features
from quatgraph.ops.dropout import keyed_dropout

Masks = Literal["real", "quaternion"]


class QuaternionDropout(nn.Module):
    """Drops single real numbers or whole quaternions.

    The rate is a buffer, so that the members of an ensemble can have different rates. On its own,
    the layer draws from torch's generator. Within an :class:`quatgraph.Ensemble`, a mask depends
    only on the member's seed, the step, the call and the row.

    Args:
        rate: Probability of dropping an element, in [0, 1).
        masks: ``"real"`` masks each real number, as in the released code; ``"quaternion"`` masks
            the four components of a quaternion together.

    Shape:
        - x: ``(..., 4n)`` (any width with ``"real"``), or an :class:`Adjacency` or :class:`Codes`,
          whose stored values are masked one by one
        - rows: keys of the rows of x within an ensemble, ``(N,)``; their indices by default
        - output: as x
    """

    rate: Tensor
    draws: Tensor
    """Seed and step, set by an ensemble."""
    calls: Iterator[int] | None = None
    """Numbers the dropout calls of a step; None outside an ensemble."""

    def __init__(self, rate: float = 0.5, *, masks: Masks = "real") -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise UserError(f"a dropout rate must be at least 0 and less than 1, got {rate}")
        if masks not in ("real", "quaternion"):
            raise UserError(f"dropout masks must be 'real' or 'quaternion', got {masks!r}")
        self.masks = masks
        self.register_buffer("rate", torch.tensor(float(rate)), persistent=False)
        self.register_buffer("draws", torch.zeros(2, dtype=torch.int64), persistent=False)

    def forward(self, x: Features, rows: Tensor | None = None) -> Features:
        if not self.training:
            return x
        if isinstance(x, Adjacency | Codes):
            return x.with_weight(self._dropout(x.weight, 1, None))
        if self.masks == "quaternion":
            quats(x.size(-1))  # checks the width
            return self._dropout(x, 4, rows)
        return self._dropout(x, 1, rows)

    def _dropout(self, x: Tensor, tiles: int, rows: Tensor | None) -> Tensor:
        """Applies dropout, with the same mask for each of ``tiles`` blocks of columns."""
        if self.calls is not None:
            return keyed_dropout(x, self.draws, self.rate, next(self.calls), tiles, rows)
        random = torch.rand((*x.shape[:-1], x.size(-1) // tiles), device=x.device)
        return x * ((random.tile(tiles) >= self.rate) / (1 - self.rate)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"masks={self.masks!r}"
