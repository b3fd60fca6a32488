"""The positives of a batch of queries, as slices of one list that all batches share."""

from dataclasses import dataclass

from torch import Tensor

from quatgraph.ops.csr import concat_rows


@dataclass(frozen=True, eq=False)
class Positives:
    """The positive candidates of each query of a batch, for one member or for several.

    The positives of all queries are concatenated, without duplicates; a batch is a query index per
    row. The batches of all members of an ensemble are one object.

    Attributes:
        ptr: The boundaries of the positives of the Q queries, int32 or int64 ``(Q + 1,)``.
        tails: The positives, indices of candidates, int32 or int64 ``(P,)``.
        row: The query of each row of the batch, ``(B,)``; ``(M, B)`` if the members have batches of
            their own.
    """

    ptr: Tensor
    tails: Tensor
    row: Tensor

    def counts(self) -> Tensor:
        """The number of positives of each row, shaped as ``row``."""
        return self.ptr[self.row + 1] - self.ptr[self.row]

    def to_coo(self) -> tuple[Tensor, Tensor]:
        """The row, counted over all members, and the candidate of each positive in the batch.

        On a GPU it synchronises with the host, as the output's size depends on the values.
        """
        row_ids, entry = concat_rows(self.ptr[self.row].flatten(), self.counts().flatten())
        return row_ids, self.tails.index_select(0, entry)
