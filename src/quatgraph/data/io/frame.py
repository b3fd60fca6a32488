"""Tables with named columns: from files, or from pandas, Polars and Arrow in memory.

Files are ``.csv``, ``.tsv`` and ``.txt`` tables, ``.jsonl`` and ``.json`` objects, all of them also
packed, and ``.parquet``. Frames are recognised without an import of their libraries.
"""

import json
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quatgraph.data.io.files import (
    PACKINGS,
    TABLE_SUFFIXES,
    is_unicode,
    to_word,
    unpacked_suffix,
)
from quatgraph.data.io.jsonl import json_objects
from quatgraph.data.io.table import Table, read_table
from quatgraph.errors import UserError

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
FRAME_SUFFIXES = (*TABLE_SUFFIXES, *JSON_SUFFIXES, ".parquet")
INDEX = ""
"""Name of a first column without a name, as pandas writes its index."""
MAX_CELLS = 2**30
_NESTED = (list, tuple, set, frozenset, dict, bytes, bytearray, np.ndarray)
_LIBRARIES = ("pandas", "polars", "pyarrow")

Values = list[Any] | NDArray[Any]
"""The cells of a column: objects, None where missing, or numbers, NaN where missing."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The named columns of a table.

    Attributes:
        where: The source, for messages.
        columns: The cells of each column.
        at: The location of a row, counted from 0.
        delimiter: What separates the cells of a text file, which are all strings; else empty.
    """

    where: str
    columns: Mapping[str, Values]
    at: Callable[[int], str]
    delimiter: str = ""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def names(self) -> list[str]:
        """Names of all columns that have one."""
        return [name for name in self.columns if name != INDEX]

    def take(self, rows: Sequence[int]) -> "Frame":
        """Some rows, in this order."""
        columns: dict[str, Values] = {
            name: cells[list(rows)] if isinstance(cells, np.ndarray) else [cells[r] for r in rows]
            for name, cells in self.columns.items()
        }
        return replace(self, columns=columns, at=lambda row: self.at(rows[row]))

    def words(self, name: str) -> list[str]:
        """The cells of a column as words; empty for a missing one."""
        cells = self.columns[name]
        if self.delimiter:
            return list(cells)
        if isinstance(cells, np.ndarray):
            return [to_word(cell) or "" for cell in cells.tolist()]
        return [self._word(cell, row, name) for row, cell in enumerate(cells)]

    def numbers_or_words(self, name: str) -> NDArray[np.float64] | list[str]:
        """A column of numbers as such, NaN where missing; any other column as words."""
        cells = self.columns[name]
        if isinstance(cells, np.ndarray) and cells.dtype.kind in "iuf":
            return cells.astype(np.float64)
        if not self.delimiter and all(type(cell) in (int, float, type(None)) for cell in cells):
            try:
                return np.array([np.nan if cell is None else cell for cell in cells], np.float64)
            except OverflowError:
                pass  # a whole number beyond any float
        return self.words(name)

    def _word(self, cell: object, row: int, name: str) -> str:
        if cell is None:
            return ""
        if isinstance(cell, np.generic):
            cell = cell.item()
        if isinstance(cell, _NESTED):
            shown = cell if isinstance(cell, bytes) else json.dumps(cell, default=repr)
            raise UserError(
                f"{self.at(row)} has {str(shown)[:40]} in column {name!r}; write one text or "
                "number, or remove the column"
            )
        word = to_word(cell)
        word = str(cell) if word is None else word
        if not is_unicode(word):
            raise UserError(
                f"{self.at(row)} has half a character in column {name!r}; write it in UTF-8"
            )
        return word


def find_files(folder: Path, stem: str) -> list[Path]:
    """The tables of a folder with this name, in any format."""
    names = (f"{stem}{suffix}{packing}" for suffix, packing in product(FRAME_SUFFIXES, PACKINGS))
    return [path for name in names if (path := folder / name).is_file()]


def read_frame(path: Path, what: str) -> Frame:
    """Reads a table with column names; messages call a row ``what``."""
    suffix = unpacked_suffix(path)
    if suffix == ".parquet":
        return _read_parquet(path)
    if suffix in JSON_SUFFIXES:
        return _read_objects(path, what)
    table = read_table(path)
    if not len(table):
        raise UserError(f"{path} is empty; it needs a line of column names and a line per {what}")
    return named_columns(table)


def named_columns(table: Table) -> Frame:
    """A table whose first line names the columns. A first column without a name is
    :data:`INDEX`; other columns without a name must be empty and are left out."""
    columns: dict[str, Values] = {}
    for place, (name, *cells) in enumerate(table.columns):
        if not name and place:
            if any(cells):
                raise UserError(
                    f"column {place + 1} of {table.path} has no name; name or remove it"
                )
        elif name in columns:
            raise UserError(f"{table.path} has two columns named {name!r}; rename or remove one")
        else:
            columns[name] = cells
    return Frame(str(table.path), columns, lambda row: table.at(row + 1), table.delimiter)


