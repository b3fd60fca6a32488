"""A clock that tests set."""

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest


def set_clock(
    monkeypatch: pytest.MonkeyPatch, now: Callable[[], float], *modules: ModuleType
) -> None:
    """Lets some modules read another clock. The event loops of other threads keep their own: a
    service of the same process would otherwise sleep until the real time has passed twice."""
    clock = SimpleNamespace(monotonic=now, perf_counter=time.perf_counter)
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
