r"""A table whose rows are spread over the ranks of :mod:`torch.distributed`.

Of E rows, rank r of R has those from :math:`\lfloor rE/R \rfloor` to
:math:`\lfloor (r+1)E/R \rfloor`. Everything else is replicated. A sum over ranks combines what each
rank computes from its own rows: rows by index, where all ranks but the owner add zeros; the sums of
a softmax; counts. Tables are never sent, only the rows of a batch and one number per row.

Every rank computes what follows a sum, so every rank has its full gradient. The gradient of a sum
over ranks is therefore that of each term, without communication.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from quatgraph.ops.lookup import table_and_rows


@dataclass(frozen=True, slots=True)
class Shards:
    """The rows of a table that a rank holds.

    Example:
        >>> [(s.first, s.last) for s in (Shards(10, rank, 3) for rank in range(3))]
        [(0, 3), (3, 6), (6, 10)]
    """

    num_rows: int
    """Rows of the whole table, E."""
    rank: int
    world_size: int

    def bounds(self, rank: int) -> tuple[int, int]:
        """The first row of a rank, and the first one behind its rows."""
        return rank * self.num_rows // self.world_size, (
            rank + 1
        ) * self.num_rows // self.world_size

    @property
    def first(self) -> int:
        return self.bounds(self.rank)[0]

    @property
    def last(self) -> int:
        """The first row behind this rank's."""
        return self.bounds(self.rank)[1]

    @property
    def size(self) -> int:
        """Rows of this rank."""
        return self.last - self.first

    @property
    def largest(self) -> int:
        """Rows of the rank that has most: what all ranks must agree on follows it."""
        return -(-self.num_rows // self.world_size)

    def keys(self, device: torch.device) -> Tensor:
        """This rank's rows as indices of the whole table, ``(size,)``."""
        return torch.arange(self.first, self.last, device=device)

    def rows(self, table: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """The table, and its rows by indices of the whole table; as
        :func:`quatgraph.ops.table_and_rows`.

        Shape:
            - table: this rank's rows ``(size, F)``; of several members ``(M, size, F)``
            - index: ``(N,)``; of several members ``(M, N)``
            - rows: ``(N, F)``, the same on every rank; of several members ``(M, N, F)``
        """
        local = index - self.first
        here = (local >= 0) & (local < self.size)
        table, rows = table_and_rows(table, local.clamp(0, self.size - 1))
        return table, self.sum(torch.where(here.unsqueeze(-1), rows, 0))

    def sum(self, value: Tensor) -> Tensor:
        """The sum over ranks; differentiable."""
        return value if self.world_size == 1 else _Sum.apply(value)

    def sum_(self, value: Tensor) -> Tensor:
        """The same in place, without gradients."""
        if self.world_size > 1:
            dist.all_reduce(value)
        return value

    def log_sum_exp(self, value: Tensor) -> Tensor:
        """The log-sum-exp over ranks."""
        if self.world_size == 1:
            return value
        high = value.clone()
        dist.all_reduce(high, dist.ReduceOp.MAX)
        # NaN, which a maximum may lose, is in the sum.
        return high + self.sum_((value - high).exp_()).log_()


class _Sum(torch.autograd.Function):
    """The gradient of the sum, known in full on every rank, is that of each term."""

    @staticmethod
    def forward(value: Tensor) -> Tensor:
        total = value.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None], value: Tensor) -> tuple[Tensor, int | None]:
        return _Sum.apply(value), in_dims[0]
