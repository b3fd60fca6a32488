"""The known answers of a batch of queries, as rows of one list that all batches share."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Positives:
    """Which candidates are right for each query of a batch, for one member or for several.

    The answers of all queries there are lie one query after the other, each answer once; a batch is
    one number per query. Like the rows of :mod:`quatgraph.ops.aggregate_blocks` the batches of all
    members of an ensemble are one object, which is no tensor to vmap.

    Attributes:
        pointers: Where the answers of each of the Q queries begin, int32 or int64 ``(Q + 1,)``.
        tails: The answers, numbers of candidates, int32 or int64 ``(P,)``.
        row: The query that each row of the batch is, negative for padding, ``(B,)``; ``(M, B)``
            where the members have batches of their own.
        padded: Whether a row may be padding; if none is, there is less to do.
    """

    pointers: Tensor
    tails: Tensor
    row: Tensor
    padded: bool = True

    def counts(self) -> Tensor:
        """How many answers each row has, none for padding, as ``row``."""
        begin, end = self._bounds()
        return end - begin

    def listed(self) -> tuple[Tensor, Tensor]:
        """The row, counted over all members, and the candidate of each answer in the batch.

        For the torch forms: on a GPU it waits for the device, to learn how many there are.
        """
        begin, end = (bound.flatten() for bound in self._bounds())
        sizes = end - begin
        owner = torch.repeat_interleave(sizes)
        entry = torch.arange(owner.numel(), device=owner.device)
        entry += (begin - sizes.cumsum(0) + sizes).index_select(0, owner)
        return owner, self.tails.index_select(0, entry)

    def _bounds(self) -> tuple[Tensor, Tensor]:
        """Where each row's answers begin and end; both 0 for padding."""
        if not self.padded:
            return self.pointers[self.row], self.pointers[self.row + 1]
        real, known = self.row >= 0, self.row.clamp(min=0)
        begin, end = self.pointers[known], self.pointers[known + 1]
        return torch.where(real, begin, 0), torch.where(real, end, 0)
