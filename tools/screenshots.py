"""``python -m tools.screenshots``: trains small models on the built-in data, serves them, and
writes screenshots of every view of the page to ``docs/figures``. Takes about two minutes."""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

from quatgraph.errors import UserError

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
RUNS = Path("quatgraph-runs")
KARATE = ("train", "node", "--data", "karate", "--seeds", "5")
TRAININGS = (
    ("demo",),
    ("train", "text", "--data", "snippets", "--fast", "--out", str(RUNS / "snippets")),
    ("train", "node", "--data", "karate", "--fast", "--out", str(RUNS / "karate")),
    ("train", "graph", "--data", "cycles", "--fast", "--out", str(RUNS / "cycles")),
    *(
        (*KARATE, "--set", f"model.name={method}", "--out", str(RUNS / f"karate-{method}"))
        for method in ("qgnn", "gcn")
    ),
)
VIEWS = {
    "link": "?model=countries-demo",
    "text": "?model=snippets",
    "node": "?model=karate&node=10",
    "graph": "?model=cycles",
    "model": "?model=countries-demo&view=model",
    "runs": "?view=runs&dataset=karate&sort=-test",
}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTH, TALLEST, COLORS = 1000, 1600, 128


def find_browser() -> str | None:
    """``QUATGRAPH_BROWSER``, else a Chromium of the system, if there is one."""
    named = os.environ.get("QUATGRAPH_BROWSER")
    return named or next(filter(None, map(shutil.which, BROWSERS)), None)


def launch(playwright: Playwright) -> Browser:
    """A browser without a window."""
    path = find_browser()
    if path is None:
        raise UserError("there is no browser: install Chromium, or set QUATGRAPH_BROWSER")
    return playwright.chromium.launch(executable_path=path, args=ARGUMENTS)


def _quatgraph(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "quatgraph", *arguments]


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Trains, and serves what was trained; gives the address."""
    for arguments in TRAININGS:
        subprocess.run(
            _quatgraph(*arguments, "--device", "cpu"), cwd=folder, check=True, stdout=sys.stderr
        )
    models = [str(RUNS / name) for name in ("countries-demo", "snippets", "karate", "cycles")]
    command = _quatgraph("serve", *models, "--board", str(RUNS), "--port", "0", "--quiet")
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip() if process.stdout else ""
        finally:
            process.terminate()


def show(page: Page, address: str) -> None:
    """Opens a view and waits until it holds still."""
    page.goto(address)
    page.wait_for_selector("main h2")
    page.wait_for_load_state("networkidle")


def _shrink(shot: bytes) -> bytes:
    """The same picture in few colours, rare ones among them."""
    small = io.BytesIO()
    picture = Image.open(io.BytesIO(shot)).convert("RGB")
    few = picture.quantize(COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.save(small, "PNG", optimize=True)
    return small.getvalue()


def write_screenshots(folder: Path) -> None:
    """Writes ``page-VIEW-THEME.png`` for all views in both themes."""
    with (
        tempfile.TemporaryDirectory() as runs,
        _served(Path(runs)) as address,
        sync_playwright() as playwright,
        launch(playwright) as browser,
    ):
        for theme in THEMES:
            for view, query in VIEWS.items():
                size = {"width": WIDTH, "height": 800}
                with browser.new_page(viewport=size, color_scheme=theme) as page:  # type: ignore[arg-type]
                    show(page, f"{address}{query}")
                    tall = int(page.evaluate("document.documentElement.scrollHeight"))
                    page.set_viewport_size({"width": WIDTH, "height": min(tall, TALLEST)})
                    shot = _shrink(page.screenshot())
                (folder / f"page-{view}-{theme}.png").write_bytes(shot)
                print(f"page-{view}-{theme}.png {len(shot) / 1000:.0f} kB")


if __name__ == "__main__":
    write_screenshots(FIGURES)
