"""Readers of file formats, and which task a file or a folder is for.

Each task lists its readers in ``READERS``, see :mod:`quatgraph.data.node` and its siblings.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Generic, TypeVar

from quatgraph.data.io.columns import EDGE_ENDS, TRIPLE_COLUMNS, places_by_role
from quatgraph.data.io.files import (
    PACKINGS,
    TABLE_SUFFIXES,
    first_line,
    is_packed,
    unpacked_suffix,
)
from quatgraph.data.io.frame import find_files
from quatgraph.data.io.table import split_cells
from quatgraph.errors import UserError

Data = TypeVar("Data")
_TEXT_KEY = re.compile(r'"text"\s*:', re.IGNORECASE)
_EDGES_KEY = re.compile(r'"edges"\s*:')
_CONVERSIONS = {
    (".nt", ".nq", ".n3", ".ttl", ".trig", ".rdf", ".owl", ".jsonld"): (
        "write the triples as a .tsv file: head, relation and tail, separated by tabs"
    ),
    (".json",): (
        "write a .jsonl file, one object per line, as `jq -c '.[]'` makes of a list of objects"
    ),
    (".xlsx", ".xls", ".ods"): "save the sheet as .csv",
    (".parquet", ".feather", ".arrow", ".orc", ".h5", ".hdf5"): (
        "write the table as .csv, as pandas' to_csv(index=False) does"
    ),
    (".gml", ".graphml", ".gexf", ".net", ".mtx", ".dot"): (
        "write a folder with nodes.csv and edges.csv"
    ),
    (".zip", ".tar", ".tgz", ".bz2", ".zst", ".7z", ".rar"): "unpack it and name what it holds",
}
"""By suffix how to convert a format that is not supported."""


@dataclass(frozen=True, slots=True)
class Reader(Generic[Data]):
    """Reads one format of one task.

    Attributes:
        description: Which files it reads, in one line.
        matches: Whether a path has this format, by its name and, for a folder, by its files.
        read: Reads a path that matches; takes the keywords of the task's own ``read``.
    """

    name: str
    description: str
    matches: Callable[[Path], bool]
    read: Callable[..., Data]


def select_reader(task: str, readers: Sequence[Reader[Data]], path: Path) -> Reader[Data]:
    """The first reader that matches a path.

    A path that no reader matches is a :class:`UserError`, which lists the formats of the task and
    names the task that reads this one.
    """
    known = ", or ".join(reader.description for reader in readers)
    if not path.exists():
        raise UserError(f"there is no file or folder {path}; the task {task} reads {known}")
    _refuse_foreign(path)
    for reader in readers:
        if reader.matches(path):
            return reader
    raise UserError(
        f"{path} is not {task} data: the task {task} reads {known}{_suggest_task(path)}"
    )


def infer_task(path: Path) -> str:
    """The task whose data a path looks like; a path of no task, or of several, is a
    :class:`UserError`."""
    return _infer_folder_task(path) if path.is_dir() else _infer_file_task(path)


def match_suffix(*suffixes: str) -> Callable[[Path], bool]:
    """Matches files by their suffix in lower case."""
    return lambda path: path.is_file() and path.suffix.lower() in suffixes


def match_folder(task: str) -> Callable[[Path], bool]:
    """Matches a folder with the files of a task, and one of no task: a reader can tell what it
    lacks."""

    def matches(path: Path) -> bool:
        if not path.is_dir():
            return False
        return _FOLDERS[task](path) or not any(has_files(path) for has_files in _FOLDERS.values())

    return matches


def table_files(folder: Path, stems: Sequence[str]) -> Iterator[Path]:
    """The files in a folder that are tables with one of these names, packed or not."""
    for stem, suffix, packing in product(stems, TABLE_SUFFIXES, PACKINGS):
        path = folder / f"{stem}{suffix}{packing}"
        if path.is_file():
            yield path


def is_text_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a table looks like that of texts: a column ``text``, or two."""
    return len(cells) == 2 or any(cell.casefold() == "text" for cell in cells)


def _training_file(folder: Path) -> Path | None:
    return next(table_files(folder, ["train"]), None)


