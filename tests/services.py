"""Services that run in this process."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import portfolios

from quatgraph.serve.board import Board
from quatgraph.serve.gate import LIMITS, Limits
from quatgraph.serve.registry import Registry
from quatgraph.serve.run import Address, bind, build, make_server

TASKS = ("node", "graph", "link", "text")


def save_bundles(folder: Path) -> dict[str, Path]:
    """The folder of a combined model by task."""
    found = {}
    for task in TASKS:
        paths, _ = getattr(portfolios, task)(folder / f"data-{task}")
        found[task] = paths[0].rename(folder / task)
    return found


@contextmanager
def service(
    models: Sequence[Path] = (), board: Path | None = None, limits: Limits = LIMITS, **address: Any
) -> Iterator[httpx.Client]:
    """A client of a service whose models are loaded."""
    registry = Registry.open(models, "cpu")
    shown = None if board is None else Board(board)
    with bind("127.0.0.1", address.get("port", 0)) as listener:
        server = make_server(build(registry, shown, Address(**address), limits), limits)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        port = listener.getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while not server.started:
                time.sleep(0.01)
            wait_until_loaded(registry)
            try:
                yield client
            finally:
                server.should_exit = True
                thread.join()


def wait_until_loaded(registry: Registry) -> None:
    end = time.monotonic() + 60
    while any(model.state == "loading" for model in registry.models.values()):
        assert time.monotonic() < end
        time.sleep(0.01)


def ask(client: httpx.Client, path: str, body: dict[str, Any] | None = None) -> Any:
    """The reply to a request that must succeed."""
    reply = client.get(path) if body is None else client.post(path, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def refused(client: httpx.Client, path: str, body: Any = None) -> tuple[int, str]:
    """The status and the sentence of a request that must not succeed."""
    reply = client.get(path) if body is None else client.post(path, json=body)
    assert reply.status_code >= 400, reply.text
    assert list(reply.json()) == ["error"]
    return reply.status_code, reply.json()["error"]
