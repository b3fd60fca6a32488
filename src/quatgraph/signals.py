"""Ctrl-C, a polite kill and a closed terminal: what each does to a process, and its exit code.

A signal that was ignored when the process began, as SIGHUP below ``nohup``, stays ignored.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a process that a signal ended: 130, 143 or 129.

    Example:
        >>> exit_code(KeyboardInterrupt()), exit_code(KeyboardInterrupt(signal.SIGTERM))
        (130, 143)
    """
    return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block a signal raises ``KeyboardInterrupt`` with its number, so that files are
    closed and locks released. During an import, which would print tracebacks of its own, it ends
    the process at once; or, if that is within :func:`cleanup_pending`, when the import is over."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _importing(frame):
            raise KeyboardInterrupt(number)
        if not _to_clean_up:
            _leave(number, frame)
        again = threading.Timer(0.05, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    with _handled(interrupt):
        yield


@contextmanager
def cleanup_pending() -> Iterator[None]:
    """Says that there will be something to clean up after the block."""
    _to_clean_up.append(None)
    try:
        yield
    finally:
        _to_clean_up.pop()


_to_clean_up: list[None] = []


class Flag:
    """The number of the signal that came, 0 until then."""

    def __init__(self) -> None:
        self.number = 0


@contextmanager
def flagged() -> Iterator[Flag]:
    """Within the block a signal sets a flag, to be read between epochs; a second one acts at once.

    Outside the main thread, to which signals belong, the flag stays as it is.
    """
    flag = Flag()

    def set_flag(number: int, frame: FrameType | None) -> None:
        if flag.number:
            raise KeyboardInterrupt(number)
        flag.number = number

    with _handled(set_flag):
        yield flag


@contextmanager
def _handled(handler: Handler) -> Iterator[None]:
    before = _handle(handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    """Handles the signals that are not ignored; returns how they were handled before."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in SIGNALS}
    # None: by something that is not Python's and could not be put back.
    before = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    return before


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"quatgraph: interrupted\n")
    os._exit(128 + number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
