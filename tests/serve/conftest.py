"""A service with a tiny model of each task."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import portfolios
import pytest
from httpx import Client
from services import service

from quatgraph import LinkPredictor

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


@pytest.fixture
def slow_down(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Makes every query to a knowledge graph take some more seconds."""
    predict_rows = LinkPredictor.predict_rows

    def slow(seconds: float) -> None:
        def predict_slowly(self: LinkPredictor, *args: Any, **options: Any) -> Any:
            time.sleep(seconds)
            return predict_rows(self, *args, **options)

        monkeypatch.setattr(LinkPredictor, "predict_rows", predict_slowly)

    return slow
