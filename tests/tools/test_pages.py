"""README and docs say what the committed records say, and their figures show it."""

import re
from functools import cache
from pathlib import Path

import matplotlib
import pytest
from recorded import recorded

from quatgraph.errors import UserError
from quatgraph.plot.style import Drawing, digest, render_figure
from tools.pages import (
    figures,
    pages,
    render_example,
    replace_between,
    used_figures,
    write_pages,
)

ROOT = Path(__file__).parents[2]
RECORDS = recorded()
PAGES = pages(ROOT, RECORDS)
FIGURES = figures(ROOT, RECORDS)
SHOWN = sorted(used_figures(ROOT))
NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
NAMES = re.compile(r"""(?:id|href|clip-path)="[^"]*\"""")


@cache
def drawing(file: str) -> Drawing:
    return FIGURES[file]()


@pytest.mark.parametrize(("page", "marker"), PAGES)
def test_a_page_shows_what_the_records_give(page: str, marker: str) -> None:
    content = (ROOT / page).read_text()
    assert replace_between(content, marker, PAGES[page, marker]()) == content


def test_no_page_has_a_marker_that_nothing_writes() -> None:
    for page in ("README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))):
        lines = (ROOT / page).read_text().splitlines()
        found = {line[5:-4] for line in lines if line.startswith("<!-- ") and line[5] != "/"}
        assert found == {marker for home, marker in PAGES if home == page}


def test_every_figure_that_is_shown_is_there_and_no_other() -> None:
    assert set(SHOWN) <= FIGURES.keys()
    there = {f"docs/figures/{path.name}" for path in (ROOT / "docs" / "figures").glob("*.svg")}
    assert there == set(SHOWN)
    assert SHOWN


@pytest.mark.parametrize("file", SHOWN)
def test_a_figure_is_of_the_numbers_on_record_and_small(file: str) -> None:
    content = (ROOT / file).read_text()
    assert f"<dc:identifier>{digest(drawing(file))}</dc:identifier>" in content
    assert len(content) < 200_000


@pytest.mark.parametrize("file", SHOWN)
def test_a_figure_is_drawn_as_now(file: str) -> None:
    """Up to rounding, in which machines differ, and the names of parts that follow from it."""
    content = (ROOT / file).read_text()
    if f"Matplotlib v{matplotlib.__version__}," not in content:
        pytest.skip("drawn by another version of matplotlib")
    again = render_figure(drawing(file), ".svg").decode()
    kept, made = (NAMES.sub("", text) for text in (content, again))
    assert NUMBER.sub("#", kept) == NUMBER.sub("#", made)
    numbers = [list(map(float, NUMBER.findall(text))) for text in (kept, made)]
    assert numbers[0] == pytest.approx(numbers[1], abs=0.02)


def test_text_is_replace_between_its_markers_and_nowhere_else() -> None:
    content = "a\n<!-- table x -->\nold\nlines\n<!-- /table x -->\nb <!-- table y -->\n"
    made = replace_between(content, "table x", "new")
    assert made == "a\n<!-- table x -->\nnew\n<!-- /table x -->\nb <!-- table y -->\n"
    assert replace_between(made, "table x", "new") == made


@pytest.mark.parametrize(
    "content",
    [
        "nothing here",
        "<!-- table x -->",
        "<!-- /table x -->",
        "<!-- table x --><!-- table x --><!-- /table x -->",
    ],
)
def test_a_file_without_both_markers_is_a_mistake(content: str) -> None:
    with pytest.raises(UserError, match="needs exactly one <!-- table x --> and one"):
        replace_between(content, "table x", "new")


def test_markers_in_the_wrong_order_are_a_mistake() -> None:
    with pytest.raises(UserError, match="needs exactly one <!-- table x -->"):
        replace_between("<!-- /table x -->\nkeep\n<!-- table x -->\n", "table x", "new")


def test_an_example_is_shown_as_code_without_its_docstring(tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text('"""What it\nshows."""\n\nimport a\n\nprint("""b""")\n')
    assert render_example(path) == '```python\nimport a\n\nprint("""b""")\n```'


@pytest.mark.slow
def test_pages_are_written_whole(tmp_path: Path) -> None:
    """What is written over pages with nothing between their markers are the pages as they are."""
    for name in ("results", "benchmarks", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    for page in {page for page, _ in PAGES}:
        content = (ROOT / page).read_text()
        for home, marker in PAGES:
            content = replace_between(content, marker, "old") if home == page else content
        (tmp_path / page).write_text(content)
    write_pages(tmp_path)
    for page in {page for page, _ in PAGES}:
        assert (tmp_path / page).read_text() == (ROOT / page).read_text()
    assert {f"docs/figures/{path.name}" for path in (tmp_path / "docs/figures").iterdir()} == set(
        SHOWN
    )
