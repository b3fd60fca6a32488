"""The names nearest to a misspelt one, among very many."""

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NEAREST = 32
_WINDOW = 16
"""Letters of a long word that are compared at once: a bit each."""
_BLOCK = 1 << 15
"""Names at once: few enough for the processor's cache."""


def nearest(word: str, names: list[str]) -> list[str]:
    """A few of very many names: of about the same length, with the fewest edits to the word.

    A long word is compared window by window, its end first; a name that is two edits behind the
    best is left out of the next window.
    """
    sizes = np.fromiter(map(len, names), np.int64, len(names))
    near = np.abs(sizes - len(word)) <= max(2, len(word) // 5)
    places, sizes = np.flatnonzero(near), sizes[near]
    joined = "".join(names if near.all() else compress(names, near.tolist()))
    text, sought = np.frombuffer(_letters(joined), np.uint8), _letters(word)
    starts = np.cumsum(sizes) - sizes
    left, edits = np.arange(len(places)), np.zeros(len(places), np.int16)
    for window in _windows(len(word)):
        if len(left) <= _NEAREST:
            break
        for size in np.flatnonzero(np.bincount(sizes[left])).tolist():
            rows = left[sizes[left] == size]
            first, last, _ = window.indices(size)
            if first < last:
                edits[rows] += _edits(sought[window], text, starts[rows] + first, last - first)
        # An edit may cost two: it moves a letter out of the window and another one into it.
        left = left[edits[left] <= edits[left].min() + 4]
    order = left[np.argsort(edits[left], kind="stable")]
    return [names[place] for place in places[order[:_NEAREST]].tolist()]


def _letters(text: str) -> bytes:
    """A byte for each letter, small ones for those of ASCII."""
    if text.isascii():
        return text.encode().lower()
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    return codes.astype(np.uint8).tobytes().lower()  # a script differs in its lowest bytes


def _windows(length: int) -> list[slice]:
    """Which letters of a word of so many are compared, one window after the other."""
    if length <= _WINDOW:
        return [slice(0, None)]
    starts = range(0, length - _WINDOW, _WINDOW)
    return [slice(-_WINDOW, None), *(slice(at, at + _WINDOW) for at in starts)]


def _edits(
    word: bytes, text: "NDArray[np.uint8]", begins: "NDArray[np.int64]", width: int
) -> "NDArray[np.int16]":
    """The edit distance of a word of at most 16 letters to each of many of one width.

    By Myers's bits (1999), for all at once: a number holds a column of the table of distances,
    its bits whether the distance grows (``up``) or falls (``down``) from one row to the next.

    Args:
        text: What the names stand in.
        begins: Where each begins, ``(N,)``.
    """
    held = [sum(1 << place for place, own in enumerate(word) if own == code) for code in range(256)]
    low, high = bytes(bits & 255 for bits in held), bytes(bits >> 8 for bits in held)
    views = np.lib.stride_tricks.sliding_window_view(text, width)
    one, last = np.uint16(1), np.uint16(len(word) - 1)
    found = []
    for at in range(0, len(begins), _BLOCK):
        rows = views[begins[at : at + _BLOCK]]
        up, down = (np.full(len(rows), bits, np.uint16) for bits in ((1 << len(word)) - 1, 0))
        edits = np.full(len(rows), len(word), np.int16)
        for column in rows.T:
            letters = column.tobytes()
            same = np.frombuffer(letters.translate(high), np.uint8).astype(np.uint16) << np.uint16(
                8
            )
            same |= np.frombuffer(letters.translate(low), np.uint8)
            level = (((same & up) + up) ^ up) | same
            grows, falls = down | ~(level | up), up & level
            edits += (grows >> last & one).astype(np.int16)
            edits -= (falls >> last & one).astype(np.int16)
            grows = grows << one | one
            up, down = falls << one | ~(same | down | grows), grows & (same | down)
        found.append(edits)
    return np.concatenate(found)
