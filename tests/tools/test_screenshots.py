"""Screenshots of the page are all there, shown and small."""

import re
from pathlib import Path

import pytest
from PIL import Image

from tools.screenshots import THEMES, VIEWS, WIDTH

ROOT = Path(__file__).parents[2]
FILES = {f"page-{view}-{theme}.png" for view in VIEWS for theme in THEMES}


def test_every_view_is_shown_in_both_themes() -> None:
    page = (ROOT / "docs" / "service.md").read_text()
    assert set(re.findall(r"figures/(page-[^\"]+)\"", page)) == FILES
    assert {path.name for path in (ROOT / "docs" / "figures").glob("*.png")} == FILES


@pytest.mark.parametrize("file", sorted(FILES))
def test_a_screenshot_is_small(file: str) -> None:
    path = ROOT / "docs" / "figures" / file
    assert path.stat().st_size < 120_000
    with Image.open(path) as picture:
        assert picture.width == WIDTH
