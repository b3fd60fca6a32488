"""What killed processes leave half written is removed by the next one, and nothing else is."""

import os
import signal
from functools import partial
from pathlib import Path

import karate
import pytest
from kills import WRITE, forked, killed, steps_of, waited
from on_cpu import train_in_folder

from quatgraph.data.graph.cache import save_cached
from quatgraph.data.graph.dgcnn import read_dgcnn
from quatgraph.files import remove_leftovers, replacing, write_all, write_atomic
from quatgraph.tasks.job import FILES
from quatgraph.tasks.node import NODE
from quatgraph.training.checkpoint import remove_checkpoint

LEFT = ".{}.4242-0123abcd.tmp"
"""As a process that is long gone named it."""
OTHERS = ["notes.txt", ".notes.txt.1-0123abcd.tmp", ".card.json.tmp", "card.json.1-0123abcd.tmp"]
OTHERS += [".card.json.1-0123abcd.tmp.bak", ".card.json.x-0123abcd.tmp", ".card.json.swp"]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("how", [{}, {"resume": True}])
def test_the_next_training_in_a_folder_removes_what_is_left_of_its_files_and_nothing_else(
    tmp_path: Path, how: dict[str, bool]
) -> None:
    for name in (*map(LEFT.format, FILES), *OTHERS):
        (tmp_path / name).write_text("half")
    config = karate.config_of(**{"train.epochs": 1})
    train_in_folder(NODE, [config], tmp_path, **how)
    assert names(tmp_path) == {"records.jsonl", "card.json", "model.safetensors", *OTHERS}


def test_a_checkpoint_that_is_removed_takes_what_is_left_of_others_along(tmp_path: Path) -> None:
    (tmp_path / LEFT.format("checkpoint.safetensors")).write_text("half")
    remove_checkpoint(tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("half", [False, True])
def test_the_next_write_removes_what_a_killed_one_left(tmp_path: Path, half: bool) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("old")
    write = partial(write_atomic, path, "new and longer")
    assert killed(write, (steps_of(write).index(WRITE), half))
    assert len(names(tmp_path)) == 2
    path.write_text("old")
    write()
    assert names(tmp_path) == {path.name}
    assert path.read_text() == "new and longer"


def test_what_another_process_is_writing_stays(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    begun, go_on = os.pipe(), os.pipe()

    def write_slowly() -> None:
        with replacing(path) as file:
            write_all(file, b"its own")
            os.write(begun[1], b"!")
            os.read(go_on[0], 1)

    other = forked(write_slowly)
    os.read(begun[0], 1)
    remove_leftovers(path)
    write_atomic(path, "ours")
    assert len(names(tmp_path)) == 2
    os.write(go_on[1], b"!")
    assert waited(other) == 0
    assert names(tmp_path) == {path.name}
    assert path.read_text() == "its own"
    for end in (*begun, *go_on):
        os.close(end)


def test_processes_that_write_one_file_at_once_never_fail(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"

    def write_often() -> None:
        for number in range(40):
            write_atomic(path, f"{os.getpid()} {number}")

    assert [waited(process) for process in [forked(write_often) for _ in range(4)]] == [0] * 4
    assert names(tmp_path) == {path.name}


def test_a_killed_process_that_load_cached_leaves_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUATGRAPH_CACHE", str(tmp_path))
    text = b"2\n3 5\n0 1 1\n7 2 0 2\n0 1 1\n2 -1\n7 1 1\n7 1 0\n"
    keep = partial(save_cached, read_dgcnn(text, name="toy", where="toy"), "abc")
    assert killed(keep, (steps_of(keep).index("fsync"), False))
    (tmp_path / "graph").mkdir(exist_ok=True)
    keep()
    (kept,) = (tmp_path / "graph").iterdir()
    assert kept.suffix == ".safetensors"


def test_a_named_pipe_in_place_of_a_leftover_does_not_stop_a_write(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LEFT.format("card.json"))
    signal.alarm(10)
    write_atomic(tmp_path / "card.json", "{}")
    signal.alarm(0)
    assert names(tmp_path) == {"card.json"}
