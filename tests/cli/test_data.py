"""`data pack` on the command line: what it refuses before it reads, and how it reads."""

from pathlib import Path
from typing import NoReturn

import pytest
from commands import assert_user_error, call

from quatgraph.cli import data as commands
from quatgraph.data import node


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tables whose reading leaves notes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "graph"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,split\na,x,train\nb,y,train\nc,x,valid\nd,y,test\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\nd,a\n")
    return folder


def fail(*_: object) -> NoReturn:
    raise AssertionError("it was read")


@pytest.mark.parametrize("taken", ["full", "file", "file/below"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_graph_is_read(
    taken: str, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_read_data", fail)
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    Path("file").write_text("mine")
    words = "a file is in the way" if "below" in taken else "is not an empty folder; choose another"
    assert_user_error(call("data", "pack", "graph", "--out", taken), taken, words)
    assert Path("full/notes.txt").read_text() == Path("file").read_text() == "mine"


def test_data_of_another_task_is_refused_before_it_is_read(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_read_data", fail)
    for name, what in (("snippets", "text"), ("glove-100d", "vectors")):
        refused = call("data", "pack", name, "--out", "runs/packed")
        words = f"{name} is {what} data; only graphs of the task node are packed"
        assert_user_error(refused, words)
    assert not Path("runs").exists()


def test_an_interrupt_while_the_graph_is_read_leaves_nothing(
    graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "_read_data", interrupt)
    result = call("data", "pack", "graph", "--out", "runs/packed")
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr == "quatgraph: interrupted: nothing was written\n"
    assert not Path("runs").exists()


def test_edges_stay_directed_on_demand(graph: Path) -> None:
    for name, options in {"both": [], "one": ["--directed"]}.items():
        result = call("data", "pack", "graph", "--out", name, *options)
        assert result.exit_code == 0, result.stderr
        assert node.read(Path(name)).digest == node.read(graph, directed=bool(options)).digest
    assert result.stdout.startswith("4 nodes and 3 edges in one, ")


def test_a_dataset_keeps_its_directions(graph: Path) -> None:
    result = call("data", "pack", "karate", "--out", "packed", "--directed")
    assert_user_error(result, "--directed is for your own files, not for the dataset 'karate'")
    result = call("data", "pack", "snippets", "--out", "packed", "--directed")
    assert_user_error(result, "snippets is text data; only graphs of the task node are packed")
    assert not Path("packed").exists()
