"""Handling of SIGINT (Ctrl-C), SIGTERM and SIGHUP (a closed terminal), and their exit codes.

A signal that is ignored at process start, such as SIGHUP under ``nohup``, stays ignored.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, NoReturn

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """The exit code of a process ended by a signal: 130, 143 or 129.

    Example:
        >>> exit_code(KeyboardInterrupt()), exit_code(KeyboardInterrupt(signal.SIGTERM))
        (130, 143)
    """
    return 128 + (interrupt.args[0] if interrupt.args else signal.SIGINT)


@contextmanager
def interruptible() -> Iterator[None]:
    """Within the block, a signal raises ``KeyboardInterrupt`` with its number.

    Files are then closed and locks released. An import would print a traceback instead, so a signal
    during an import ends the process at once or, within :func:`cleanup_pending`, after the import.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not _importing(frame):
            raise KeyboardInterrupt(number)
        if not _pending_cleanups:
            exit_now(number, frame)
        retry = threading.Timer(0.05, os.kill, (os.getpid(), number))
        retry.daemon = True
        retry.start()

    with _handler_installed(interrupt):
        yield


@contextmanager
def cleanup_pending() -> Iterator[None]:
    """Marks a block that must clean up when it is interrupted."""
    _pending_cleanups.append(None)
    try:
        yield
    finally:
        _pending_cleanups.pop()


_pending_cleanups: list[None] = []


@dataclass
class SignalFlag:
    """The number of the received signal, 0 if there is none."""

    number: int = 0


@contextmanager
def defer_signals() -> Iterator[SignalFlag]:
    """Within the block, a first signal only sets a flag; a second one interrupts at once.

    Signals are delivered to the main thread. In other threads the flag is never set.
    """
    flag = SignalFlag()

    def set_flag(number: int, frame: FrameType | None) -> None:
        if flag.number:
            raise KeyboardInterrupt(number)
        flag.number = number

    with _handler_installed(set_flag):
        yield flag


@contextmanager
def _handler_installed(handler: Handler) -> Iterator[None]:
    before = install_handler(handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def install_handler(handler: Handler) -> dict[signal.Signals, Any]:
    """Handles the signals that are not ignored; returns their previous handlers."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    before = {number: signal.getsignal(number) for number in SIGNALS}
    # None: a handler outside of Python, which could not be restored.
    before = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    return before


def exit_now(number: int, frame: FrameType | None) -> NoReturn:
    """Ends the process without cleanup."""
    with suppress(OSError):
        os.write(2, b"quatgraph: interrupted\n")
    os._exit(128 + number)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
