"""Reads tables of names by columns, fast, and still knows the line of each row.

Built for millions of lines: nothing of Python's own runs per line, unless lines are blank or a CSV
file has quotes. A file with a tab in its first line is separated by tabs, any other by commas or
semicolons, whichever the first line has more of. Between commas quotes are those of CSV; between
tabs a quote is a letter like any other, but a cell wholly in quotes is taken out of them.
"""

import csv
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from quatgraph.data.numbers import read_content
from quatgraph.errors import Mistake

SUFFIXES = (".tsv", ".csv", ".txt")
PACKINGS = ("", ".gz", ".xz")
_MARKS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
_CHUNK = 1 << 22  # bytes at a time: the cells of a whole file would take ten times its size
_ROWS = 1 << 15
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a table, one after the other; blank lines are left out.

    Attributes:
        columns: The cells, column by column, perhaps with spaces around them.
        lines: Which line of the text, counted from 1, each row is.
    """

    columns: list[list[str]]
    lines: Sequence[int]


def read_packed(path: Path) -> bytes:
    """The bytes of a file, those of ``.gz`` and ``.xz`` unpacked, without a byte-order mark."""
    content = read_content(path)
    try:
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        elif path.suffix == ".xz":
            content = lzma.decompress(content)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise Mistake(f"{path} is damaged and cannot be unpacked; pack it again") from error
    return content.removeprefix(_BOM)


def pieces(content: bytes, where: str, names: Sequence[str]) -> Iterator[Piece]:
    """The rows of a table in UTF-8, piece by piece.

    Args:
        content: The text.
        where: The file, for messages.
        names: What the columns are, for messages; every row must have as many.

    Example:
        >>> [piece.columns for piece in pieces(b"a\\tb\\n\\nc\\td", "here", ["id", "label"])]
        [[['a', 'c'], ['b', 'd']]]
    """
    if b"\0" in content:
        raise _not_text(content, content.find(b"\0"), where)
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    mark = _mark(content)
    if mark != "\t" and b'"' in content:
        return _quoted(content, where, mark, names)
    return _plain(content, where, mark, names)


def _mark(content: bytes) -> str:
    begin = len(content) - len(content.lstrip(b"\n"))
    end = content.find(b"\n", begin)
    first = content[begin : None if end < 0 else end]
    return "\t" if b"\t" in first else max(",;", key=lambda mark: first.count(mark.encode()))


def _plain(content: bytes, where: str, mark: str, names: Sequence[str]) -> Iterator[Piece]:
    """The rows of a text in which every mark separates."""
    start, line, width = 0, 1, len(names)
    while start < len(content):
        end = content.find(b"\n", start + _CHUNK) + 1 or len(content)
        text = _decoded(content, start, end, where)
        rows = text.removesuffix("\n").split("\n")
        lines: Sequence[int] = range(line, line + len(rows))
        start, line = end, line + len(rows)
        if set(map(str.count, rows, repeat(mark))) != {width - 1}:
            lines, rows = _not_blank(lines, rows, mark)
            for number, row in zip(lines, rows, strict=True):
                _check_width(row.count(mark) + 1, names, f"{where} line {number}", mark)
        if rows:
            cells = mark.join(rows).split(mark)
            if mark == "\t" and '"' in text:
                cells = list(map(_unquoted, cells))
            yield Piece([cells[place::width] for place in range(width)], lines)


def _quoted(content: bytes, where: str, mark: str, names: Sequence[str]) -> Iterator[Piece]:
    """The rows of a text with CSV's quotes."""
    text = io.StringIO(_decoded(content, 0, len(content), where), newline="")
    reader = csv.reader(text, delimiter=mark, skipinitialspace=True, strict=True)
    rows: list[list[str]] = []
    lines: list[int] = []
    before = 0
    try:
        for row in reader:
            if reader.line_num > before + 1:
                raise Mistake(
                    f"{where} line {before + 1} has a quoted name that goes on in the next line; "
                    "close its quotes"
                )
            before = reader.line_num
            if len(row) != len(names):
                if not "".join(row).strip() and len(row) < 2:
                    continue
                _check_width(len(row), names, f"{where} line {before}", mark)
            rows.append(row)
            lines.append(before)
            if len(rows) == _ROWS:
                yield _piece(rows, lines)
                rows, lines = [], []
    except csv.Error as error:
        raise Mistake(
            f"{where} line {before + 1} is not valid CSV ({error}); correct its quotes"
        ) from error
    if rows:
        yield _piece(rows, lines)


def _piece(rows: list[list[str]], lines: list[int]) -> Piece:
    return Piece([list(column) for column in zip(*rows, strict=True)], lines)


def _not_blank(lines: Sequence[int], rows: list[str], mark: str) -> tuple[Sequence[int], list[str]]:
    kept = [place for place, row in enumerate(rows) if mark in row or row.strip()]
    return [lines[place] for place in kept], [rows[place] for place in kept]


def _check_width(width: int, names: Sequence[str], where: str, mark: str) -> None:
    if width != len(names):
        columns = "1 column" if width == 1 else f"{width} columns"
        raise Mistake(
            f"{where} has {columns} where {len(names)} are needed; "
            f"write {', '.join(names)}, separated by {_MARKS[mark] if width > 1 else 'tabs'}"
        )


def _unquoted(cell: str) -> str:
    cell = cell.strip()
    inside = cell[1:-1].replace('""', "")
    if len(cell) < 2 or not cell[0] == cell[-1] == '"' or '"' in inside:
        return cell
    return cell[1:-1].replace('""', '"')


def _decoded(content: bytes, start: int, end: int, where: str) -> str:
    try:
        return content[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(content, start + error.start, where) from error


def _not_text(content: bytes, place: int, where: str) -> Mistake:
    line = content.count(b"\n", 0, place) + 1
    return Mistake(f"{where} line {line} is not UTF-8 text; save the file as UTF-8")
