"""Sparse matrices from files, checked and made dense."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from quatgraph.errors import Mistake

MAX_NUMBERS = 2**30
"""Maximum size of a dense matrix (4 GiB): a wrong shape must not fill the memory."""


def dense(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    shape: tuple[int, int],
    *,
    where: str,
) -> NDArray[np.float32]:
    """The dense form of a CSR matrix of the file ``where``; repeated entries are summed."""
    wrong = f"{where} does not hold a valid sparse matrix"
    rows, columns = shape
    if rows < 0 or columns < 0 or rows * columns > MAX_NUMBERS:
        raise Mistake(f"{wrong}: its shape is {rows} x {columns}; write the file again")
    if any(a.ndim != 1 for a in (data, indices, indptr)) or len(indptr) != rows + 1:
        raise Mistake(f"{wrong}: its arrays do not fit {rows} rows; write the file again")
    if data.dtype.kind not in "fiub" or any(a.dtype.kind not in "iu" for a in (indices, indptr)):
        raise Mistake(f"{wrong}: its arrays are not numbers; write the file again")
    ptr, column = indptr.astype(np.int64), indices.astype(np.int64)
    lengths = np.diff(ptr)
    if ptr[0] != 0 or (lengths < 0).any() or not ptr[-1] == len(data) == len(column):
        raise Mistake(f"{wrong}: its indptr is out of order; write the file again")
    if len(column) and not 0 <= column.min() <= column.max() < columns:
        raise Mistake(f"{wrong}: a column number is outside 0..{columns - 1}; write the file again")
    matrix = np.zeros((rows, columns), dtype=np.float32)
    with np.errstate(over="ignore"):  # infinite values are refused later, by name
        np.add.at(matrix, (np.repeat(np.arange(rows), lengths), column), data.astype(np.float32))
    return matrix
