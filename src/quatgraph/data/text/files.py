"""A person's own texts: a table, JSON lines, a folder, or a plain list of lines.

* ``.csv``, ``.tsv``: a first line of column names, then a document per row; columns for the text
  and the label, perhaps ``split`` (train, valid, test or empty) and ``id``. Between commas quotes
  are those of CSV and may hold line breaks. Between tabs a quote is a letter like any other, as
  long as every line has all columns
* ``.jsonl``: an object per line, with the same keys
* a folder: a sub-folder per label, a file per document in each; perhaps one level below folders
  called ``train``, ``valid`` and ``test``
* ``.txt``: a document per line, without labels; so is a folder of files alone
"""

import csv
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from quatgraph.data import splits
from quatgraph.data.io.files import decoded, is_unicode, plain_word, read_text
from quatgraph.data.io.foreign import first_line, refuse_foreign
from quatgraph.data.io.jsonl import json_objects
from quatgraph.data.io.messages import some
from quatgraph.data.io.name_table import unquoted
from quatgraph.data.io.table import DELIMITERS, read_table
from quatgraph.errors import Mistake, did_you_mean

SPLIT_WORDS = {**splits.SPLIT_WORDS, "training": 0, "dev": 1}
SUFFIXES = (".csv", ".tsv", ".jsonl", ".txt")
"""How the names of files end that texts are read from."""
_LONGEST = 2**31 - 1
_TEXT_KEY = re.compile(r'"text"\s*:', re.IGNORECASE)
_EDGES_KEY = re.compile(r'"edges"\s*:')
_Columns = Mapping[str, list[Any]]
_At = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents as they stand in a person's files.

    Attributes:
        texts: The documents.
        labels: Label of each, empty where it is unknown.
        parts: For each 0, 1 or 2 for train, valid and test, ``-1`` for none; ``None`` where the
            files do not say.
        ids: Name of each.
        at: Where a document, counted from 0, stands, for messages.
        notes: What a person should know.
    """

    texts: list[str]
    labels: list[str]
    parts: list[int] | None
    ids: list[str]
    at: _At
    notes: list[str] = field(default_factory=list)


def read_texts(path: Path, *, text: str = "", label: str = "", labels_needed: bool = True) -> Texts:
    """Reads texts of one's own.

    Args:
        path: A file or a folder.
        text: Name of the column that holds the texts. Where it is left out, it is the column
            ``text``, or of the only two columns the one with longer cells.
        label: Name of the column that holds the labels. Where it is left out, it is the column
            ``label``, or the other one of the only two.
        labels_needed: Whether to refuse files without labels.
    """
    if path.is_dir():
        return _read_folder(path, labels_needed)
    if not path.exists():
        raise Mistake(f"there is no {path}; name a .csv, .tsv or .jsonl file, or a folder of texts")
    refuse_foreign(path)
    columns: _Columns
    match path.suffix.lower():
        case ".csv" | ".tsv":
            columns, at = _read_sheet(path)
        case ".jsonl":
            columns, at = _read_objects(path)
        case ".txt" if labels_needed:
            raise Mistake(
                f"{path} has no labels; write a .csv file with the columns 'text' and 'label'"
            )
        case ".txt":
            rows = _filled_lines(read_text(path))
            columns, at = {text or "text": list(rows.values())}, partial(_line_of, path, list(rows))
        case _:
            raise Mistake(
                f"{path} is no .csv, .tsv, .jsonl or .txt file, nor a folder of texts; "
                "name one of these"
            )
    return _chosen(path, columns, at, text, label, labels_needed)


def lines_of(content: bytes, where: str) -> list[str]:
    """The lines of a text in UTF-8 that are not blank.

    Args:
        where: What it was read from, for messages.
    """
    return list(_filled_lines(decoded(content, where)).values())


def names_a_file(text: str) -> bool:
    """Whether a text is the name of a file or folder: one that is there, or that ends like one."""
    # Not as a Path, which may not be long, and is a folder where it is empty.
    return os.path.exists(text) or text.lower().endswith(SUFFIXES)  # noqa: PTH110


def holds_texts(path: Path) -> bool:
    """Whether a path looks like texts: a table or JSON lines with a column ``text``, a table of two
    columns, or a folder with sub-folders of ``.txt`` files.

    Other files do not say what they hold, so they do not count.
    """
    if path.is_dir():
        return any(any(path.glob(f"{below}/*.txt")) for below in ("*", "*/*"))
    if not path.is_file() or path.suffix.lower() not in (".csv", ".tsv", ".jsonl"):
        return False
    start = first_line(path)
    if path.suffix.lower() == ".jsonl":
        return _TEXT_KEY.search(start) is not None and _EDGES_KEY.search(start) is None
    return names_texts([unquoted(cell) for cell in start.split(max(DELIMITERS, key=start.count))])


def names_texts(cells: Sequence[str]) -> bool:
    """Whether a table with these cells in its first line looks like texts."""
    return len(cells) == 2 or any(cell.casefold() == "text" for cell in cells)


def _chosen(
    path: Path, columns: _Columns, at: _At, text: str, label: str, labels_needed: bool
) -> Texts:
    """The documents out of all that a file has."""
    texts, labels = _column(path, columns, text, "text"), _column(path, columns, label, "label")
    split, names = _column(path, columns, "", "split"), _column(path, columns, "", "id")
    notes = []
    if texts is None or (labels is None and labels_needed):
        others = [key for key in columns if key not in (texts, labels, split, names)]
        lacking = (texts, labels).count(None)
        if len(others) != lacking and (labels_needed or len(others) != 1):
            missing = "text" if texts is None else "label"
            named = f", or say which one it is (for a command: --set data.{missing}=NAME)"
            raise Mistake(
                f"{path} has no column {missing!r}, its columns are {some(columns) or 'none'}; "
                f"rename one of them{named if labels_needed else ''}"
            )
        longest_first = iter(sorted(others, key=partial(_size, columns), reverse=True))
        texts = texts or next(longest_first)
        labels = labels or next(longest_first, None)
        told = f"and the labels in {labels!r}" if labels else "and no labels"
        notes.append(f"{path} has the texts in its column {texts!r} {told}")
    cells = {
        key: [word_of(value, at, row, key) for row, value in enumerate(columns[key])]
        for key in (texts, labels, split, names)
        if key is not None
    }
    if not cells[texts]:
        raise Mistake(f"{path} lists no documents; give each a line")
    for key in (labels, names):
        for row, word in enumerate(cells[key] if key else []):
            if not is_unicode(word):
                raise Mistake(f"{at(row)}: {key!r} holds half a character; write it in UTF-8")
    if names:
        _check_ids(cells[names], at)
    return Texts(
        texts=cells[texts],
        labels=cells[labels] if labels else [""] * len(cells[texts]),
        parts=splits.part_numbers(cells[split], SPLIT_WORDS, at) if split else None,
        ids=cells[names] if names else [str(row) for row in range(len(cells[texts]))],
        at=at,
        notes=notes,
    )


def _column(path: Path, columns: _Columns, name: str, usual: str) -> str | None:
    """The column of a name, or that of the usual name in any letter case, if there is one."""
    if not name:
        found = [key for key in columns if key.casefold() == usual]
        if len(found) > 1:
            raise Mistake(
                f"{path} has the columns {some(found)}, which differ in letter case alone; "
                "rename all but one of them"
            )
        return found[0] if found else None
    if name not in columns:
        hint = did_you_mean(name, columns) or f"; its columns are {some(columns)}"
        raise Mistake(f"{path} has no column {name!r}{hint}")
    return name


def _size(columns: _Columns, key: str) -> int:
    return sum(len(str(value)) for value in columns[key])


def word_of(value: object, at: _At, row: int, key: str) -> str:
    """What stands in a cell; nothing where it is missing."""
    word = "" if value is None else plain_word(value)
    if word is None:
        shown = json.dumps(value, default=repr)[:40]
        raise Mistake(f"{at(row)}: {key!r} must be text or a number, not {shown}")
    return word


def _check_ids(ids: list[str], at: _At) -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        if not name:
            raise Mistake(f"{at(row)} has no id; give every document one, or remove the column")
        if first.setdefault(name, row) != row:
            raise Mistake(
                f"{at(row)} repeats the id {name!r} of {at(first[name])}; "
                "give each document its own, or remove the column"
            )


def _filled_lines(text: str) -> dict[int, str]:
    """The lines that are not blank, by their numbers from 1."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return {number: line for number, line in enumerate(lines, 1) if line.strip()}


