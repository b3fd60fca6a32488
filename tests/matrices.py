"""Sparse matrices as the operations take them, and their products with gradients."""

from bisect import bisect_left
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from quatgraph.ops import aggregate

R, C, F = 5, 7, 3
ROUNDED = torch.bfloat16
either_product = pytest.mark.parametrize("product_dtype", [None, ROUNDED])


class Structure(NamedTuple):
    """The places of a matrix's entries, as the operation takes them."""

    row: Tensor
    rowptr: Tensor
    col: Tensor
    t_rowptr: Tensor
    t_col: Tensor
    t_perm: Tensor

    @classmethod
    def of(cls, entries: list[tuple[int, int]], rows: int, cols: int) -> "Structure":
        entries = sorted(entries, key=lambda entry: entry[0])
        perm = sorted(range(len(entries)), key=lambda e: entries[e][1])
        row, col = [r for r, _ in entries], [c for _, c in entries]
        rowptr = [bisect_left(row, v) for v in range(rows + 1)]
        t_rowptr = [bisect_left(sorted(col), u) for u in range(cols + 1)]
        lists = row, rowptr, col, t_rowptr, [row[e] for e in perm], perm
        return cls(*(torch.tensor(values, dtype=torch.int32) for values in lists))

    def times(self, weight: Tensor, x: Tensor, product_dtype: torch.dtype | None = None) -> Tensor:
        transpose = self.t_rowptr, self.t_col, self.t_perm
        return aggregate(self.rowptr, self.col, weight, x, *transpose, product_dtype=product_dtype)

    def dense(self, weight: Tensor) -> Tensor:
        shape = self.rowptr.numel() - 1, self.t_rowptr.numel() - 1
        matrix = torch.zeros(shape, dtype=torch.float64)
        return matrix.index_put((self.row, self.col), weight.double(), accumulate=True)

    def to(self, device: str) -> "Structure":
        return Structure(*(part.to(device) for part in self))


def random_structure(entries: int = 12, rows: int = R, cols: int = C) -> Structure:
    pairs = zip(torch.randint(rows, (entries,)), torch.randint(cols, (entries,)), strict=True)
    return Structure.of([(int(r), int(c)) for r, c in pairs], rows, cols)


def values_and_gradients(call, weight: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weight, x = weight.detach().requires_grad_(), x.detach().requires_grad_()
    y = call(weight, x)
    probe = (torch.arange(y.numel(), device=y.device) % 7 - 3).view(y.shape)  # exact in any type
    return y.detach(), *torch.autograd.grad(y, (weight, x), probe.to(y))


def long_rows() -> Structure:
    """More entries than are summed at once: empty rows and columns, one row with nearly all."""
    entries = [(7, int(c)) for c in torch.randint(9, (16_300,))]
    entries += [(11, int(c)) for c in torch.randint(9, (130,))]
    return Structure.of(entries + [(r, r % 4) for r in range(2, 6)], 12, 10)
