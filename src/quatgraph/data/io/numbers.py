"""Text files of numbers, with the line of each row.

Built for tens of millions of numbers in lines of unequal length: no Python code runs per line
unless there is an error to locate.
"""

import re
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.io.messages import count_noun
from quatgraph.errors import UserError

Ids = NDArray[np.int64]
_CHUNK = 1 << 22  # bytes at a time, so that arrays stay small
_NEWLINE, _SPACE = b"\n "
_WARNINGS_LOCK = threading.Lock()
_WHOLE, _LONE_SIGN = re.compile(rb"-?\d++"), re.compile(rb"-(?!\d)")
# Possessive, without backtracking: a word may have very many digits.
_REAL = re.compile(rb"[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?")


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
    counts: Ids
    lines: Ids

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def first(self) -> Ids:
        """Index of the first value of each row."""
        return np.cumsum(self.counts) - self.counts

    def at(self, row: int) -> str:
        """The location of a row, counted from 0: ``"FILE line LINE"``."""
        return f"{self.where} line {self.lines[row]}"

    def locate(self, value: int) -> str:
        """The location of a value, by its index."""
        return self.at(int(np.searchsorted(np.cumsum(self.counts), value, side="right")))

    def matrix(self, width: int | None = None) -> NDArray[np.generic]:
        """The values as ``(rows, width)``, by default the width of the first row; a row of another
        length is a :class:`UserError`."""
        if width is None:
            width = int(self.counts[0]) if len(self) else 0
        wrong = self.counts != width
        if wrong.any():
            row = int(wrong.argmax())
            raise UserError(
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
    found = _REAL.fullmatch(word if isinstance(word, bytes) else word.encode("utf-8", "replace"))
    return found is not None


def column_numbers(cells: list[str], key: str, at: Callable[[int], str]) -> NDArray[np.float64]:
    """The cells of a column as numbers; one that is not finite in float32 is a :class:`UserError`.

    For messages, ``key`` is the column's name, and ``at`` gives the location of a cell.
    """
    try:
        values = np.fromiter(map(float, cells), dtype=np.float64, count=len(cells))
        text = "".join(cells)
        plain = "_" not in text and text.isascii()
    except ValueError:
        plain = False
    if not plain:
        row = next(row for row, cell in enumerate(cells) if not is_number(cell))
        raise UserError(
            f"{at(row)} has {cells[row]!r} in column {key!r}; write a number in plain digits, or "
            "leave the column out"
        )
    bad = ~(np.abs(values) <= np.finfo(np.float32).max)
    if bad.any():
        row = int(bad.argmax())
        raise UserError(f"{at(row)} has {cells[row]!r} in column {key!r}; write a finite number")
    return values


def whole_numbers(content: bytes, where: str, line: int = 1) -> Rows:
    """Whole numbers separated by spaces, tabs or commas; ``line`` is the number of the first line.

    Example:
        >>> rows = whole_numbers(b"2 3\\n\\n-1,0,5", "here")
        >>> rows.values.tolist(), rows.counts.tolist(), rows.lines.tolist()
        ([2, 3, -1, 0, 5], [2, 3], [1, 3])
    """
    rows = _parse(content, where, np.int64, _WHOLE, line)
    # numpy clips what does not fit.
    limits = np.iinfo(np.int64)
    beyond = (rows.values == limits.max) | (rows.values == limits.min)
    if beyond.any():
        place = rows.locate(int(beyond.argmax()))
        raise UserError(f"{place} has a number that is too large; at most {limits.max - 1:,}")
    return rows


def real_numbers(content: bytes, where: str, line: int = 1) -> Rows:
    """As :func:`whole_numbers`, for real numbers; all must be finite in float32."""
    rows = _parse(content, where, np.float64, _REAL, line)
    bad = ~(np.abs(rows.values) <= np.finfo(np.float32).max)
    if bad.any():
        place = rows.locate(int(bad.argmax()))
        raise UserError(f"{place} has a value that is no finite number; replace it")
    return rows


def _parse(content: bytes, where: str, dtype: type, pattern: re.Pattern[bytes], line: int) -> Rows:
    values: list[NDArray] = [np.empty(0, dtype)]
    counts = [np.empty(0, np.int64)]
    for start, text in _chunks(content):
        counts.append(_counts(text))
        values.append(_parse_chunk(text, dtype))
        if len(values[-1]) != counts[-1].sum():
            kind = int if dtype is np.int64 else float
            words = _split_words(text, where, line + content.count(b"\n", 0, start), pattern)
            values[-1] = np.array([kind(word) for word in words], dtype)
    every = np.concatenate(counts)
    filled = np.flatnonzero(every)
    return Rows(where, np.concatenate(values), every[filled], filled + line)


def _parse_chunk(text: bytes, dtype: type) -> NDArray:
    """All numbers of a text; a wrong number of them if it has anything else."""
    # numpy finds a zero in a text of nothing but spaces, and in a sign for a whole number.
    if not text.strip() or (dtype is np.int64 and _is_not_whole(text)):
        return np.empty(0, dtype)
    # numpy warns where it stops before the end. The filters of warnings belong to all threads.
    with _WARNINGS_LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        try:
            found: NDArray = np.fromstring(text, dtype=dtype, sep=" ")
        except ValueError:
            return np.empty(0, dtype)
    return found[:0] if caught else found


def _is_not_whole(text: bytes) -> bool:
    return bool(text.translate(None, b"0123456789- \t\r\n")) or _LONE_SIGN.search(text) is not None


def _chunks(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The offset and the text of chunks of whole lines, with spaces for commas."""
    start = 0
    while start < len(content):
        end = content.find(b"\n", start + _CHUNK) + 1 or len(content)
        yield start, content[start:end].replace(b",", b" ")
        start = end


def _counts(text: bytes) -> Ids:
    """Number of values of each line, including blank lines."""
    codes = np.frombuffer(text, dtype=np.uint8)
    blank = codes <= _SPACE
    is_start = ~blank
    is_start[1:] &= blank[:-1]
    ends = np.flatnonzero(codes == _NEWLINE)
    if not len(ends) or ends[-1] != len(codes) - 1:
        ends = np.append(ends, len(codes))
    return np.diff(np.searchsorted(np.flatnonzero(is_start), ends), prepend=0)


def _split_words(text: bytes, where: str, line: int, pattern: re.Pattern[bytes]) -> list[bytes]:
    """The words of a text whose first line has this number; refuses what is no number."""
    words = []
    for number, row in enumerate(text.split(b"\n"), line):
        for word in filter(None, re.split(rb"[ \t\r]+", row)):
            if not pattern.fullmatch(word):
                shown = word[:40].decode("utf-8", "backslashreplace")
                raise UserError(f"{where} line {number} has {shown!r}; write numbers only")
            words.append(word)
    return words
