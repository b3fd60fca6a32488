"""One-hot features stored as integers."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
import torch.utils._pytree as pytree
from torch import Tensor

from quatgraph.ops import lookup


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A matrix with at most one non-zero per row, in column ``code`` with the value ``weight``.

    A product with it is a lookup of rows. It is a pytree of tensors.

    Attributes:
        code: Column of each row's non-zero, ``(N,)``.
        weight: Its value, ``(N,)``; 1, or 0 for a row with an unknown code. With four copies of the
            features (see :meth:`tiled`) one per copy, ``(N, 4)``.
        num_codes: Number of columns T (of one copy).
    """

    code: Tensor
    weight: Tensor
    num_codes: int

    @property
    def shape(self) -> tuple[int, int]:
        copies = self.weight.size(-1) if self.weight.dim() > self.code.dim() else 1
        return self.code.size(-1), copies * self.num_codes

    def with_weight(self, weight: Tensor) -> Self:
        return replace(self, weight=weight)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, code=self.code.to(device), weight=self.weight.to(device))

    def tiled(self) -> Self:
        """The features as four equal components, so that each copy can have its own mask."""
        return replace(self, weight=self.weight[..., None].expand(*self.weight.shape, 4))

    def __matmul__(self, table: Tensor) -> Tensor:
        """Rows of a table, times the weights, ``(T, F) -> (N, F)``; for one copy."""
        return lookup(table, self.code) * self.weight[..., None]


def _flatten(codes: Codes) -> tuple[list[Any], int]:
    return [codes.code, codes.weight], codes.num_codes


def _unflatten(children: Iterable[Any], size: Any) -> Codes:
    code, weight = children
    return Codes(code, weight, size)


pytree.register_pytree_node(Codes, _flatten, _unflatten)
