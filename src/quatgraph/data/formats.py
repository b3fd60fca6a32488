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
    open_packed,
    unpacked_suffix,
)
from quatgraph.data.io.frame import FRAME_SUFFIXES, JSON_SUFFIXES, find_files, read_frame
from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.table import split_cells
from quatgraph.errors import UserError

Data = TypeVar("Data")
RDF_SUFFIXES = (".nt", ".ttl")
TRIPLE_SUFFIXES = (*FRAME_SUFFIXES, *RDF_SUFFIXES)
EDGES = "edge_index.npy"
NODE_ARRAYS = ("x.npy", "y.npy", "edge_weight.npy", "train.npy", "valid.npy", "test.npy")
"""The arrays of a graph besides its edges."""
FASTTEXT_LABEL = "__label__"
"""The beginning of a label in fastText's format."""
_KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
_BEGINNING = 1 << 16
_CONVERSIONS = {
    (".nq", ".n3", ".trig", ".rdf", ".owl", ".jsonld"): (
        "write the triples as .nt or .ttl, or as a .tsv file: head, relation and tail, separated "
        "by tabs"
    ),
    (".xlsx", ".xls", ".ods"): "save the sheet as .csv",
    (".feather", ".arrow", ".orc", ".h5", ".hdf5"): (
        "write the table as .csv, as pandas' to_csv(index=False) does, or as .parquet"
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
    refuse_foreign(path)
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
        return _FOLDERS[task](path) or not (_has_files(path) or is_array_folder(path))

    return matches


def is_array_folder(path: Path) -> bool:
    """Whether a path is a folder with the arrays of a graph: its edges or, where no other file is
    of a task, only some of the rest."""
    if (path / EDGES).is_file():
        return True
    some = any((path / name).is_file() for name in NODE_ARRAYS)
    return some and not _has_files(path) and not find_files(path, "edges")


def is_fasttext(path: Path) -> bool:
    """Whether a path is a text file in fastText's format, by its first line."""
    return match_suffix(".txt")(path) and first_line(path).startswith(FASTTEXT_LABEL)


def table_files(
    folder: Path, stems: Sequence[str], suffixes: Sequence[str] = TABLE_SUFFIXES
) -> Iterator[Path]:
    """The files in a folder that are tables with one of these names, packed or not."""
    for stem, suffix, packing in product(stems, suffixes, PACKINGS):
        path = folder / f"{stem}{suffix}{packing}"
        if path.is_file():
            yield path


def is_molecules(path: Path) -> bool:
    """Whether a path is a table of molecules: it has a column ``smiles`` and none of texts."""
    if not match_suffix(".csv", ".tsv", ".parquet")(path):
        return False
    if path.suffix.lower() == ".parquet":
        return is_molecule_header(list(read_frame(path, "row").columns))
    return is_molecule_header(split_cells(first_line(path)))


def is_molecule_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a table looks like that of molecules."""
    names = {cell.casefold() for cell in cells}
    return "smiles" in names and "text" not in names


def is_text_header(cells: Sequence[str]) -> bool:
    """Whether the first line of a table looks like that of texts: a column ``text``, or two."""
    return len(cells) == 2 or any(cell.casefold() == "text" for cell in cells)


def _training_file(folder: Path) -> Path | None:
    return next(table_files(folder, ["train"], TRIPLE_SUFFIXES), None)


_FOLDERS: dict[str, Callable[[Path], bool]] = {
    "link": lambda path: _training_file(path) is not None,
    "node": lambda path: (
        bool(find_files(path, "nodes"))
        or (path / EDGES).is_file()
        or any((path / "raw").glob("edge.csv*"))
    ),
    "graph": lambda path: any(path.glob("*_A.txt")),
    "text": lambda path: any(path.glob("*/*.txt")) or any(path.glob("*/*/*.txt")),
}
"""By task how to recognize its folder."""


def _has_files(folder: Path) -> bool:
    """Whether a folder is of some task."""
    return any(has_files(folder) for has_files in _FOLDERS.values())


def _suggest_task(path: Path) -> str:
    try:
        task = infer_task(path)
    except UserError:
        return "; unpack it first" if is_packed(path) else ""
    return f"; it looks like {task} data, which `quatgraph train {task}` reads"


def _infer_folder_task(path: Path) -> str:
    train = _training_file(path)
    is_table = train is not None and unpacked_suffix(train) in TABLE_SUFFIXES
    if train is not None and is_table and is_text_header(split_cells(first_line(train))):
        raise UserError(
            f"{path} has texts in {train.name}; put all texts into one table, with a column split "
            "that says train, valid or test"
        )
    for task, has_files in _FOLDERS.items():
        if has_files(path):
            return task
    if is_array_folder(path):  # the reader tells what it lacks
        return "node"
    raise UserError(
        f"{path} is not data of any task, which is a folder with nodes.csv, with NAME_A.txt, with "
        "train.tsv, or with a sub-folder of .txt files per label"
    )


def _infer_file_task(path: Path) -> str:
    refuse_foreign(path)
    suffix = unpacked_suffix(path)
    if suffix == ".parquet":
        return _infer_table_task(path, list(read_frame(path, "row").columns))
    line = first_line(path)
    if not line and not is_packed(path):
        raise UserError(f"{path} is empty; write the data into it, or name another file")
    if "\0" in line or "\N{REPLACEMENT CHARACTER}" in line:
        raise UserError(f"{path} is not UTF-8 text; save it as UTF-8, or name another file")
    if suffix in RDF_SUFFIXES:
        return "link"
    cells = split_cells(line)
    task = _infer_object_task(path) if suffix in JSON_SUFFIXES else ""
    if is_packed(path) and (task not in ("", "link") or (not task and is_text_header(cells))):
        raise UserError(f"{path} is packed, which only triples may be; unpack it")
    match suffix:
        case _ if task:
            return task
        case ".csv" | ".tsv":
            return _infer_table_task(path, cells)
        case ".txt" if line.startswith(FASTTEXT_LABEL):
            return "text"
        case ".txt" if line.isdecimal() and line.isascii():
            return "graph"
        case ".txt" if line.count("\t") == len(TRIPLE_COLUMNS) - 1:
            return "link"
        case ".txt":
            raise UserError(
                f"{path} is neither a file of graphs, whose first line is their number, nor of "
                "triples separated by tabs, nor of texts with __label__; write texts as a .csv "
                "file with the columns text and label"
            )
    raise UserError(
        f"{path} has an unknown format; graphs are .jsonl files, triples .tsv, .csv, .nt or .ttl, "
        "and texts .csv, .tsv or .jsonl"
    )


def _infer_object_task(path: Path) -> str:
    """The task of a file of JSON objects, by the keys at its beginning."""
    with open_packed(path) as stream:
        start = stream.read(_BEGINNING).decode("utf-8", "replace").lstrip("\ufeff[ \t\r\n")
    keys = list(dict.fromkeys(_KEY.findall(start)))
    if "edges" in keys or not start.startswith("{"):
        return "graph"
    if any(key.casefold() == "text" for key in keys):
        return "text"
    if all(places_by_role(keys, TRIPLE_COLUMNS).values()):
        return "link"
    raise UserError(
        f"the first object of {path} has neither 'edges', as a graph has, nor 'text', as a text "
        "has, nor 'head', 'relation' and 'tail'; name the key of the texts by --set data.text=NAME"
    )


def _infer_table_task(path: Path, cells: list[str]) -> str:
    ends = places_by_role(cells, {"source": EDGE_ENDS.keys(), "target": EDGE_ENDS.values()})
    has_triples = all(places_by_role(cells, TRIPLE_COLUMNS).values())
    if path.name in ("nodes.csv", "edges.csv") or (all(ends.values()) and not has_triples):
        raise UserError(
            f"{path} is part of a graph of the task node, which is a folder with nodes.csv and "
            "edges.csv; name the folder"
        )
    if is_molecule_header(cells):
        return "graph"
    if is_text_header(cells):
        return "text"
    if len(cells) == 1 and cells != [""]:  # of a damaged file nothing is known
        raise UserError(
            f"{path} has one column, separated by commas, tabs or semicolons; texts have the "
            "columns text and label, triples head, relation and tail"
        )
    if len(cells) > len(TRIPLE_COLUMNS) and not has_triples:
        raise UserError(
            f"{path} has the columns {quote_some(cells)}, which tell no task: texts have text and "
            "label, molecules smiles and label, triples head, relation and tail; name yours by "
            "--set data.text=NAME, data.smiles, or data.head, data.relation and data.tail"
        )
    return "link"


def refuse_foreign(path: Path) -> None:
    """Refuses a file whose name or first line shows an unsupported format."""
    if not path.is_file():
        return
    suffix = unpacked_suffix(path)
    for suffixes, remedy in _CONVERSIONS.items():
        if suffix in suffixes:
            raise UserError(f"{path} cannot be read: {suffix} files are not supported; {remedy}")
    if suffix != ".txt" and first_line(path).startswith(FASTTEXT_LABEL):
        raise UserError(f"{path} is in fastText's format, which only a .txt file may be; rename it")
