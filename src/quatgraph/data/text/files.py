"""Texts in files: tables, JSON objects, ``.txt`` files and folders.

* ``.csv``, ``.tsv``: a line of column names, then a document per row; columns for the text and the
  label, optionally ``split`` (train, valid, test or empty) and ``id``. Between commas, quotes are
  those of CSV and may hold line breaks. Between tabs, a quote is an ordinary character as long as
  every line has all columns
* ``.jsonl``, ``.json``: an object per line, or a list of them, with the same keys
* ``.parquet``, and frames of pandas and polars: the same columns
* ``.txt``: a document per line, without labels; or in fastText's format, with a label per line:
  ``__label__sports They scored in extra time.``
* a folder: a sub-folder per label, a file per document. The labels may be one level below folders
  called ``train``, ``valid`` and ``test``. A folder of files alone holds texts without labels
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quatgraph.data.formats import FASTTEXT_LABEL
from quatgraph.data.io.columns import find_column
from quatgraph.data.io.files import decode_text, read_text, to_word
from quatgraph.data.io.frame import Frame, read_frame, to_frame
from quatgraph.data.io.messages import quote_some
from quatgraph.data.io.table import read_table, unquote
from quatgraph.data.splits import SPLIT_WORDS, part_numbers, spelling_notes
from quatgraph.data.text.documents import TextOptions, Texts
from quatgraph.errors import UserError

_LONGEST = 2**31 - 1
_Columns = Mapping[str, Any]
_At = Callable[[int], str]


def read_sheet(path: Path, options: TextOptions) -> Texts:
    """Reads a ``.csv`` or ``.tsv`` file."""
    lines = _filled_lines(read_text(path))
    if not lines:
        raise UserError(f"{path} is empty; write a line of column names and a line per document")
    columns: list[list[str]]
    tabs = next(iter(lines.values())).count("\t")
    if tabs and all(line.count("\t") == tabs for line in lines.values()):
        rows = ([unquote(cell) for cell in line.split("\t")] for line in lines.values())
        columns = [list(cells) for cells in zip(*rows, strict=True)]
        numbers = list(lines)

        def at(row: int) -> str:
            return f"{path} line {numbers[row + 1]}"

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
            raise UserError(f"{path} has two columns named {name!r}; rename or remove one")
        if name:  # a column without a name holds row numbers
            named[name] = cells
    return _choose_columns(Frame(str(path), named, at, delimiter="\t"), options)


def read_objects(path: Path, options: TextOptions) -> Texts:
    """Reads a file of JSON objects, or a ``.parquet`` file."""
    return _choose_columns(read_frame(path, "document"), options)


def from_frame(frame: object, options: TextOptions) -> Texts:
    """Reads a frame of pandas or polars."""
    return _choose_columns(to_frame(frame, "the frame"), options)


def read_fasttext(path: Path, options: TextOptions) -> Texts:
    """Reads a ``.txt`` file in fastText's format; a line without a label is an unlabelled text."""
    _refuse_columns(path, options)
    lines = _filled_lines(read_text(path))
    numbers = list(lines)
    texts, labels = [], []
    for number, line in lines.items():
        words = line.split()
        own = [word for word in words if word.startswith(FASTTEXT_LABEL)]
        if len(own) > 1:
            raise UserError(
                f"{path} line {number} has {len(own)} labels, {own[0]} and {own[1]}; give each "
                "text one, in a class of its own if need be"
            )
        texts.append(" ".join(word for word in words if word not in own))
        labels.append(own[0].removeprefix(FASTTEXT_LABEL) if own else "")
        if own and not labels[-1]:
            raise UserError(f"{path} line {number} has {FASTTEXT_LABEL} without a label; add it")
    ids = [str(row) for row in range(len(texts))]
    return Texts(texts, labels, None, ids, lambda row: f"{path} line {numbers[row]}")


def read_lines(path: Path, options: TextOptions) -> Texts:
    """Reads a ``.txt`` file."""
    if options.labels_needed:
        raise UserError(
            f"{path} has no labels; write a .csv file with the columns 'text' and 'label'"
        )
    lines = _filled_lines(read_text(path))
    numbers, columns = list(lines), {options.text or "text": list(lines.values())}
    frame = Frame(str(path), columns, lambda row: f"{path} line {numbers[row]}", delimiter="\n")
    return _choose_columns(frame, options)


