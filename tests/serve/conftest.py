"""A service with a tiny model of each task, and its page in a browser."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from made_up import write_runs
from playwright.sync_api import Browser, sync_playwright
from services import save_bundles, service
from visits import Visit, visiting

from quatgraph import LinkPredictor
from tools.screenshots import find_browser, launch


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if find_browser() is None:
        reason = "NO BROWSER: install Chromium or set QUATGRAPH_BROWSER to test the page"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright, launch(playwright) as found:
        yield found


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of two methods on three splits."""
    folder = tmp_path_factory.mktemp("board")
    for place, method in enumerate(("qgnn", "gcn")):
        write_runs(folder / f"{method}.jsonl", method, 0.8 + 0.02 * place)
    return folder


@pytest.fixture(scope="module")
def address(bundles: dict[str, Path], board: Path) -> Iterator[str]:
    with service(list(bundles.values()), board) as client:
        yield str(client.base_url)


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as found:
        yield found
