"""A process can be stopped by any signal at any moment, and says so by its exit code."""

import os
import pty
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import call
from programs import SHORT, ended, started

from quatgraph.signals import defer_signals, interruptible
from quatgraph.training.checkpoint import has_checkpoint

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
every_signal = pytest.mark.parametrize(("number", "code"), CODES.items())

DURING_AN_IMPORT = """
import os, sys
from quatgraph.__main__ import main

class Finder:
    def find_spec(name, *_):
        if name == {name!r}:
            os.kill(os.getpid(), {number})

sys.meta_path.insert(0, Finder)
main()
"""
SAVE_OFTEN = """
from quatgraph.__main__ import main
from quatgraph.training.loop import Plan
Plan.__init__.__kwdefaults__["save_every"] = 0.0
main()
"""
LONG = ["train", "node/karate-qgnn", "--device", "cpu", "--out", "m"]
LONG += ["--set", "train.epochs=3000", "--set", "train.patience=none"]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("typer", signal.SIGINT),
        ("torch", signal.SIGINT),
        ("torch.nn", signal.SIGTERM),
        ("quatgraph.tasks.job", signal.SIGHUP),
    ],
)
def test_a_signal_while_modules_are_imported_shows_no_traceback(
    name: str, number: signal.Signals, tmp_path: Path
) -> None:
    program = DURING_AN_IMPORT.format(name=name, number=int(number))
    code, printed, result = ended(*SHORT, "--out", "m", code=program, cwd=tmp_path)
    assert (code, printed) == (CODES[number], "")
    assert result.startswith("quatgraph: interrupted")
    assert result.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_a_module_is_imported_in_a_locked_folder_leaves_no_lock(
    tmp_path: Path,
) -> None:
    program = DURING_AN_IMPORT.format(name="torch_geometric.data", number=int(signal.SIGTERM))
    code, printed, result = ended(*LONG, code=program, cwd=tmp_path)
    assert (code, printed) == (143, "")
    assert result.startswith("quatgraph: interrupted")
    assert result.count("\n") == 1
    # A signal that comes in time for the first epoch finds something to save.
    assert {path.name for path in tmp_path.rglob("*")} <= {"m", "checkpoint.safetensors"}


@every_signal
@pytest.mark.parametrize("command", ["search node/karate-qgnn", "reproduce node", "predict m"])
def test_a_signal_ends_any_command_with_its_code(
    command: str, number: signal.Signals, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object, **__: object) -> Iterator[Any]:
        os.kill(os.getpid(), number)
        yield

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("quatgraph.reproduce.run.search", interrupted)
    monkeypatch.setattr("quatgraph.reproduce.run.run_missing", interrupted)
    monkeypatch.setattr("quatgraph.predictors.load", lambda *_, **__: next(interrupted()))
    before = [signal.getsignal(each) for each in CODES]
    result = call(*command.split())
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "quatgraph: interrupted; files that were already written are kept\n"
    assert [signal.getsignal(each) for each in CODES] == before


@every_signal
def test_an_ignored_signal_stays_ignored(number: signal.Signals, code: int) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with interruptible(), defer_signals() as flag:
            os.kill(os.getpid(), number)
            assert flag.number == 0
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@every_signal
def test_the_first_signal_sets_a_flag_and_the_second_acts(
    number: signal.Signals, code: int
) -> None:
    with defer_signals() as flag:
        os.kill(os.getpid(), number)
        assert flag.number == number
        with pytest.raises(KeyboardInterrupt) as second:
            os.kill(os.getpid(), number)
    assert second.value.args == (number,)


def until(path: Path) -> None:
    limit = time.monotonic() + 60
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert path.exists()


@pytest.mark.slow
def test_a_training_below_nohup_outlives_its_terminal(tmp_path: Path) -> None:
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    process = started(
        *LONG, "--set", "train.epochs=100", code=SAVE_OFTEN, cwd=tmp_path, preexec_fn=ignore
    )
    until(tmp_path / "m" / "checkpoint.safetensors")
    process.send_signal(signal.SIGHUP)
    printed, result = process.communicate(timeout=60)
    assert (process.returncode, result) == (0, "")
    assert "predict with: quatgraph predict m" in printed


def test_a_closed_terminal_leaves_a_checkpoint(tmp_path: Path) -> None:
    terminal, inner = pty.openpty()
    process = started(
        *LONG,
        code=SAVE_OFTEN,
        cwd=tmp_path,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # it controls the session
    )
    os.close(inner)
    until(tmp_path / "m" / "checkpoint.safetensors")
    assert os.read(terminal, 1)  # the progress bar
    os.close(terminal)
    assert process.wait(60) == 129
    assert has_checkpoint(tmp_path / "m")
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["checkpoint.safetensors"]
