"""Large tables of names by columns, with the line of each row.

Built for millions of lines: no Python code runs per line or per cell unless a line is malformed.
A tab in the first line makes tabs the separator, otherwise commas or semicolons, whichever the
first line has more of. Between commas, quotes are those of CSV. Between tabs, a quote is an
ordinary character unless the whole cell is quoted.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from quatgraph.data.io.distinct import Ids, distinct_cells
from quatgraph.data.io.table import unquote
from quatgraph.errors import Mistake

if TYPE_CHECKING:
    import _csv

_MARKS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
_CHUNK = 1 << 23  # bytes at a time: the arrays made of them are several times as large
_ROWS = 1 << 12
_NEWLINE = ord("\n")


@dataclass(frozen=True, slots=True)
class Column:
    """The cells of a column.

    Attributes:
        names: Their names, possibly repeated and with surrounding spaces.
        places: Index into the names for each cell.
    """

    names: list[str]
    places: Ids

    def cells(self) -> list[str]:
        """The cells, without surrounding spaces."""
        names = [name.strip() for name in self.names]
        return [names[place] for place in self.places.tolist()]


class Numbering:
    """Gives every new name the next number."""

    def __init__(self) -> None:
        self._number: defaultdict[str, int] = defaultdict()
        self._number.default_factory = self._number.__len__

    def __len__(self) -> int:
        return len(self._number)

    def __contains__(self, name: str) -> bool:
        return name in self._number

    def encode(self, column: Column) -> Ids:
        """The number of each cell's name."""
        numbers = map(self._number.__getitem__, column.names)
        return np.fromiter(numbers, dtype=np.int64, count=len(column.names))[column.places]

    def sort(self) -> tuple[list[str], Ids]:
        """The names without surrounding spaces, sorted, and the new number of each old one."""
        names = [name.strip() for name in self._number]
        ordered = sorted(set(names))
        place = dict(zip(ordered, range(len(ordered)), strict=True))
        return ordered, np.fromiter(map(place.__getitem__, names), dtype=np.int64, count=len(names))

    def find_blank(self) -> Ids:
        """The numbers of blank names."""
        names = enumerate(self._number)
        return np.array([number for number, name in names if not name.strip()], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows of a table, without blank lines.

    Attributes:
        columns: The columns that are read.
        lines: Line number of each row, counted from 1.
    """

    columns: list[Column]
    lines: Ids


@dataclass(frozen=True, slots=True)
class NameTable:
    """A text in which each line is a row of names.

    Attributes:
        content: The text; its lines end with a newline.
        where: The file, for messages.
        names: Names of all columns, for messages; every row must have as many.
        mark: The separator.
        quotes: Whether there are quotes.
        line: Line number of the first row.
        places: The columns to read, in this order; by default all.
    """

    content: bytes
    where: str
    names: tuple[str, ...]
    mark: str
    quotes: bool
    line: int
    places: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, content: bytes, where: str, names: Sequence[str]) -> "NameTable":
        """Prepares a table in UTF-8.

        Example:
            >>> table = NameTable.parse(b"id,label\\nQ64,Berlin\\n\\nQ90,Paris", "f", "ab")
            >>> table.first_row()
            ['id', 'label']
            >>> for chunk in table.skip_first().chunks():
            ...     print(chunk.columns[1].cells(), chunk.lines)
            ['Berlin', 'Paris'] [2 4]
        """
        if b"\0" in content:
            raise _not_text(content, content.find(b"\0"), where, 1)
        if b"\r" in content:
            content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        stripped = content.lstrip(b"\n")
        line = 1 + len(content) - len(stripped)
        content = stripped.rstrip(b"\n")
        if content:
            content += b"\n"
        first = content[: content.find(b"\n")]
        mark = "\t" if b"\t" in first else max(",;", key=lambda mark: first.count(mark.encode()))
        return cls(content, where, tuple(names), mark, b'"' in content, line)

    def first_row(self) -> list[str]:
        """The cells of the first line, however many; none of a blank one."""
        alone = replace(self, content=self.content[: self._second()])
        if self.mark != "\t" and self.quotes:
            rows = self._next_rows(alone._reader())
        else:
            text = self._decode(alone.content, self.line).removesuffix("\n")
            rows = [text.split(self.mark)]
        cells = [cell.strip() for cell in self._unquote(rows[0])] if rows else []
        return cells if any(cells) or len(cells) > 1 else []

    def select_columns(self, names: Sequence[str], places: Sequence[int]) -> "NameTable":
        """The same text with other names of columns, of which some are read."""
        return replace(self, names=tuple(names), places=tuple(places))

    def skip_first(self) -> "NameTable":
        """The same text without its first line."""
        return replace(self, content=self.content[self._second() :], line=self.line + 1)

    def chunks(self) -> Iterator[Chunk]:
        """The rows; one of another length is a :class:`Mistake`."""
        if self.mark != "\t" and self.quotes:
            yield from self._quoted_chunks()
            return
        start, line = 0, self.line
        while start < len(self.content):
            end = self.content.find(b"\n", start + _CHUNK) + 1 or len(self.content)
            chunk = self.content[start:end]
            text = self._decode(chunk, line)
            starts, lengths = self._spans(chunk)
            if len(starts):
                yield self._chunk(chunk, starts, lengths, line)
            else:
                yield from self._row_chunks(
                    (row.split(self.mark) for row in text.removesuffix("\n").split("\n")), line
                )
            start, line = end, line + chunk.count(b"\n")

    def _places(self) -> Sequence[int]:
        return range(len(self.names)) if self.places is None else self.places

    def _second(self) -> int:
        return self.content.find(b"\n") + 1 or len(self.content)

    def _spans(self, chunk: bytes) -> tuple[Ids, Ids]:
        """Offset and length of each cell ``(rows, width)``; none if a row has a wrong length."""
        codes = np.frombuffer(chunk, dtype=np.uint8)
        ends = np.flatnonzero((codes == ord(self.mark)) | (codes == _NEWLINE))
        width = len(self.names)
        pattern = [ord(self.mark)] * (width - 1) + [_NEWLINE]
        if len(ends) % width or not (codes[ends].reshape(-1, width) == pattern).all():
            return ends[:0], ends[:0]
        starts = np.concatenate(([0], ends[:-1] + 1))
        return starts.reshape(-1, width), (ends - starts).reshape(-1, width)

    def _chunk(self, chunk: bytes, starts: Ids, lengths: Ids, line: int) -> Chunk:
        columns = []
        for place in self._places():
            offsets, sizes = starts[:, place], lengths[:, place]
            found, places = distinct_cells(chunk, offsets, sizes)
            ends = offsets[found] + sizes[found]
            names = [
                chunk[begin:end].decode()
                for begin, end in zip(offsets[found].tolist(), ends.tolist(), strict=True)
            ]
            columns.append(Column(self._unquote(names), places))
        return Chunk(columns, np.arange(line, line + len(starts)))

    def _row_chunks(self, rows: Iterator[list[str]], line: int) -> Iterator[Chunk]:
        """Rows that may be blank or have a wrong length; slow."""
        while some := list(islice(rows, _ROWS)):
            filled = [place for place, row in enumerate(some) if len(row) > 1 or row[0].strip()]
            for place in filled:
                self._check_width(len(some[place]), line + place)
            columns = list(zip(*(some[place] for place in filled), strict=True))
            cells = np.arange(len(filled))
            if filled:
                chosen = (self._unquote(list(columns[place])) for place in self._places())
                yield Chunk([Column(names, cells) for names in chosen], np.array(filled) + line)
            line += len(some)

    def _quoted_chunks(self) -> Iterator[Chunk]:
        """The rows of a text with CSV's quotes, none of which may span lines."""
        reader = self._reader()
        before = 0
        while rows := self._next_rows(reader):
            if reader.line_num != before + len(rows):
                torn = next(place for place, row in enumerate(rows) if "\n" in "".join(row))
                raise Mistake(
                    f"{self.where} line {self.line + before + torn} has a quoted name that goes on "
                    "in the next line; close its quotes"
                )
            yield from self._row_chunks((row or [""] for row in rows), self.line + before)
            before = reader.line_num

    def _reader(self) -> "_csv.Reader":
        text = io.StringIO(self._decode(self.content, self.line), newline="")
        return csv.reader(text, delimiter=self.mark, skipinitialspace=True, strict=True)

    def _next_rows(self, reader: "_csv.Reader") -> list[list[str]]:
        try:
            return list(islice(reader, _ROWS))
        except csv.Error as error:
            raise Mistake(
                f"{self.where} line {self._broken_line()} is not valid CSV ({error}); "
                "correct its quotes"
            ) from error

    def _broken_line(self) -> int:
        """The line in which the first row of invalid CSV starts."""
        reader, line = self._reader(), self.line
        try:
            for _ in reader:
                line = self.line + reader.line_num
        except csv.Error:
            pass
        return line

    def _unquote(self, names: list[str]) -> list[str]:
        # Between commas either nothing is in quotes or csv took them off.
        return list(map(unquote, names)) if self.mark == "\t" and self.quotes else names

    def _check_width(self, width: int, line: int) -> None:
        if width == len(self.names):
            return
        columns = "1 column" if width == 1 else f"{width} columns"
        raise Mistake(
            f"{self.where} line {line} has {columns} where {len(self.names)} are needed; write "
            f"{', '.join(self.names)}, separated by {_MARKS[self.mark] if width > 1 else 'tabs'}"
        )

    def _decode(self, chunk: bytes, line: int) -> str:
        try:
            return chunk.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _not_text(chunk, error.start, self.where, line) from error


def _not_text(content: bytes, place: int, where: str, line: int) -> Mistake:
    line += content.count(b"\n", 0, place)
    return Mistake(f"{where} line {line} is not UTF-8 text; save the file as UTF-8")
