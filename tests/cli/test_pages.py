"""README and docs say what the committed records say."""

from pathlib import Path

import pytest

from quatgraph.cli.pages import pages
from quatgraph.reproduce.render import replaced_between
from quatgraph.reproduce.run import read_results

ROOT = Path(__file__).parents[2]
PAGES = pages(ROOT, read_results(ROOT / "results"))


@pytest.mark.parametrize(("page", "marker"), PAGES)
def test_a_page_shows_what_the_records_give(page: str, marker: str) -> None:
    content = (ROOT / page).read_text()
    assert replaced_between(content, marker, PAGES[page, marker]()) == content


def test_no_page_has_a_marker_that_nothing_writes() -> None:
    for page in ("README.md", "docs/fidelity.md", "docs/speed.md", "docs/math.md"):
        lines = (ROOT / page).read_text().splitlines()
        found = {line[5:-4] for line in lines if line.startswith("<!-- ") and line[5] != "/"}
        assert found == {marker for home, marker in PAGES if home == page}
