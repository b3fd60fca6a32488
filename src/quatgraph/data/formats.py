"""The task that a person's file or folder is for, as far as it says so itself."""

from pathlib import Path

from quatgraph.data.io.columns import places_by_role
from quatgraph.data.io.foreign import first_line, is_packed, refuse_foreign, unpacked_suffix
from quatgraph.data.io.name_table import unquoted
from quatgraph.data.io.table import DELIMITERS
from quatgraph.data.link.parts import COLUMNS
from quatgraph.data.link.tsv import training_file
from quatgraph.data.node.edges_csv import PAIRS
from quatgraph.data.text.files import holds_texts, names_texts
from quatgraph.errors import Mistake


def task_of(path: Path) -> str:
    """The task whose data a path looks like; what is none, or may be several, is a
    :class:`Mistake`."""
    return _task_of_folder(path) if path.is_dir() else _task_of_file(path)


def _task_of_folder(path: Path) -> str:
    train = training_file(path)
    if train is not None and names_texts(_cells(first_line(train))):
        raise Mistake(
            f"{path} has texts in {train.name}; put all texts into one table, with a column split "
            "that says train, valid or test"
        )
    if train is not None:
        return "link"
    if (path / "nodes.csv").exists():
        return "node"
    if any(path.glob("*_A.txt")):
        return "graph"
    if holds_texts(path):
        return "text"
    raise Mistake(
        f"{path} is no data of any task, which is a folder with nodes.csv, with NAME_A.txt, with "
        "train.tsv, or with a sub-folder of .txt files per label"
    )


def _task_of_file(path: Path) -> str:
    refuse_foreign(path)
    line = first_line(path)
    if not line and not is_packed(path):
        raise Mistake(f"{path} is empty; write the data into it, or name another file")
    if "\0" in line or "\N{REPLACEMENT CHARACTER}" in line:
        raise Mistake(f"{path} is not UTF-8 text; save it as UTF-8, or name another file")
    cells, kind = _cells(line), unpacked_suffix(path)
    if is_packed(path) and (kind == ".jsonl" or names_texts(cells)):
        raise Mistake(f"{path} is packed, which only triples may be; unpack it")
    match kind:
        case ".jsonl":
            return _task_of_objects(path, line)
        case ".csv" | ".tsv":
            return _task_of_table(path, cells)
        case ".txt" if line.isdecimal() and line.isascii():
            return "graph"
        case ".txt" if line.count("\t") == len(COLUMNS) - 1:
            return "link"
        case ".txt":
            raise Mistake(
                f"{path} is no file of graphs, whose first line is their number, nor of triples "
                "separated by tabs; write texts as a .csv file with the columns text and label"
            )
    raise Mistake(
        f"{path} is in no format that is read; graphs are .jsonl files, triples .tsv or .csv, and "
        "texts .csv, .tsv or .jsonl"
    )


def _task_of_objects(path: Path, line: str) -> str:
    if holds_texts(path):
        return "text"
    if line.startswith("{") and '"edges"' not in line:
        raise Mistake(
            f"the first line of {path} has neither 'edges', as a graph has, nor 'text', as a text "
            "has; name the key of the texts by --set data.text=NAME"
        )
    return "graph"


def _task_of_table(path: Path, cells: list[str]) -> str:
    found = places_by_role(cells, {"source": PAIRS.keys(), "target": PAIRS.values()})
    triples = all(places_by_role(cells, COLUMNS).values())
    if path.name in ("nodes.csv", "edges.csv") or (all(found.values()) and not triples):
        raise Mistake(
            f"{path} is part of a graph of the task node, which is a folder with nodes.csv and "
            "edges.csv; name the folder"
        )
    if names_texts(cells):
        return "text"
    if len(cells) == 1 and cells != [""]:  # of a damaged file nothing is known
        raise Mistake(
            f"{path} has one column, separated by commas, tabs or semicolons; texts have the "
            "columns text and label, triples head, relation and tail"
        )
    return "link"


def _cells(line: str) -> list[str]:
    return [unquoted(cell) for cell in line.split(max(DELIMITERS, key=line.count))]
