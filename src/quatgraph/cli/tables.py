"""Rows as aligned text, CSV, TSV, JSON or Parquet."""

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from quatgraph.errors import UserError, printable

Rows = Sequence[Mapping[str, Any]]
WORDS = 10
"""Words per text in a CSV cell or on the terminal."""
JSON_FORMATS = (".jsonl", ".json")
FORMATS = (".csv", ".tsv", *JSON_FORMATS, ".parquet")
STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def format_of(out: Path | None, json_: bool) -> str:
    """The output format, one of :data:`FORMATS`.

    The suffix of the file decides. Without a suffix or file, it is JSON lines with ``json_``, else
    CSV. Raises a UserError for an unknown suffix, a suffix that contradicts ``json_``, or Parquet
    without pyarrow.
    """
    suffix = "" if out is None or _is_device(out) else out.suffix.lower()
    if not suffix:
        return ".jsonl" if json_ else ".csv"
    if suffix not in FORMATS:
        raise UserError(f"cannot write predictions to {out}; use one of {', '.join(FORMATS)}")
    if json_ and suffix not in JSON_FORMATS:
        raise UserError(
            f"--json does not match the suffix of {out}; omit --json or use "
            f"{' or '.join(JSON_FORMATS)}"
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UserError(
            "writing Parquet needs pyarrow; install it with pip install 'quatgraph[tables]'"
        )
    return suffix


def is_stream(path: Path) -> bool:
    """Whether a path is ``-``, standard output, a device or a named pipe."""
    return _is_device(path) or (path.exists() and not (path.is_file() or path.is_dir()))


def _is_device(path: Path) -> bool:
    return str(path) in STDOUT or path.parts[:2] in (("/", "dev"), ("/", "proc"))


def encode(rows: Rows, format_: str) -> str | bytes:
    """Encodes rows with equal keys in one of :data:`FORMATS`.

    Scores by word are objects in JSON and maps in Parquet. In CSV and TSV, a cell holds the first
    :data:`WORDS` of them: ``word 0.1234; other 0.0123``.
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
    """Rows as aligned columns, numbers to the right, with control characters escaped."""
    if not rows:
        return ""
    lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
    cells = [[printable(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = [">" if isinstance(value, int | float) else "" for value in rows[0].values()]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "".join(f"{line.format(*row).rstrip()}\n" for row in cells)


def escape(value: Any) -> Any:
    """The row, or a value of it, with control characters escaped."""
    if isinstance(value, dict):
        return {printable(key): escape(inner) for key, inner in value.items()}
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
    """Joins scores by word in one cell; leaves other values as they are."""
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
