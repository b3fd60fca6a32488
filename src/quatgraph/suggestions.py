"""Fast search for the names nearest to a misspelt one."""

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAREST = 32
_WINDOW = 16
"""Characters of a long word that are compared at once, one bit each."""
_BLOCK = 1 << 15
"""Names per block; a block fits the CPU cache."""


def nearest(word: str, names: list[str]) -> list[str]:
    """The names of similar length with the smallest edit distances to the word.

    A long word is compared window by window, starting at its end. Names that are more than two
    edits behind the best are dropped after each window.
    """
    sizes = np.fromiter(map(len, names), np.int64, len(names))
    near = np.abs(sizes - len(word)) <= max(2, len(word) // 5)
    indices, sizes = np.flatnonzero(near), sizes[near]
    joined = "".join(names if near.all() else compress(names, near.tolist()))
    text, query = np.frombuffer(_encode(joined), np.uint8), _encode(word)
    ptr = np.cumsum(sizes) - sizes
    left, edits = np.arange(len(indices)), np.zeros(len(indices), np.int16)
    for window in _windows(len(word)):
        if len(left) <= _NEAREST:
            break
        for size in np.flatnonzero(np.bincount(sizes[left])).tolist():
            rows = left[sizes[left] == size]
            first, last, _ = window.indices(size)
            if first < last:
                edits[rows] += _edit_distances(query[window], text, ptr[rows] + first, last - first)
        # One edit may cost two: it moves a character out of the window and another one in.
        left = left[edits[left] <= edits[left].min() + 4]
    order = left[np.argsort(edits[left], kind="stable")]
    return [names[index] for index in indices[order[:_NEAREST]].tolist()]


def _encode(text: str) -> bytes:
    """One byte per character; ASCII letters in lower case."""
    if text.isascii():
        return text.encode().lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return (
        codes.astype(np.uint8).tobytes().lower()
    )  # characters of a script differ in the lowest byte


def _windows(length: int) -> list[slice]:
    """The windows of a word of the given length, in the order in which they are compared."""
    if length <= _WINDOW:
        return [slice(0, None)]
    rest = range(0, length - _WINDOW, _WINDOW)
    return [slice(-_WINDOW, None), *(slice(start, start + _WINDOW) for start in rest)]


def _edit_distances(
    word: bytes, text: "NDArray[np.uint8]", ptr: "NDArray[np.int64]", width: int
) -> "NDArray[np.int16]":
    """Edit distances of a word of at most 16 characters to N names of equal width.

    Vectorised form of Myers's bit-parallel algorithm (1999). An integer holds a column of the
    distance table; its bits say whether the distance grows (``up``) or falls (``down``) from one
    row to the next.

    Args:
        text: The concatenated names.
        ptr: Start of each name in ``text``, ``(N,)``.
    """
    masks = [sum(1 << i for i, own in enumerate(word) if own == code) for code in range(256)]
    low, high = bytes(mask & 255 for mask in masks), bytes(mask >> 8 for mask in masks)
    views = np.lib.stride_tricks.sliding_window_view(text, width)
    one, last = np.uint16(1), np.uint16(len(word) - 1)
    distances = []
    for start in range(0, len(ptr), _BLOCK):
        rows = views[ptr[start : start + _BLOCK]]
        up, down = (np.full(len(rows), bits, np.uint16) for bits in ((1 << len(word)) - 1, 0))
        edits = np.full(len(rows), len(word), np.int16)
        for column in rows.T:
            letters = column.tobytes()
            same = np.frombuffer(letters.translate(high), np.uint8).astype(np.uint16)
            same = same << np.uint16(8) | np.frombuffer(letters.translate(low), np.uint8)
            level = (((same & up) + up) ^ up) | same
            grows, falls = down | ~(level | up), up & level
            edits += (grows >> last & one).astype(np.int16)
            edits -= (falls >> last & one).astype(np.int16)
            grows = grows << one | one
            up, down = falls << one | ~(same | down | grows), grows & (same | down)
        distances.append(edits)
    return np.concatenate(distances)
