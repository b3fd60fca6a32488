"""Which of many cells of a text are the same, without making a Python object of each."""

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
_Words = NDArray[np.uint64]

_WORD = 8  # bytes that are compared at once


def distinct_cells(text: bytes, starts: Ids, lengths: Ids) -> tuple[Ids, Ids]:
    """One cell for each name, and for each cell the place of its name.

    Args:
        text: Without zero bytes.
        starts: Where each cell begins.
        lengths: Bytes of each cell.

    Returns:
        Cells that all have different names, in no particular order, and for every cell which of
        them has its name.

    Shape:
        - starts, lengths: ``(N,)``
        - output: ``(D,)`` and ``(N,)``

    Example:
        >>> cells, places = distinct_cells(b"on off on", np.array([0, 3, 7]), np.array([2, 3, 2]))
        >>> sorted(cells.tolist()), (places[0] == places[2]).item()
        ([0, 1], True)
    """
    # Every place of the text as the beginning of a word of eight bytes.
    padded = text + bytes(_WORD)
    words = np.ndarray((len(text) + 1,), dtype="<u8", buffer=padded, strides=(1,))
    key = np.zeros(len(starts), dtype=np.uint64)
    rows, done = np.arange(len(starts)), 0
    while len(rows):
        key[rows] = _mixed(key[rows] ^ _word(words, starts[rows], lengths[rows], done))
        done += _WORD
        rows = rows[lengths[rows] > done]
    order = np.argsort(key)
    new = np.diff(key[order], prepend=np.uint64(0)) != 0
    new[:1] = True
    cells, places = order[new], np.empty(len(starts), dtype=np.int64)
    places[order] = np.cumsum(new) - 1
    if _same(words, starts, lengths, cells[places]):
        return cells, places
    return np.arange(len(starts)), np.arange(len(starts))


def _same(words: _Words, starts: Ids, lengths: Ids, other: Ids) -> bool:
    """Whether each cell has the name of another one: equal keys alone do not prove it."""
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
    """The next bytes of each cell, zero after its end."""
    beyond = np.clip(_WORD - (lengths - done), 0, _WORD).astype(np.uint64)
    mask = np.where(beyond < _WORD, np.uint64(2**64 - 1) >> (np.uint64(8) * beyond), 0)
    return words[starts + done] & mask.astype(np.uint64)


def _mixed(key: _Words) -> _Words:
    """Other numbers for other numbers, without a pattern: the last steps of SplitMix64."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return key ^ (key >> np.uint64(31))
