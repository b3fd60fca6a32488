"""Fast search for the names nearest to a misspelt one."""

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAREST = 32
_COMPARED = 64
"""Characters that are compared at the end of a name, one bit each."""
_BLOCK = 1 << 14
"""Names per block; a block fits the CPU cache."""


def nearest(word: str, names: list[str]) -> list[str]:
    """The names of similar length with the smallest edit distances to the word."""
    sizes = np.fromiter(map(len, names), np.int64, len(names))
    near = np.abs(sizes - len(word)) <= max(2, len(word) // 5)
    indices, sizes = np.flatnonzero(near), sizes[near]
    joined = "".join(names if near.all() else compress(names, near.tolist()))
    text, query = np.frombuffer(_encode(joined), np.uint8), _encode(word[-_COMPARED:])
    ends = np.cumsum(sizes)
    edits = np.full(len(indices), len(query), np.int16)
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        rows, width = np.flatnonzero(sizes == size), min(size, _COMPARED)
        if query and width:
            edits[rows] = _edit_distances(query, text, ends[rows] - width, width)
    order = np.argsort(edits, kind="stable")
    return [names[index] for index in indices[order[:_NEAREST]].tolist()]


def _encode(text: str) -> bytes:
    """One byte per character; ASCII letters in lower case."""
    if text.isascii():
        return text.encode().lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    # Characters of a script differ in the lowest byte.
    return codes.astype(np.uint8).tobytes().lower()


def _edit_distances(
    word: bytes, text: "NDArray[np.uint8]", ptr: "NDArray[np.int64]", width: int
) -> "NDArray[np.int16]":
    """Edit distances of a word of at most 64 characters to N names of equal width.

    Vectorised form of Myers's bit-parallel algorithm (1999). An integer holds a column of the
    distance table; its bits say whether the distance grows (``up``) or falls (``down``) from one
    row to the next.

    Args:
        text: The concatenated names.
        ptr: Start of each name in ``text``, ``(N,)``.
    """
    all_bits = (1 << len(word)) - 1
    column_type = np.min_scalar_type(all_bits)
    masks = [sum(1 << i for i, own in enumerate(word) if own == code) for code in range(256)]
    same_as = np.array(masks, column_type)
    views = np.lib.stride_tricks.sliding_window_view(text, width)
    one, last = column_type.type(1), column_type.type(len(word) - 1)
    distances = []
    for start in range(0, len(ptr), _BLOCK):
        rows = views[ptr[start : start + _BLOCK]]
        up, down = (np.full(len(rows), bits, column_type) for bits in (all_bits, 0))
        edits = np.full(len(rows), len(word), np.int16)
        for column in rows.T:
            same = same_as[column]
            level = (((same & up) + up) ^ up) | same
            grows, falls = down | ~(level | up), up & level
            edits += (grows >> last & one).astype(np.int16)
            edits -= (falls >> last & one).astype(np.int16)
            grows = grows << one | one
            up, down = falls << one | ~(same | down | grows), grows & (same | down)
        distances.append(edits)
    return np.concatenate(distances)
