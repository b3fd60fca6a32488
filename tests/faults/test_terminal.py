"""A person's names are shown as text: a terminal obeys none of them, programs get them as is."""

import csv
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from commands import assert_user_error, call
from rich.console import Console

import quatgraph
from quatgraph.cli import common
from quatgraph.cli.tables import align
from quatgraph.errors import printable

RED, ALIGNED = "\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"
NAMES = [RED, "[bold]b[/]", "line\nend", "right\u202eleft", "tab\there", "\x9b2J"]
SHOWN = [ALIGNED, "[bold]b[/]", r"line\nend", r"right\u202eleft", r"tab\there", r"\x9b2J"]
LABELS = ["s\x1b[7mun", "[red]star[/]"]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph with hostile names and a model of it; triples with such names and theirs."""
    place = tmp_path_factory.mktemp("world")
    ids = NAMES + [f"n{k}" for k in range(14)]
    (place / "graph").mkdir()
    with (place / "graph" / "nodes.csv").open("w", newline="") as file:
        rows = ([name, LABELS[k % 2], k % 2 + 0.1, k] for k, name in enumerate(ids))
        csv.writer(file).writerows([["id", "label", "x", "y"], *rows])
    with (place / "graph" / "edges.csv").open("w", newline="") as file:
        csv.writer(file).writerows((ids[k], ids[(k + 2) % 20]) for k in range(20))
    ends = [RED, "[bold]b[/]", "right\u202eleft"] + [f"e{k}" for k in range(20)]
    rows = [f"{ends[k]}\tkn\x1b[7mows\t{ends[(k * 7 + 1) % 23]}\n" for k in range(23)]
    (place / "triples.tsv").write_text("".join(rows))
    for task, data in (("node", "graph"), ("link", "triples.tsv")):
        words = ["--data", str(place / data), "--out", str(place / task), "--device", "cpu"]
        result = call("train", task, *words, "--set", "train.epochs=3")
        assert result.exit_code == 0, result.stderr
    return place


def is_harmless(text: str) -> bool:
    return not any(char in text.replace("\n", "") for char in "\x1b\x9b\u202e\0\t\r")


@pytest.mark.parametrize(("name", "shown"), list(zip(NAMES, SHOWN, strict=True)))
def test_what_a_terminal_would_obey_is_written_out(name: str, shown: str) -> None:
    assert printable(name) == shown


def test_letters_of_all_scripts_stay_as_they_are() -> None:
    for text in (
        "Zoë Müller",
        "中文\u3000全角",
        "\u0645\u06cc\u200c\u062e",
        "👩\u200d🔬",
        "a\u00a0b",
        "",
    ):
        assert printable(text) == text
    assert printable("\0 \ud800 \u2028 \ufeff") == r"\x00 \ud800 \u2028 \ufeff"


def test_a_mistake_with_hostile_names_is_one_harmless_line(world: Path) -> None:
    for arguments in (
        ("predict", str(world / "node"), "--node", "x\x1b[2J\n"),
        ("predict", f"no\u202emodel\n{RED}"),
        ("train", "node", "--data", f"{world}/no{RED}\nfolder"),
        ("predict", "no-model", "--out", f"{world}/{RED}.{RED}"),
        ("plot", f"no{RED}\nmodel"),
        ("list", f"{RED}\n"),
        (f"{RED}\ncommand",),
    ):
        result = call(*arguments)
        assert_user_error(result, "quatgraph: ")
        assert is_harmless(result.stderr)


def test_programs_get_names_exactly(world: Path, tmp_path: Path) -> None:
    result = call("predict", str(world / "node"))
    rows = list(csv.DictReader(io.StringIO(result.stdout, newline="")))
    assert [row["id"] for row in rows][: len(NAMES)] == NAMES
    assert {row["prediction"] for row in rows} <= set(LABELS)
    out = tmp_path / f"{RED}.csv"
    refused = call("predict", str(world / "node"), "--out", str(out))
    assert refused.stdout == f"20 predictions in {tmp_path}/{ALIGNED}.csv\n"
    assert out.read_bytes().decode() == result.stdout


def test_tables_for_people_are_harmless(world: Path) -> None:
    link = str(world / "link")
    asked = call("predict", link, "--head", "e1", "--relation", "kn\x1b[7mows", "--top", "23")
    assert asked.exit_code == 0
    assert is_harmless(asked.stdout)
    for shown in (ALIGNED, "[bold]b[/]", r"right\u202eleft"):
        assert shown in asked.stdout
    relations = call("evaluate", link, "--by-relation")
    assert r"kn\x1b[7mows" in relations.stdout
    assert is_harmless(relations.stdout)
    assert is_harmless(call("data", "stats", str(world / "triples.tsv")).stdout)


def test_columns_stay_aligned_with_what_is_written_out() -> None:
    first, second, third = align([{"name": "a\nb", "n": 1}, {"name": "cc", "n": 22}]).splitlines()
    assert (first, second, third) == ("name   n", r"a\nb   1", "cc    22")


def run_in_terminal(*arguments: str) -> str:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "quatgraph", *arguments]
    environment = os.environ | {"PYTHONPATH": str(Path(quatgraph.__file__).parents[1])}
    ends = {"stdin": follower, "stdout": follower, "stderr": follower}
    with subprocess.Popen(command, env=environment, **ends) as process:
        os.close(follower)
        read = b""
        try:
            while chunk := os.read(leader, 65536):
                read += chunk
        except OSError:  # the other end was closed
            pass
        process.wait(60)
    os.close(leader)
    return read.decode().replace("\r\n", "\n")


@pytest.mark.slow
def test_a_terminal_gets_the_csv_with_names_written_out(world: Path) -> None:
    shown = run_in_terminal("predict", str(world / "node"), "--device", "cpu")
    assert is_harmless(shown)
    rows = list(csv.DictReader(io.StringIO(shown, newline="")))
    assert [row["id"] for row in rows][: len(NAMES)] == SHOWN


def test_a_terminal_gets_json_that_is_escaped_once(world: Path) -> None:
    node = ("--node", "line\nend", "--json", "--device", "cpu")
    shown = run_in_terminal("predict", str(world / "node"), *node)
    assert r'"id":"line\nend"' in shown


def test_progress_shows_markup_and_escapes_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(common.sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(
        "rich.console.Console",
        lambda **_: Console(file=written, force_terminal=True, width=120, color_system=None),
    )
    with common.progress_bar() as show:
        show(f"[bold]data[/bold] {{x}} {RED} [/], 2 runs", 1, 3)
    assert f"[bold]data[/bold] {{x}} {ALIGNED} [/], 2 runs" in written.getvalue()
    assert RED not in written.getvalue()
