"""One training at a time in a folder, whoever begins it and however the last one ended."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import karate
import pytest
from kills import forked, waited
from on_cpu import train_in_folder

from quatgraph.errors import UserError
from quatgraph.files import LOCK, lock_folder
from quatgraph.tasks.job import Job
from quatgraph.tasks.node import NODE
from quatgraph.training.bundle import load_bundle

REFUSED = "another training is running in .*m; wait for it to finish or choose another folder"


def trained(folder: Path, **how: bool) -> Job:
    config = karate.config_of(**{"train.epochs": 2})
    return train_in_folder(NODE, [config], folder, **how)


def beside(holder: Callable[[], object], folder: Path) -> int:
    """A process that has the folder until it is killed, once it has it."""
    reads, writes = os.pipe()

    def hold() -> None:
        with lock_folder(folder):
            os.write(writes, b"!")
            holder()

    process = forked(hold)
    os.read(reads, 1)
    os.close(reads)
    os.close(writes)
    return process


def test_a_second_training_in_a_folder_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    first = beside(signal.pause, tmp_path / "m")
    for how in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(UserError, match=REFUSED):
            trained(tmp_path / "m", **how)
    os.kill(first, signal.SIGKILL)
    assert waited(first) == -signal.SIGKILL
    trained(tmp_path / "m")
    assert LOCK not in {path.name for path in (tmp_path / "m").iterdir()}


def test_threads_of_one_process_do_not_train_in_one_folder(tmp_path: Path) -> None:
    refused: list[str] = []

    def second() -> None:
        try:
            trained(tmp_path / "m")
        except UserError as mistake:
            refused.append(str(mistake))

    with lock_folder(tmp_path / "m"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert "another training is running in" in refused[0]


def test_a_model_is_read_while_another_is_trained_in_its_folder(tmp_path: Path) -> None:
    trained(tmp_path / "m")
    with lock_folder(tmp_path / "m"):
        assert load_bundle(tmp_path / "m").card["task"] == "node"


def test_only_one_of_many_has_a_folder_at_any_time(tmp_path: Path) -> None:
    def contend() -> None:
        had = 0
        while had < 20:
            try:
                with lock_folder(tmp_path / "runs" / "m"):
                    mark = os.open(tmp_path / "mark", os.O_CREAT | os.O_EXCL)  # if it is not there
                    os.close(mark)
                    had += 1
                    (tmp_path / "mark").unlink()
            except UserError:
                continue

    assert [waited(process) for process in [forked(contend) for _ in range(4)]] == [0] * 4
    assert not list(tmp_path.rglob(LOCK))


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_left_as_it_was_if_nothing_came_into_it(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "runs" / "m"
    if there:
        folder.mkdir(parents=True)
    with pytest.raises(ZeroDivisionError), lock_folder(folder):
        _ = 1 / len(list(folder.glob(LOCK + "x")))
    assert folder.exists() == (tmp_path / "runs").exists() == there
    assert not list(tmp_path.rglob(LOCK))
