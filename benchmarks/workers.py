"""Calls in worker processes with one thread and no GPU each, until a deadline."""

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, TypeVar

import torch

from quatgraph.cli.common import retain_freed_memory

Argument = TypeVar("Argument")

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""For workers: torch's optimizers ask for CUDA, which a forked process cannot initialise."""


def call_all(
    work: Callable[[Argument], Any],
    arguments: Iterable[Argument],
    *,
    jobs: int = 1,
    seconds: float | None = None,
) -> Iterator[tuple[Argument, Any]]:
    """Yields arguments with their results, as they finish.

    A call that raises does not stop the others; its exception is raised after them.

    Args:
        work: A function of a module.
        arguments: Taken when a worker is free.
        jobs: Worker processes; 1 calls in this process, with its threads.
        seconds: When to stop: workers are then ended, and their calls have no result. Without
            workers the current call is finished.
    """
    end = None if seconds is None else time.monotonic() + seconds
    failed: list[str] = []
    pairs = _call_here(work, arguments, end) if jobs == 1 else _spread(work, arguments, jobs, end)
    for argument, result, error in pairs:
        if error:
            failed.append(f"{argument}:\n{error}")
        else:
            yield argument, result
    if failed:
        raise RuntimeError(f"{len(failed)} calls failed\n\n" + "\n".join(failed))


_Result = tuple[Argument, Any, str]


def _call_here(
    work: Callable[[Argument], Any], arguments: Iterable[Argument], end: float | None
) -> Iterator[_Result[Argument]]:
    for argument in arguments:
        if end is not None and time.monotonic() >= end:
            return
        yield argument, *_attempt(work, argument)


def _attempt(work: Callable[[Argument], Any], argument: Argument) -> tuple[Any, str]:
    try:
        return work(argument), ""
    except Exception:
        return None, traceback.format_exc()


def _spread(
    work: Callable[[Argument], Any], arguments: Iterable[Argument], jobs: int, end: float | None
) -> Iterator[_Result[Argument]]:
    """A process per call, forked from one that has imported the module of ``work``."""
    os.environ.update(dict.fromkeys(ONE_THREAD, "1") | NO_GPU)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    pending = iter(arguments)
    running: dict[Connection, tuple[ForkServerProcess, Argument]] = {}
    try:
        while True:
            for argument in islice(pending, jobs - len(running)):
                here, there = context.Pipe(duplex=False)
                process = context.Process(target=_answer, args=(there, work, argument))
                process.start()
                there.close()
                running[here] = process, argument
            left = None if end is None else max(0.0, end - time.monotonic())
            if not running or left == 0.0:
                return
            for ready in wait(list(running), left):
                assert isinstance(ready, Connection)
                process, argument = running.pop(ready)
                try:
                    result, error = ready.recv()
                except EOFError:
                    process.join()
                    result, error = None, f"the process ended with code {process.exitcode}"
                process.join()
                yield argument, result, error
    finally:
        for process, _ in running.values():
            process.kill()
            process.join()


def _answer(pipe: Connection, work: Callable[[Argument], Any], argument: Argument) -> None:
    torch.set_num_threads(1)
    retain_freed_memory()
    pipe.send(_attempt(work, argument))