def _line_of(path: Path, lines: list[int], row: int) -> str:
    return f"{path} line {lines[row]}"


def _read_sheet(path: Path) -> tuple[_Columns, _At]:
    lines = _filled_lines(read_text(path))
    if not lines:
        raise Mistake(f"{path} is empty; write a line of column names and a line per document")
    columns: list[list[str]]
    at: _At
    tabs = next(iter(lines.values())).count("\t")
    if tabs and all(line.count("\t") == tabs for line in lines.values()):
        rows = ([unquoted(cell) for cell in line.split("\t")] for line in lines.values())
        columns = [list(cells) for cells in zip(*rows, strict=True)]
        at = partial(_line_of, path, list(lines)[1:])
    else:
        with _cells_of_any_length():
            table = read_table(path)
        columns = table.columns

        def at(row: int) -> str:
            with _cells_of_any_length():
                return table.at(row + 1)

    named: dict[str, list[str]] = {}
    for name, *cells in columns:
        if name in named:
            raise Mistake(f"{path} has two columns named {name!r}; rename or remove one")
        if name:  # a column without a name holds row numbers
            named[name] = cells
    return named, at


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _read_objects(path: Path) -> tuple[_Columns, _At]:
    read = list(json_objects(path, "document"))
    if not read:
        raise Mistake(f"{path} is empty; write one JSON object per line")
    places, objects = zip(*read, strict=True)
    keys = dict.fromkeys(key for one in objects for key in one)
    return {key: [one.get(key) for one in objects] for key in keys}, places.__getitem__


def _read_folder(path: Path, labels_needed: bool) -> Texts:
    folders = _folders(path)
    split = [folder for folder in folders if folder.name.casefold() in SPLIT_WORDS]
    if split == folders and any(map(_folders, folders)):
        folders = [label for part in split for label in _folders(part)]
    else:
        split = []
    files = [file for folder in folders for file in _files(folder)]
    if not folders and not labels_needed:
        files = _files(path)
    if not files:
        raise Mistake(
            f"{path} has no sub-folders with texts; put the texts of each label into a sub-folder "
            "that is called like the label"
        )
    return Texts(
        texts=[read_text(file) for file in files],
        labels=[file.parent.name if folders else "" for file in files],
        parts=[SPLIT_WORDS[file.parent.parent.name.casefold()] for file in files]
        if split
        else None,
        ids=[file.relative_to(path).as_posix() for file in files],
        at=lambda row: str(files[row]),
    )


def _folders(path: Path) -> list[Path]:
    return [place for place in _visible(path) if place.is_dir()]


def _files(path: Path) -> list[Path]:
    """The files in a folder that holds no other folder."""
    if nested := _folders(path):
        raise Mistake(f"{nested[0]} lies within the folder of a label; put its files one level up")
    return _visible(path)


def _visible(path: Path) -> list[Path]:
    return sorted(place for place in path.iterdir() if not place.name.startswith("."))
