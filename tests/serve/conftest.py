"""A service with a tiny model of each task."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from services import save_bundles, service

from quatgraph import LinkPredictor


@pytest.fixture(scope="session")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_bundles(tmp_path_factory.mktemp("served"))


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
