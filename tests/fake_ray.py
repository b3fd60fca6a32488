"""A stand-in for Ray in one process: tasks run while they are waited for, the last one first."""

import itertools
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

_NUMBERS = itertools.count()


@dataclass(frozen=True)
class Reference:
    number: int = field(default_factory=lambda: next(_NUMBERS))


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause: Exception) -> None:
        super().__init__("a traceback\nof many lines")
        self.cause = cause


@dataclass
class Queue:
    actor_options: dict[str, Any]
    items: list[Any] = field(default_factory=list)

    def put_nowait(self, item: Any) -> None:
        self.items.append(item)

    def qsize(self) -> int:
        return len(self.items)

    def get_nowait_batch(self, count: int) -> list[Any]:
        found, self.items = self.items[:count], self.items[count:]
        return found

    def shutdown(self, force: bool) -> None:
        self.items.clear()


@dataclass
class FakeRay:
    """What the stand-in does, and what was asked of it."""

    nodes: list[dict[str, float]] = field(default_factory=lambda: [{"CPU": 2.0}])
    deaths: Iterator[bool] = field(default_factory=lambda: itertools.repeat(False))
    """Whether the worker of each attempt dies."""
    is_absent: bool = False
    stored: dict[Reference, bytes] = field(default_factory=dict)
    tasks: dict[Reference, Callable[[], Any]] = field(default_factory=dict)
    results: dict[Reference, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    cancelled: list[Reference] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)

    def init(self, address: str, **_: Any) -> None:
        if self.is_absent:
            raise ConnectionError("Could not find any running Ray instance")
        self.joined.append(address)

    def put(self, value: Any) -> Reference:
        reference = Reference()
        self.stored[reference] = pickle.dumps(value)
        return reference

    def get(self, reference: Reference) -> Any:
        if reference in self.stored:
            return pickle.loads(self.stored[reference])
        result = self.results.pop(reference)
        if isinstance(result, Exception):
            raise result
        return pickle.loads(result)

    def remote(self, **options: Any) -> Callable[[Callable[..., Any]], Any]:
        self.options = options

        def submit(function: Callable[..., Any], *arguments: Any) -> Reference:
            reference = Reference()
            self.tasks[reference] = lambda: function(*arguments)
            return reference

        return lambda f: SimpleNamespace(remote=lambda *arguments: submit(f, *arguments))

    def wait(self, references: Sequence[Reference], timeout: float) -> tuple[list[Reference], Any]:
        if not timeout:
            return [], references
        last = references[-1]
        self.results[last] = self._run(self.tasks.pop(last))
        return [last], references[:-1]

    def _run(self, task: Callable[[], Any]) -> Any:
        for _ in range(self.options["max_retries"] + 1):
            if next(self.deaths):
                continue
            try:
                return pickle.dumps(task())
            except Exception as error:
                return RayTaskError(error)
        return RayError("The worker died unexpectedly.\nMore about it.")

    def cancel(self, reference: Reference, force: bool) -> None:
        assert force
        with suppress(KeyError):
            del self.tasks[reference]
        self.cancelled.append(reference)


def install(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Makes ``import ray`` find a new stand-in."""
    fake = FakeRay()
    ray, queue, strategies = (ModuleType(name) for name in ("ray", "queue", "strategies"))
    for name in ("init", "put", "get", "remote", "wait", "cancel"):
        setattr(ray, name, getattr(fake, name))
    ray.nodes = lambda: [{"Alive": True, "Resources": node} for node in fake.nodes]
    ray.shutdown = lambda: fake.joined.append("left")
    ray.get_runtime_context = lambda: SimpleNamespace(get_node_id=lambda: "this node")
    ray.exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
    queue.Queue = Queue
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: (node, soft)
    modules = {
        "ray": ray,
        "ray.util": ModuleType("ray.util"),
        "ray.util.queue": queue,
        "ray.util.scheduling_strategies": strategies,
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return fake
