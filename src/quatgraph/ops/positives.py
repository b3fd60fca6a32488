"""The known answers of a batch of queries, as rows of one list that all batches share."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Positives:
    """Which candidates are right for each query of a batch, for one member or for several.

    The answers of all queries there are lie one query after the other, each answer once; a batch is
    one number per query. The batches of all members of an ensemble are one object.

    Attributes:
        pointers: Where the answers of each of the Q queries begin, int32 or int64 ``(Q + 1,)``.
        tails: The answers, numbers of candidates, int32 or int64 ``(P,)``.
        row: The query that each row of the batch is, ``(B,)``; ``(M, B)`` where the members have
            batches of their own.
    """

    pointers: Tensor
    tails: Tensor
    row: Tensor

    def counts(self) -> Tensor:
        """How many answers each row has, as ``row``."""
        return self.pointers[self.row + 1] - self.pointers[self.row]

    def listed(self) -> tuple[Tensor, Tensor]:
        """The row, counted over all members, and the candidate of each answer in the batch.

        For the torch forms: on a GPU it waits for the device, to learn how many there are.
        """
        begin, sizes = self.pointers[self.row].flatten(), self.counts().flatten()
        owner = torch.repeat_interleave(sizes)
        entry = torch.arange(owner.numel(), device=owner.device)
        entry += (begin - sizes.cumsum(0) + sizes).index_select(0, owner)
        return owner, self.tails.index_select(0, entry)