def is_frame(value: object) -> bool:
    """Whether an object is a frame of pandas or Polars, or a table of Arrow."""
    return _library(value) is not None and hasattr(value, "columns")


def to_frame(value: Any, where: str) -> Frame:
    """The columns of a frame in memory; messages call it ``where``."""
    library = _library(value)
    if library == "polars" and hasattr(value, "collect"):
        raise UserError(f"{where} is lazy; pass what its collect() returns")
    if not is_frame(value):
        raise UserError(f"{where} must be a pandas or Polars frame, not {type(value).__name__}")
    names = list(value.column_names if library == "pyarrow" else value.columns)
    columns: dict[str, Values] = {}
    for place, name in enumerate(names):
        if str(name) in columns:
            raise UserError(f"{where} has two columns named {str(name)!r}; rename or remove one")
        column = value.iloc[:, place] if library == "pandas" else value[name]
        columns[str(name)] = _CELLS[library or ""](column)
    return Frame(where, columns, lambda row: f"row {row} (counted from 0) of {where}")


def with_index(value: Any, where: str, names: Container[str]) -> Frame:
    """The columns of a frame, and first its index: the one of pandas, or the row numbers. It is
    :data:`INDEX` unless it has one of the ``names``."""
    frame = to_frame(value, where)
    index = getattr(value, "index", None)
    name = INDEX
    cells: Values = np.arange(len(frame))
    if index is not None and hasattr(index, "to_numpy"):
        cells = pandas_cells(index)
        own = str(index.name)
        wanted = own in names or own.casefold() in names
        name = own if wanted and own not in frame.columns else INDEX
    return replace(frame, columns={name: cells, **frame.columns})


def _library(value: object) -> str | None:
    """The library of a frame, by its class: nothing is imported."""
    roots = (kind.__module__.partition(".")[0] for kind in type(value).__mro__)
    return next((root for root in roots if root in _LIBRARIES), None)


def pandas_cells(column: Any) -> Values:
    """The cells of a pandas Series or Index."""
    # One of its own types would become floats, which hold no large ids, where a cell is missing.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf":
        return column.to_numpy()
    missing = column.isna()
    return [None if gone else cell for cell, gone in zip(column.tolist(), missing, strict=True)]


def _polars_cells(column: Any) -> Values:
    if column.dtype.is_numeric() and not column.null_count():
        cells: NDArray[Any] = column.to_numpy()
        if cells.dtype.kind in "iuf":
            return cells
    return column.to_list()


def _arrow_cells(column: Any) -> Values:
    if not column.null_count:
        cells: NDArray[Any] = column.to_numpy()
        if cells.dtype.kind in "iuf":
            return cells
    return column.to_pylist()


_CELLS: dict[str, Callable[[Any], Values]] = {
    "pandas": pandas_cells,
    "polars": _polars_cells,
    "pyarrow": _arrow_cells,
}


def _read_objects(path: Path, what: str) -> Frame:
    """Objects with the same keys; a key that an object lacks is missing there."""
    read = list(json_objects(path, what))
    if not read:
        raise UserError(f"{path} is empty; write a JSON object per {what}")
    places, objects = zip(*read, strict=True)
    columns = columns_of(objects)
    if INDEX in columns:
        row = next(row for row, one in enumerate(objects) if INDEX in one)
        raise UserError(f"{places[row]} has an empty key; name or remove it")
    return Frame(str(path), columns, places.__getitem__)


def columns_of(objects: Iterable[Mapping[str, Any]]) -> dict[str, Values]:
    """Objects by columns; None where an object lacks the key."""
    rows = list(objects)
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: [row.get(key) for row in rows] for key in keys}


def _read_parquet(path: Path) -> Frame:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise UserError(
            f"reading {path} needs pyarrow; install it with pip install 'quatgraph[tables]'"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            rows, width = file.metadata.num_rows, file.metadata.num_columns
            if rows * width > MAX_CELLS:
                raise UserError(f"{path} has {rows:,} rows of {width:,} columns, which is too many")
            table = file.read()
            names = [_index_or(name) for name in table.column_names]
            frame = to_frame(table.rename_columns(names), str(path))
    except (ArrowException, OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).partition("\n")[0].rstrip(".")
        raise UserError(f"{path} cannot be read as Parquet ({reason}); write it again") from error
    return Frame(str(path), frame.columns, lambda row: f"{path} row {row + 1}")


def _index_or(name: str) -> str:
    """The name of a column; :data:`INDEX` for an index that pandas wrote."""
    return INDEX if name.startswith("__index_level_") else name
