"""Text files of numbers, with the line of each row.

Built for tens of millions of numbers in lines of unequal length: no Python code runs per line
unless there is an error to locate.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.io.messages import count_noun
from quatgraph.errors import Mistake

Ids = NDArray[np.int64]
_CHUNK = 1 << 22  # bytes at a time, so that arrays stay small
_NEWLINE, _SPACE, _MINUS = b"\n -"
# Possessive, without backtracking: a word may have very many digits.
_REAL = rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?"
_REAL_BYTES, _REAL_TEXT = re.compile(_REAL), re.compile(_REAL.decode(), re.ASCII)
_WHOLE = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """The numbers of a text without its blank lines.

    Attributes:
        where: The file, for messages.
        values: All numbers, int64 or float64.
        counts: Number of values of each row.
        lines: Line number of each row, counted from 1.
    """

    where: str
    values: NDArray[np.generic]
    counts: NDArray[np.int64]
    lines: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def first(self) -> NDArray[np.int64]:
        """Index of the first value of each row."""
        return np.cumsum(self.counts) - self.counts

    def at(self, row: int) -> str:
        """The location of a row, counted from 0: ``"FILE line LINE"``."""
        return f"{self.where} line {self.lines[row]}"

    def matrix(self, width: int | None = None) -> NDArray[np.generic]:
        """The values as ``(rows, width)``; rows of another length are a :class:`Mistake`.

        Args:
            width: Numbers per row; by default that of the first row.
        """
        if width is None:
            width = int(self.counts[0]) if len(self) else 0
        wrong = self.counts != width
        if wrong.any():
            row = int(wrong.argmax())
            raise Mistake(
                f"{self.at(row)} has {count_noun(int(self.counts[row]), 'number')} where {width} "
                f"{'is' if width == 1 else 'are'} needed; correct the line"
            )
        return self.values.reshape(len(self), width)


def is_number(word: str | bytes) -> bool:
    """Whether a word is a number in ASCII digits, with optional sign, point and exponent.

    Python's ``float`` reads more: ``1_0``, ``infinity``, digits of other scripts.

    Example:
        >>> is_number("-1.5e3"), is_number("1_0"), is_number("nan")
        (True, False, False)
    """
    if isinstance(word, bytes):
        return _REAL_BYTES.fullmatch(word) is not None
    return _REAL_TEXT.fullmatch(word) is not None


def column_numbers(cells: list[str], key: str, at: Callable[[int], str]) -> NDArray[np.float64]:
    """The cells of a column as numbers; one that is not finite in float32 is a :class:`Mistake`.

    Args:
        key: Name of the column, for messages.
        at: The location of a cell, counted from 0, for messages.
    """
    try:
        values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        text = "".join(cells)
        plain = "_" not in text and text.isascii()
    except ValueError:
        plain = False
    if not plain:
        row = next(row for row, cell in enumerate(cells) if not is_number(cell))
        raise Mistake(
            f"{at(row)} has {cells[row]!r} in column {key!r}; write a number in plain digits, or "
            "leave the column out"
        )
    bad = ~(np.abs(values) <= np.finfo(np.float32).max)
    if bad.any():
        row = int(bad.argmax())
        raise Mistake(f"{at(row)} has {cells[row]!r} in column {key!r}; write a finite number")
    return values


def whole_numbers(content: bytes, where: str) -> Rows:
    """Whole numbers separated by spaces, tabs or commas.

    Example:
        >>> rows = whole_numbers(b"2 3\\n\\n-1,0,5", "here")
        >>> rows.values.tolist(), rows.counts.tolist(), rows.lines.tolist()
        ([2, 3, -1, 0, 5], [2, 3], [1, 3])
    """
    strange = content.translate(None, b"0123456789-, \t\r\n")
    if strange:
        raise _no_number(content, content.find(strange[:1]), where)
    values, counts = [], []
    for start, text in _chunks(content):
        codes = np.frombuffer(text, dtype=np.uint8)
        minus = np.flatnonzero(codes == _MINUS)
        if len(minus):
            # Room for a neighbour on both sides of every byte.
            padded = np.pad(codes, 1, constant_values=_SPACE)
            lonely = (padded[minus] > _SPACE) | (padded[minus + 2] < ord("0"))
            if lonely.any():
                raise _no_number(content, start + int(minus[lonely.argmax()]), where)
        # numpy finds a zero in a text of nothing but spaces.
        if text.strip():
            values.append(np.fromstring(text, dtype=np.int64, sep=" "))
        counts.append(_counts(codes))
    rows = _rows(where, _joined(values, np.int64), _joined(counts, np.int64))
    # numpy clips what does not fit.
    beyond = (rows.values == _WHOLE.max) | (rows.values == _WHOLE.min)
    if beyond.any():
        row = _row_of(rows, int(beyond.argmax()))
        raise Mistake(f"{rows.at(row)} has a number that is too large; at most {_WHOLE.max - 1:,}")
    return rows


def real_numbers(content: bytes, where: str) -> Rows:
    """Real numbers separated by spaces, tabs or commas; all must be finite in float32."""
    values, counts = [], []
    for start, text in _chunks(content):
        count = _counts(np.frombuffer(text, dtype=np.uint8))
        with warnings.catch_warnings():
            # Parsing stops at what is no number; the length shows it, not the warning.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                found = np.fromstring(text, dtype=np.float64, sep=" ")
            except ValueError:
                found = np.empty(0)
        if len(found) != count.sum():
            found = _parse_words(content, start, text, where)
        values.append(found)
        counts.append(count)
    rows = _rows(where, _joined(values, np.float64), _joined(counts, np.int64))
    bad = ~(np.abs(rows.values) <= np.finfo(np.float32).max)
    if bad.any():
        row = _row_of(rows, int(bad.argmax()))
        raise Mistake(f"{rows.at(row)} has a value that is no finite number; replace it")
    return rows


def _chunks(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the text of chunks of whole lines, with spaces for commas."""
    start = 0
    while start < len(content):
        newline = content.find(b"\n", start + _CHUNK)
        end = len(content) if newline < 0 else newline + 1
        yield start, content[start:end].replace(b",", b" ")
        start = end


