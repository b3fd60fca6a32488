"""Rows as tables: aligned for a terminal, or as CSV, TSV, JSON or Parquet for programs."""

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quatgraph.errors import Mistake, printable

Rows = Sequence[Mapping[str, Any]]
WORDS = 10
"""Words of a text that are shown with their numbers in one cell of CSV."""
JSON_FORMATS = (".jsonl", ".json")
FORMATS = (".csv", ".tsv", *JSON_FORMATS, ".parquet")
STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def format_of(out: Path | None, json_: bool) -> str:
    """The format of what is written to a file, one of :data:`FORMATS`, by its suffix; without one,
    and on the screen, JSON lines where JSON is wanted, else CSV.

    Refuses another suffix, one that is not JSON where JSON is wanted, and Parquet without pyarrow.
    """
    suffix = "" if out is None or _is_device(out) else out.suffix.lower()
    if not suffix:
        return ".jsonl" if json_ else ".csv"
    if suffix not in FORMATS:
        raise Mistake(f"predictions are written as {', '.join(FORMATS)}, not {suffix}: {out}")
    if json_ and suffix not in JSON_FORMATS:
        raise Mistake(
            f"--json writes JSON, but {out} is named {suffix}: leave out --json, or name the file "
            f"{' or '.join(JSON_FORMATS)}"
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise Mistake("writing Parquet needs pyarrow, which is not installed: pip install pyarrow")
    return suffix


def is_stream(path: Path) -> bool:
    """Whether a path is ``-``, standard output, a device or a named pipe: written to as it is."""
    return _is_device(path) or (path.exists() and not (path.is_file() or path.is_dir()))


def _is_device(path: Path) -> bool:
    return str(path) in STDOUT or path.parts[:2] in (("/", "dev"), ("/", "proc"))


def encode(rows: Rows, format_: str) -> str | bytes:
    """The rows, which have the same keys, in one of :data:`FORMATS`.

    Numbers by word are objects in JSON, maps in Parquet, and in CSV and TSV the first of them in
    one cell: ``word 0.1234; other 0.0123``.
    """
    from quatgraph.training.runtime import json_text

    match format_:
        case ".jsonl":
            return "".join(f"{json_text(row)}\n" for row in rows)
        case ".json":
            return "[" + ",\n ".join(map(json_text, rows)) + "]\n"
        case ".parquet":
            return _parquet(rows)
        case _:
            return _delimited(rows, "\t" if format_ == ".tsv" else ",")


def align(rows: Rows) -> str:
    """Aligned columns for people, those of numbers to the right; what a terminal would obey is
    shown as text."""
    if not rows:
        return ""
    shown = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    cells = [[printable(cell) for cell in row] for row in shown]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = [">" if isinstance(value, int | float) else "" for value in rows[0].values()]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "".join(f"{line.format(*row).rstrip()}\n" for row in cells)


def printable_rows(rows: Rows) -> list[dict[str, Any]]:
    """The rows as a terminal may show them."""
    return [{printable(key): _printable_value(value) for key, value in row.items()} for row in rows]


def _printable_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {printable(word): number for word, number in value.items()}
    return printable(value) if isinstance(value, str) else value


def _delimited(rows: Rows, delimiter: str) -> str:
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Words with their numbers in one cell, the first of them; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return "; ".join(f"{word} {weight:.4f}" for word, weight in list(value.items())[:WORDS])


def _parquet(rows: Rows) -> bytes:
    import pyarrow
    from pyarrow import parquet

    by_word = pyarrow.map_(pyarrow.string(), pyarrow.float64())
    columns = {}
    for key in rows[0] if rows else ():
        values = [row[key] for row in rows]
        nested = any(isinstance(value, dict) for value in values)
        columns[key] = (
            pyarrow.array([list(value.items()) for value in values], by_word)
            if nested
            else pyarrow.array(values)
        )
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()
