"""The demo: it trains, saves its model, and does not train twice."""

import itertools
import re
from pathlib import Path

import pytest
from commands import assert_user_error, call

from quatgraph import presets
from quatgraph.cli.demo import FOLDER, QUERIES
from quatgraph.config import override

NUMBERS = r" +\.\d{3} +\d+\.\d %$"


@pytest.fixture(autouse=True)
def _short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two epochs of a small model, in the test's own folder."""
    monkeypatch.chdir(tmp_path)
    whole = presets.preset

    def short(name: str, protocol: presets.Protocol = "paper") -> dict:
        return override(whole(name, protocol), ["train.epochs=2", "model.dim_quats=1"])

    monkeypatch.setattr(presets, "preset", short)


def shown() -> list[str]:
    result = call("demo")
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_it_learns_answers_by_name_and_says_how_to_go_on() -> None:
    lines = shown()
    assert max(map(len, lines)) <= 80
    assert re.fullmatch(rf"SimQGNN: trained in \d+ s, saved in {FOLDER}\.", lines[1])
    assert re.match("  SimQGNN" + NUMBERS, lines[4])
    assert re.fullmatch(r"  most frequent answers +\.151 +27\.1 %", lines[5])
    for question in QUERIES:
        answers = itertools.takewhile(bool, lines[lines.index(question) + 1 :])
        assert " ".join(answers).count(", ") == 3
    assert any("(new)" in line for line in lines)
    more, own, *_, page = (line.split() for line in lines[-5:])
    assert page == ["quatgraph", "serve", str(FOLDER)]
    assert own[:3] == ["quatgraph", "train", "link"]
    assert more[0] == "quatgraph"
    assert call(*more[1:]).exit_code == 0


def test_what_was_learned_is_asked_again() -> None:
    first = shown()
    second = shown()
    assert second[1] == f"SimQGNN: loaded from {FOLDER}."
    assert second[2:] == first[2:]


@pytest.mark.parametrize("file", ["card.json", "model.safetensors", "records.jsonl"])
def test_what_is_damaged_or_of_other_settings_is_learned_anew(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shown()
    (FOLDER / file).write_text("damaged")
    again = shown()
    assert again[1].startswith("SimQGNN: trained in ")
    assert again[2:] == first[2:]
    other = presets.preset
    monkeypatch.setattr(
        presets, "preset", lambda *names: override(other(*names), ["train.epochs=1"])
    )
    assert shown()[1].startswith("SimQGNN: trained in ")


def test_a_place_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / FOLDER.parts[0]).write_text("precious")
    result = call("demo")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "cannot write quatgraph-runs/countries-demo" in result.stderr
    assert_user_error(call("demo", "--device", "gpu"), "unknown device 'gpu'")