def _counts(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Number of values of each line, including blank lines."""
    blank = codes <= _SPACE
    is_start = ~blank
    is_start[1:] &= blank[:-1]
    ends = np.flatnonzero(codes == _NEWLINE)
    if not len(ends) or ends[-1] != len(codes) - 1:
        ends = np.append(ends, len(codes))
    return np.diff(np.searchsorted(np.flatnonzero(is_start), ends), prepend=0)


def _joined(parts: list[NDArray], dtype: type) -> NDArray:
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


def _rows(where: str, values: NDArray, counts: NDArray[np.int64]) -> Rows:
    filled = np.flatnonzero(counts)
    return Rows(where, values, counts[filled], filled + 1)


def _row_of(rows: Rows, place: int) -> int:
    """The row of a value, by its index."""
    return int(np.searchsorted(np.cumsum(rows.counts), place, side="right"))


def _parse_words(content: bytes, start: int, text: bytes, where: str) -> NDArray[np.float64]:
    """Parses word by word to locate what is no number."""
    values = []
    for line in text.split(b"\n"):
        for word in line.split():
            if not is_number(word):
                raise _no_number(content, start + line.find(word), where)
            values.append(float(word))
        start += len(line) + 1
    return np.array(values)


def _no_number(content: bytes, place: int, where: str) -> Mistake:
    line = content.count(b"\n", 0, place) + 1
    start = max(content.rfind(mark, 0, place) for mark in (b" ", b"\t", b"\n", b",")) + 1
    words = content[start : start + 40].replace(b",", b" ").split()
    word = words[0].decode("utf-8", "backslashreplace") if words else ""
    return Mistake(f"{where} line {line} has {word!r}; write numbers only")
