"""The name that was probably meant, among few names and among a million."""

import random
import time
from collections.abc import Iterable
from functools import cache

import numpy as np
import pytest

from quatgraph import errors, suggestions
from quatgraph.data.link.vocabulary import Vocabulary
from quatgraph.errors import UserError, did_you_mean
from quatgraph.predictors.predictions import find_positions

MANY = 1_000_000


@cache
def streets() -> list[str]:
    return [f"{number:x} street {number % 997}" for number in range(MANY)]


def suggested(word: str, names: Iterable[str]) -> str:
    hint = did_you_mean(word, names)
    return hint.removeprefix("; did you mean '").removesuffix("'?")


def edit_distance(left: bytes, right: bytes) -> int:
    """The textbook's table."""
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, 1):
        above, row = row, [i]
        for j, other in enumerate(right, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (one != other)))
    return row[-1]


@pytest.mark.parametrize(
    "typo",
    [
        "abcde stret 101",  # a letter is missing
        "abcde streeet 101",  # one is there twice
        "abcde strete 101",  # two are swapped
        "abcde str33t 101",  # two are others
        "abcde sterte 101",  # two pairs are swapped
        "ABCDE STREET 101",
        "Abcde Stret 101",
    ],
)
def test_a_usual_typo_is_found_among_a_million_names(typo: str) -> None:
    # "abcde street 101" cannot be there by itself: its number has another rest.
    assert suggested(typo, [*streets(), "abcde street 101"]) == "abcde street 101"


def test_a_million_names_are_searched_in_a_fraction_of_a_second() -> None:
    suggested("ffff stret 730", streets())
    start = time.process_time()
    assert suggested("ffff stret 730", streets()) == "ffff street 730"
    assert time.process_time() - start < 2  # 0.2 s where nothing else is running


def test_few_of_many_names_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []

    class Counting(errors.SequenceMatcher):  # type: ignore[name-defined]
        def set_seq1(self, a: str) -> None:  # type: ignore[override]
            compared.append(a)
            super().set_seq1(a)

    monkeypatch.setattr(errors, "SequenceMatcher", Counting)
    assert suggested("ffff stret 730", streets()) == "ffff street 730"
    assert len(compared) < 100


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("http://www.wikidata.org/entity/Q", ""),
        ("", " (disambiguation of a name)"),
        ("Москва ", ""),
    ],
)
def test_names_that_share_a_long_part_are_told_apart(begin: str, end: str) -> None:
    names = [f"{begin}{number}{end}" for number in range(20_000)]
    for typo in (f"{begin[1:]}12345{end}", f"{begin}1234{end}5", f"{begin}12345{end}x"):
        assert suggested(typo, names) in (f"{begin}12345{end}", f"{begin}1234{end}")


def test_what_is_like_nothing_gets_no_suggestion() -> None:
    assert did_you_mean("Atlantis", streets()) == ""
    assert did_you_mean("", streets()) == ""
    assert did_you_mean("q", [str(number) for number in range(1000)]) == ""


def test_very_long_names_cost_nothing() -> None:
    long = [("x" * 100_000) + str(number) for number in range(600)]
    start = time.process_time()
    assert did_you_mean("x" * 100_000, long) == ""
    assert did_you_mean("x" * 20, long) == ""
    assert suggested("amn", [*long, "man"]) == "man"
    assert did_you_mean("a" * 190, ["a" * 180 + "b" * number for number in range(1, 20)])
    assert time.process_time() - start < 5


def test_half_a_character_does_no_harm() -> None:
    names = [f"\ud800name{number}" for number in range(1000)]
    assert did_you_mean("\ud800nmae7", names) == "; did you mean '\\ud800name7'?"


def test_letter_case_decides_between_names_that_differ_in_nothing_else() -> None:
    assert suggested("Paris", ["PARIS", "paris", "Pariss"]) == "paris"
    assert suggested("EPOCHS", ["epochs", "lr"]) == "epochs"


def test_edits_are_counted_as_the_textbook_counts_them() -> None:
    draw = random.Random(0)
    for _ in range(200):
        word = bytes(draw.choices(b"abcd", k=draw.randint(1, 16)))
        width = draw.randint(1, 30)
        others = [bytes(draw.choices(b"abcd", k=width)) for _ in range(4)]
        text = np.frombuffer(b"".join(others), np.uint8)
        found = suggestions._edit_distances(word, text, np.arange(4) * width, width)
        assert found.tolist() == [edit_distance(word, other) for other in others]


def test_all_who_look_up_names_suggest_one_of_very_many() -> None:
    names = [f"node-{number:05d}" for number in range(60_000)]
    with pytest.raises(UserError, match="no node 'noed-54321'; did you mean 'node-54321'"):
        find_positions(["noed-54321"], names, "there is no node {}")
    with pytest.raises(UserError, match="no entity 'noed-54321'; did you mean 'node-54321'"):
        Vocabulary("entity", names, names).find("noed-54321")
