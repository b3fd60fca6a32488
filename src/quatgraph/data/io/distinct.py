"""Distinct cells of a text, without a Python object per cell."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
_Words = NDArray[np.uint64]

_WORD = 8  # bytes that are compared at once


def distinct_cells(text: bytes, starts: Ids, lengths: Ids) -> tuple[Ids, Ids]:
    """One cell for each distinct name, like ``np.unique`` with its inverse, in no particular order.

    Args:
        text: Without zero bytes.
        starts: Offset of each cell.
        lengths: Number of bytes of each cell.

    Shape:
        - starts, lengths: ``(N,)``
        - output: ``(D,)`` and ``(N,)``

    Example:
        >>> cells, places = distinct_cells(b"on off on", np.array([0, 3, 7]), np.array([2, 3, 2]))
        >>> sorted(cells.tolist()), (places[0] == places[2]).item()
        ([0, 1], True)
    """
    # The eight bytes from every offset of the text as one number.
    padded = text + bytes(_WORD)
    words = np.ndarray((len(text) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    key = np.zeros(len(starts), dtype=np.uint64)
    rows, done = np.arange(len(starts)), 0
    while len(rows):
        key[rows] = _hash(key[rows] ^ _word(words, starts[rows], lengths[rows], done))
        done += _WORD
        rows = rows[lengths[rows] > done]
    order = np.argsort(key)
    new = np.diff(key[order], prepend=np.uint64(0)) != 0
    new[:1] = True
    cells, places = order[new], np.empty(len(starts), dtype=np.int64)
    places[order] = np.cumsum(new) - 1
    if _are_equal(words, starts, lengths, cells[places]):
        return cells, places
    return np.arange(len(starts)), np.arange(len(starts))


def _are_equal(words: _Words, starts: Ids, lengths: Ids, other: Ids) -> bool:
    """Whether each cell equals another one, which equal keys do not prove."""
    if not np.array_equal(lengths, lengths[other]):
        return False
    rows, done = np.flatnonzero(other != np.arange(len(starts))), 0
    while len(rows):
        mine = _word(words, starts[rows], lengths[rows], done)
        theirs = other[rows]
        if not np.array_equal(mine, _word(words, starts[theirs], lengths[theirs], done)):
            return False
        done += _WORD
        rows = rows[lengths[rows] > done]
    return True


def _word(words: _Words, starts: Ids, lengths: Ids, done: int) -> _Words:
    """The next eight bytes of each cell, zero after its end."""
    beyond = np.clip(_WORD - (lengths - done), 0, _WORD).astype(np.uint64)
    mask = np.where(beyond < _WORD, np.uint64(2**64 - 1) >> (np.uint64(8) * beyond), 0)
    return words[starts + done] & mask.astype(np.uint64)


def _hash(key: _Words) -> _Words:
    """A bijective hash: the last steps of SplitMix64."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
