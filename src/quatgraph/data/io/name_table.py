"""Large tables of names by columns, with the line of each row.

Built for millions of lines: no Python code runs per line unless a chunk has quotes, blank lines or
an error. A tab in the first line makes tabs the separator, otherwise commas or semicolons,
whichever the first line has more of. Between commas, quotes are those of CSV. Between tabs, a quote
is an ordinary character unless the whole cell is quoted.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from quatgraph.data.io.files import decode_text
from quatgraph.data.io.messages import count_noun
from quatgraph.data.io.numbers import Ids
from quatgraph.data.io.table import unquote
from quatgraph.errors import UserError

_MARKS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
_CHUNK = 1 << 16  # characters at a time: their cells fit the CPU cache
_ROWS = 1 << 12
Chunk = tuple[list[list[str]], Ids]
"""The columns of consecutive rows, and the line number of each row, counted from 1."""


@dataclass(frozen=True, slots=True)
class NameTable:
    """A text in which each line is a row of names.

    Attributes:
        text: The text; every line ends with a newline.
        where: The file, for messages.
        names: Names of all columns, for messages; every row must have as many.
        mark: The separator.
        quotes: Whether there are quotes.
        line: Line number of the first row.
        places: The columns to read, in this order.
    """

    text: str
    where: str
    names: tuple[str, ...]
    mark: str
    quotes: bool
    line: int
    places: Sequence[int]

    @classmethod
    def parse(cls, content: bytes, where: str, names: Sequence[str]) -> "NameTable":
        """Prepares a table in UTF-8.

        Example:
            >>> table = NameTable.parse(b"id,label\\nQ64,Berlin\\n\\nQ90,Paris", "f", "ab")
            >>> table.first_row()
            ['id', 'label']
            >>> for columns, lines in table.skip_first().chunks():
            ...     print(columns[1], lines)
            ['Berlin', 'Paris'] [2 4]
        """
        if b"\0" in content:  # as in UTF-16
            line = content.count(b"\n", 0, content.index(b"\0")) + 1
            raise UserError(f"{where} line {line} is not UTF-8 text; save it as UTF-8")
        text = decode_text(content, where)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        stripped = text.lstrip("\n")
        line = 1 + len(text) - len(stripped)
        text = stripped.rstrip("\n")
        first = text.partition("\n")[0]
        mark = "\t" if "\t" in first else max(",;", key=first.count)
        text = text and text + "\n"
        return cls(text, where, tuple(names), mark, '"' in text, line, range(len(names)))

    def first_row(self) -> list[str]:
        """The cells of the first line, however many; none of a blank one."""
        if self._is_quoted():
            row = next(self._csv_rows(), [])
        else:
            row = self.text.partition("\n")[0].split(self.mark)
        cells = self._clean(row)
        return cells if any(cells) or len(cells) > 1 else []

    def select_columns(self, names: Sequence[str], places: Sequence[int]) -> "NameTable":
        """The same text with other names of columns, of which some are read."""
        return replace(self, names=tuple(names), places=places)

    def skip_first(self) -> "NameTable":
        """The same text without its first line."""
        return replace(self, text=self.text.partition("\n")[2], line=self.line + 1)

    def chunks(self) -> Iterator[Chunk]:
        """The rows that are not blank; one of another length is a :class:`UserError`."""
        if self._is_quoted():
            yield from self._row_chunks(self._csv_rows(), self.line)
            return
        width = len(self.names)
        marks = (self.mark * (width - 1) + "\n").encode()
        letters = bytes(set(range(256)).difference(marks))
        start, line = 0, self.line
        while start < len(self.text):
            end = self.text.find("\n", start + _CHUNK) + 1 or len(self.text)
            chunk = self.text[start : end - 1]
            count = chunk.count("\n") + 1
            if self.text[start:end].encode().translate(None, letters) == marks * count:
                cells = self._clean(chunk.replace("\n", self.mark).split(self.mark))
                columns = [cells[place::width] for place in self.places]
                yield columns, np.arange(line, line + count)
            else:
                yield from self._row_chunks((r.split(self.mark) for r in chunk.split("\n")), line)
            start, line = end, line + count

    def _is_quoted(self) -> bool:
        return self.quotes and self.mark != "\t"

    def _csv_rows(self) -> Iterator[list[str]]:
        """The row of each line of a text with CSV's quotes, none of which may span lines."""
        text = io.StringIO(self.text, newline="")
        reader = csv.reader(text, delimiter=self.mark, skipinitialspace=True, strict=True)
        line = self.line
        try:
            for row in reader:
                if self.line + reader.line_num != line + 1:
                    raise UserError(
                        f"{self.where} line {line} has a quoted name that goes on in the next "
                        "line; close its quotes"
                    )
                yield row or [""]
                line += 1
        except csv.Error as error:
            raise UserError(
                f"{self.where} line {line} is not valid CSV ({error}); correct its quotes"
            ) from error

    def _row_chunks(self, rows: Iterator[list[str]], line: int) -> Iterator[Chunk]:
        """Rows that may be blank or have a wrong length; slow."""
        while some := list(islice(rows, _ROWS)):
            filled = {
                line + place: row
                for place, row in enumerate(some)
                if len(row) > 1 or row[0].strip()
            }
            for number, row in filled.items():
                if len(row) != len(self.names):
                    raise self._wrong_width(len(row), number)
            if filled:
                columns = list(zip(*filled.values(), strict=True))
                yield [self._clean(columns[place]) for place in self.places], np.array([*filled])
            line += len(some)

    def _clean(self, cells: Sequence[str]) -> list[str]:
        # Between commas, csv has removed the quotes.
        if self.quotes and self.mark == "\t":
            return [unquote(cell) if '"' in cell else cell.strip() for cell in cells]
        return list(map(str.strip, cells))

    def _wrong_width(self, width: int, line: int) -> UserError:
        return UserError(
            f"{self.where} line {line} has {count_noun(width, 'column')} where {len(self.names)} "
            f"are needed; write {', '.join(self.names)}, separated by "
            f"{_MARKS[self.mark] if width > 1 else 'tabs'}"
        )