def read_folder(path: Path, options: TextOptions) -> Texts:
    """Reads a folder of texts, which has no columns that the options could name."""
    _refuse_columns(path, options)
    folders = _list_folders(path)
    split = [folder for folder in folders if folder.name.casefold() in SPLIT_WORDS]
    if split == folders and any(map(_list_folders, folders)):
        folders = [label for part in split for label in _list_folders(part)]
    else:
        split = []
    files = [file for folder in folders for file in _list_files(folder)]
    if not folders and not options.labels_needed:
        files = _list_files(path)
    if not files:
        raise UserError(
            f"{path} has no sub-folders with texts; put the texts of each label into a sub-folder "
            "with the name of the label"
        )
    parts = [file.parent.parent.name.casefold() for file in files]
    return Texts(
        texts=[read_text(file) for file in files],
        labels=[file.parent.name if folders else "" for file in files],
        parts=[SPLIT_WORDS[part] for part in parts] if split else None,
        ids=[file.relative_to(path).as_posix() for file in files],
        at=lambda row: str(files[row]),
        notes=spelling_notes(folder.name for folder in split),
    )


def lines_of(content: bytes, where: str) -> list[str]:
    """The lines that are not blank of a text in UTF-8, whose source is ``where``."""
    return list(_filled_lines(decode_text(content, where)).values())


def _refuse_columns(path: Path, options: TextOptions) -> None:
    """Refuses options that name columns of files without any."""
    for key in ("split", "group"):
        if name := getattr(options, key):
            raise UserError(
                f"{path} has no columns, so data.{key}={name} names none; write the texts as a "
                ".csv file, or leave out the setting"
            )


def _choose_columns(frame: Frame, options: TextOptions) -> Texts:
    """Selects the columns of a table that hold texts, labels, splits, ids and groups."""
    path, at = frame.where, frame.at
    columns = {key: cells for key, cells in frame.columns.items() if key}
    label = options.label if options.labels_needed or options.label in columns else ""
    wanted = (options.text, "text"), (label, "label"), (options.split, "split"), ("", "id")
    texts, labels, split, names = (find_column(path, columns, *one) for one in wanted)
    group = find_column(path, columns, options.group, "group") if options.group else None
    notes = []
    training = options.labels_needed and options.for_training
    if texts is None or (labels is None and options.labels_needed):
        others = [key for key in columns if key not in (texts, labels, split, names, group)]
        lacking = (texts, labels).count(None)
        if len(others) != lacking and (options.labels_needed or len(others) != 1):
            missing = "text" if texts is None else "label"
            named = f", or select one (on the command line: --set data.{missing}=NAME)"
            raise UserError(
                f"{path} has no column {missing!r}, its columns are "
                f"{quote_some(columns) or 'none'}; rename one of them"
                f"{named * training}"
            )

        def length(key: str) -> int:
            return sum(len(str(value)) for value in columns[key])

        longest_first = iter(sorted(others, key=length, reverse=True))
        texts = texts or next(longest_first)
        labels = labels or next(longest_first, None)
        label_column = f"and the labels in {labels!r}" if labels else "and no labels"
        notes.append(f"{path} has the texts in its column {texts!r} {label_column}")
    used = [key for key in (texts, labels, split, names, group) if key is not None]
    unused = [key for key in columns if key not in used]
    if unused and training:
        notes.append(f"{path}: not used: {quote_some(unused)}")
    cells = {key: frame.words(key) for key in used}
    if not cells[texts]:
        raise UserError(f"{path} lists no documents; give each a line")
    if split and training:
        notes += spelling_notes(cells[split])
    if names:
        _check_ids(cells[names], at)
    return Texts(
        texts=cells[texts],
        labels=cells[labels] if labels else [""] * len(cells[texts]),
        parts=part_numbers(cells[split], SPLIT_WORDS, at) if split else None,
        ids=cells[names] if names else [str(row) for row in range(len(cells[texts]))],
        at=at,
        groups=cells[group] if group else None,
        notes=notes,
    )


def cell_word(value: object, at: _At, row: int, key: str) -> str:
    """The content of a cell; empty for a missing one."""
    word = "" if value is None else to_word(value)
    if word is None:
        shown = json.dumps(value, default=repr)[:40]
        raise UserError(f"{at(row)}: {key!r} must be text or a number, not {shown}")
    return word


def _check_ids(ids: list[str], at: _At) -> None:
    first: dict[str, int] = {}
    for row, name in enumerate(ids):
        if not name:
            raise UserError(f"{at(row)} has no id; give every document one, or remove the column")
        if first.setdefault(name, row) != row:
            raise UserError(
                f"{at(row)} repeats the id {name!r} of {at(first[name])}; "
                "give each document its own, or remove the column"
            )


def _filled_lines(text: str) -> dict[int, str]:
    """The lines that are not blank, by their numbers from 1."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return {number: line for number, line in enumerate(lines, 1) if line.strip()}


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(_LONGEST)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _list_folders(path: Path) -> list[Path]:
    return [place for place in _list_visible(path) if place.is_dir()]


def _list_files(path: Path) -> list[Path]:
    """The files in a folder that holds no other folder."""
    if nested := _list_folders(path):
        raise UserError(
            f"{nested[0]} lies within the folder of a label; put its files one level up"
        )
    return _list_visible(path)


def _list_visible(path: Path) -> list[Path]:
    return sorted(place for place in path.iterdir() if not place.name.startswith("."))
