"""A service with a tiny model of each task."""

from collections.abc import Iterator
from pathlib import Path

import portfolios
import pytest
from httpx import Client
from services import service

TASKS = ("node", "graph", "link", "text")


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of a combined model by task."""
    folder, found = tmp_path_factory.mktemp("served"), {}
    for task in TASKS:
        paths, _ = getattr(portfolios, task)(folder / f"data-{task}")
        found[task] = paths[0].rename(folder / task)
    return found


@pytest.fixture(scope="session")
def client(bundles: dict[str, Path]) -> Iterator[Client]:
    with service(list(bundles.values())) as found:
        yield found
