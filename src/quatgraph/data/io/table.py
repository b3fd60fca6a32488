"""CSV tables by columns, with the line of each row."""

import csv
import io
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from quatgraph.data.io.files import read_text
from quatgraph.errors import UserError

if TYPE_CHECKING:
    import _csv

DELIMITERS = (",", "\t", ";")
_CHUNK = 1 << 10  # rows at a time: few enough to stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of a file without its blank lines.

    Attributes:
        path: The file.
        columns: The cells of each column, without surrounding spaces.
        delimiter: What separates the cells.
    """

    path: Path
    columns: list[list[str]]
    delimiter: str
    _text: str

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def row(self, number: int) -> list[str]:
        """The cells of one row, counted from 0."""
        return [column[number] for column in self.columns]

    def at(self, number: int) -> str:
        """The location of a row, counted from 0: ``"FILE line LINE"``."""
        # Only errors need it, so the file is parsed again: quoted cells may hold line breaks.
        reader = _reader(self._text, self.delimiter)
        next(islice(filter(None, reader), number, None))
        return f"{self.path} line {reader.line_num}"


def read_table(path: Path) -> Table:
    """Reads a UTF-8 file separated by commas, tabs or semicolons, whichever its first line has most
    of. Rows of unequal length and broken quotes are refused."""
    text = read_text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(DELIMITERS, key=first.count)
    rows = _reader(text, delimiter)
    table = Table(path, [], delimiter, text)
    while chunk := _next_rows(rows, path):
        if not table.columns:
            table.columns.extend([] for _ in chunk[0])
        width, widths = len(table.columns), list(map(len, chunk))
        if set(widths) != {width}:
            place = next(place for place, other in enumerate(widths) if other != width)
            raise UserError(
                f"{table.at(len(table) + place)} has {widths[place]} cells but the first line has "
                f"{width}; give every line the same number"
            )
        for column, cells in zip(table.columns, zip(*chunk, strict=True), strict=True):
            column.extend(map(str.strip, cells))
    return table


def split_cells(line: str) -> list[str]:
    """The cells of a line; the separator is the one that it has most of."""
    return [unquote(cell) for cell in line.split(max(DELIMITERS, key=line.count))]


def unquote(cell: str) -> str:
    """A cell without spaces around it, and without quotes if they are those of CSV."""
    cell = cell.strip()
    if len(cell) < 2 or not cell[0] == cell[-1] == '"':
        return cell
    inside = cell[1:-1]
    return cell if '"' in inside.replace('""', "") else inside.replace('""', '"')


def _reader(text: str, delimiter: str) -> "_csv.Reader":
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)


def _next_rows(reader: "_csv.Reader", path: Path) -> list[list[str]]:
    """The next rows that are not blank; none at the end."""
    try:
        return list(islice(filter(None, reader), _CHUNK))
    except csv.Error as error:
        raise UserError(
            f"{path} line {reader.line_num} is not valid CSV ({error}); correct its quotes"
        ) from error
