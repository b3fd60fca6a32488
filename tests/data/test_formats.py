"""Readers are selected by format; a path of another task is refused with a hint."""

from pathlib import Path

import pytest

from quatgraph.data import graph, link, node, text
from quatgraph.data.formats import infer_task, select_reader
from quatgraph.errors import UserError

READERS = {
    "node": node.READERS,
    "graph": graph.READERS,
    "link": link.READERS,
    "text": text.READERS,
}
FILES = {
    ("node", "arrays"): "g/edge_index.npy",
    ("node", "ogb"): "g/raw/edge.csv.gz",
    ("node", "tables"): "g/nodes.csv",
    ("graph", "jsonl"): "g.jsonl",
    ("graph", "tu"): "g/TOY_A.txt",
    ("graph", "smiles"): "molecules.csv",
    ("graph", "dgcnn"): "g.txt",
    ("link", "folder"): "g/train.tsv",
    ("link", "table"): "g.TSV.gz",
    ("link", "rdf"): "g.NT.gz",
    ("text", "table"): "g.csv",
    ("text", "jsonl"): "g.JSONL",
    ("text", "parquet"): "g.parquet",
    ("text", "fasttext"): "g.txt",
    ("text", "folder"): "g/spam/1.txt",
    ("text", "lines"): "g.txt",
}


def touch(folder: Path, file: str, content: str = "") -> Path:
    """Writes a file, and gives the path that a user names: the file, or the folder ``g``."""
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return folder / Path(file).parts[0]


@pytest.mark.parametrize(("task", "name"), FILES)
def test_every_format_has_a_reader(task: str, name: str, tmp_path: Path) -> None:
    content = {"fasttext": "__label__x a", "smiles": "id,SMILES"}.get(name, "")
    path = touch(tmp_path, FILES[task, name], content)
    assert select_reader(task, READERS[task], path).name == name


def test_every_reader_is_tested_and_described_in_a_line_of_its_own() -> None:
    readers = [(task, reader) for task, several in READERS.items() for reader in several]
    assert {(task, reader.name) for task, reader in readers} == set(FILES)
    descriptions = [reader.description for _, reader in readers]
    assert len(set(descriptions)) == len(descriptions)
    assert not any("\n" in line for line in descriptions)


@pytest.mark.parametrize("task", READERS)
@pytest.mark.parametrize(
    ("other", "file", "content"),
    [
        ("node", "g/nodes.csv", ""),
        ("graph", "g/TOY_A.txt", ""),
        ("link", "g/train.csv", "a,b,c"),
        ("text", "g/spam/1.txt", ""),
        ("link", "g.tsv.gz", ""),
        ("graph", "g.jsonl", '{"edges": []}'),
        ("text", "g.csv", "text,label"),
    ],
)
def test_a_path_of_another_task_is_refused_with_a_hint(
    task: str, other: str, file: str, content: str, tmp_path: Path
) -> None:
    path = touch(tmp_path, file, content)
    assert infer_task(path) == other
    if any(reader.matches(path) for reader in READERS[task]):
        assert other == task or path.suffix in (".csv", ".jsonl")  # texts share these suffixes
        return
    with pytest.raises(UserError) as caught:
        select_reader(task, READERS[task], path)
    known = ", or ".join(reader.description for reader in READERS[task])
    assert str(caught.value) == (
        f"{path} is not {task} data: the task {task} reads {known}; it looks like {other} data, "
        f"which `quatgraph train {other}` reads"
    )


def test_a_folder_of_no_task_is_left_to_the_reader_that_can_explain(tmp_path: Path) -> None:
    for task, readers in READERS.items():
        assert sum(reader.matches(tmp_path) for reader in readers) == 1, task


def test_arrays_alone_are_of_a_graph_whose_edges_are_missing(tmp_path: Path) -> None:
    folder = tmp_path / "g"
    touch(folder, "x.npy")
    assert infer_task(folder) == "node"
    assert select_reader("node", node.READERS, folder).name == "arrays"
    with pytest.raises(UserError, match="it looks like node data, which `quatgraph train node`"):
        select_reader("graph", graph.READERS, folder)
    touch(folder, "TOY_A.txt")
    assert infer_task(folder) == "graph"


def test_a_folder_may_be_named_like_an_unsupported_file(tmp_path: Path) -> None:
    folder = tmp_path / "graph.net"
    touch(folder, "nodes.csv")
    assert infer_task(folder) == "node"
    assert select_reader("node", node.READERS, folder).name == "tables"


def test_packed_texts_are_refused_with_a_remedy(tmp_path: Path) -> None:
    path = touch(tmp_path, "g.jsonl.gz")
    with pytest.raises(UserError, match=r"is not text data: .*; unpack it first$"):
        select_reader("text", text.READERS, path)