_FOLDERS: dict[str, Callable[[Path], bool]] = {
    "link": lambda path: _training_file(path) is not None,
    "node": lambda path: bool(find_files(path, "nodes")),
    "graph": lambda path: any(path.glob("*_A.txt")),
    "text": lambda path: any(path.glob("*/*.txt")) or any(path.glob("*/*/*.txt")),
}
"""By task how to recognize its folder."""


def _suggest_task(path: Path) -> str:
    try:
        task = infer_task(path)
    except UserError:
        return "; unpack it first" if is_packed(path) else ""
    return f"; it looks like {task} data, which `quatgraph train {task}` reads"


def _infer_folder_task(path: Path) -> str:
    train = _training_file(path)
    if train is not None and is_text_header(split_cells(first_line(train))):
        raise UserError(
            f"{path} has texts in {train.name}; put all texts into one table, with a column split "
            "that says train, valid or test"
        )
    for task, has_files in _FOLDERS.items():
        if has_files(path):
            return task
    raise UserError(
        f"{path} is not data of any task, which is a folder with nodes.csv, with NAME_A.txt, with "
        "train.tsv, or with a sub-folder of .txt files per label"
    )


def _infer_file_task(path: Path) -> str:
    _refuse_foreign(path)
    line = first_line(path)
    if not line and not is_packed(path):
        raise UserError(f"{path} is empty; write the data into it, or name another file")
    if "\0" in line or "\N{REPLACEMENT CHARACTER}" in line:
        raise UserError(f"{path} is not UTF-8 text; save it as UTF-8, or name another file")
    cells, suffix = split_cells(line), unpacked_suffix(path)
    if is_packed(path) and (suffix == ".jsonl" or is_text_header(cells)):
        raise UserError(f"{path} is packed, which only triples may be; unpack it")
    match suffix:
        case ".jsonl":
            return _infer_object_task(path, line)
        case ".csv" | ".tsv":
            return _infer_table_task(path, cells)
        case ".txt" if line.isdecimal() and line.isascii():
            return "graph"
        case ".txt" if line.count("\t") == len(TRIPLE_COLUMNS) - 1:
            return "link"
        case ".txt":
            raise UserError(
                f"{path} is neither a file of graphs, whose first line is their number, nor of "
                "triples separated by tabs; write texts as a .csv file with the columns text and "
                "label"
            )
    raise UserError(
        f"{path} has an unknown format; graphs are .jsonl files, triples .tsv or .csv, and texts "
        ".csv, .tsv or .jsonl"
    )


def _infer_object_task(path: Path, line: str) -> str:
    if _TEXT_KEY.search(line) and not _EDGES_KEY.search(line):
        return "text"
    if '"edges"' in line or not line.startswith("{"):
        return "graph"
    raise UserError(
        f"the first line of {path} has neither 'edges', as a graph has, nor 'text', as a text "
        "has; name the key of the texts by --set data.text=NAME"
    )


def _infer_table_task(path: Path, cells: list[str]) -> str:
    ends = places_by_role(cells, {"source": EDGE_ENDS.keys(), "target": EDGE_ENDS.values()})
    has_triples = all(places_by_role(cells, TRIPLE_COLUMNS).values())
    if path.name in ("nodes.csv", "edges.csv") or (all(ends.values()) and not has_triples):
        raise UserError(
            f"{path} is part of a graph of the task node, which is a folder with nodes.csv and "
            "edges.csv; name the folder"
        )
    if is_text_header(cells):
        return "text"
    if len(cells) == 1 and cells != [""]:  # of a damaged file nothing is known
        raise UserError(
            f"{path} has one column, separated by commas, tabs or semicolons; texts have the "
            "columns text and label, triples head, relation and tail"
        )
    return "link"


def _refuse_foreign(path: Path) -> None:
    """Refuses a file whose name or first line shows an unsupported format."""
    if not path.is_file():
        return
    suffix = unpacked_suffix(path)
    for suffixes, remedy in _CONVERSIONS.items():
        if suffix in suffixes:
            raise UserError(f"{path} cannot be read: {suffix} files are not supported; {remedy}")
    if first_line(path).startswith("__label__"):
        raise UserError(
            f"{path} cannot be read: fastText's format is not supported; write a .csv file with "
            "the columns text and label"
        )
