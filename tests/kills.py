"""Processes that are killed at any of their steps on files, as by a power cut in the small."""

import fcntl
import os
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from quatgraph import files
from quatgraph.data.node import packed
from quatgraph.training import checkpoint, record

WRITE = "write_all"
STEPS = [(os, name) for name in ("mkdir", "rmdir", "unlink", "replace", "fsync", "chmod")]
STEPS += [(fcntl, "flock"), (files, WRITE), (record, WRITE), (checkpoint, WRITE), (packed, WRITE)]
"""What changes a folder or waits for the disk. A kill before a step is one after the last."""

Work = Callable[[], object]
Point = tuple[int, bool]
"""The number of a step, and whether half of it is done; only a write can be."""


def steps_of(work: Work) -> list[str]:
    """The steps that a piece of work takes, counted in a process of its own."""
    names: list[str] = []
    reads, writes = os.pipe()

    def run() -> None:
        _wrap(lambda name, step, *rest: (names.append(name), step(*rest))[1])
        work()
        os.write(writes, " ".join(names).encode())

    assert waited(forked(run)) == 0
    os.close(writes)
    with os.fdopen(reads) as pipe:
        return pipe.read().split()


def points_of(steps: list[str]) -> list[Point]:
    """Every point at which the work can be killed."""
    return [
        (n, half) for n, name in enumerate(steps) for half in (False, True)[: 1 + (name == WRITE)]
    ]


def killed(work: Work, point: Point) -> bool:
    """Does the work in a process that is killed at a point; whether it got that far."""
    number, half = point
    taken = 0

    def take(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken <= number:
            return step(*arguments)
        if half and name == WRITE:
            file, data = arguments
            file.write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        _wrap(take)
        work()

    code = waited(forked(run))
    assert code in (0, -signal.SIGKILL)
    return code != 0


def _wrap(take: Callable[..., Any]) -> None:
    """Lets every step go through a function; for good, hence in a process of its own."""

    def wrapped(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: take(name, lambda *a: step(*a, **named), *arguments)

    for home, name in STEPS:
        setattr(home, name, wrapped(name, getattr(home, name)))


def forked(run: Work) -> int:
    """A process that does the work, and nothing after it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 minds torch's threads
        child = os.fork()
    if not child:
        _run_and_leave(run)
    return child


def waited(process: int) -> int:
    """The exit code of a process that was forked."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _run_and_leave(run: Work) -> NoReturn:
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
