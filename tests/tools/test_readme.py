"""README is short, its links lead somewhere, and its commands exist."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from commands import call

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
COMMAND = re.compile(r"^(?:\$ | {4}|\| `)(quatgraph [^`\n]*)", re.MULTILINE)
COMMANDS = sorted({line for page in PAGES for line in COMMAND.findall((ROOT / page).read_text())})


def test_readme_fits_on_150_lines_and_shows_one_figure() -> None:
    assert len(README.splitlines()) <= 150
    assert README.count("![") == 1


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings(page: str) -> None:
    for link in re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text()):
        if link.startswith("https://"):
            continue
        file, _, heading = link.partition("#")
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), link
        if heading:
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert heading in map(_anchor, heads), link


def _anchor(heading: str) -> str:
    """As GitHub makes it: punctuation is dropped."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_page_of_docs_is_linked_from_readme_or_from_usage() -> None:
    usage = (ROOT / "docs" / "usage.md").read_text()
    for page in PAGES[1:]:
        assert f"]({page})" in README or f"]({page.removeprefix('docs/')})" in usage


def test_the_pages_show_commands() -> None:
    assert {shlex.split(command)[1] for command in COMMANDS} >= {"train", "predict", "evaluate"}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_and_their_options_exist(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    names = [words[0]] if words[0] not in ("data", "plot") else words[:2]
    if words[:1] == ["plot"] and words[1] not in ("table", "ranks", "curves"):
        names = ["plot", "curves"]  # `plot my-model`
    options = {word for word in words if word.startswith("--")}
    known = shown_help(*(name for name in names if not name.startswith("--")))
    assert {option for option in options if not re.search(rf"{option}\b", known)} == set()


@cache
def shown_help(*names: str) -> str:
    result = call(*names, "--help")
    assert result.exit_code == 0, names
    return result.stdout
