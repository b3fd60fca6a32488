"""Questions as people write them, in files and in lists."""

import dataclasses
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from quatgraph.data.link import Triples
from quatgraph.errors import Mistake
from quatgraph.predictors.queries import OPEN, example, numbered

NONE = torch.empty(0, 3, dtype=torch.int64)
GRAPH = Triples(
    name="towns",
    train=torch.tensor([[0, 0, 1], [2, 1, 1]]),
    valid=NONE,
    test=NONE,
    entities=["Q1", "Q2", "Q3"],
    relations=["P1", "P2"],
    entity_labels=["Bonn", "New York", "Bonn"],
    relation_labels=["near", "twin of"],
)
ASKED = [[OPEN, 0, 1], [2, 1, OPEN], [0, 0, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "?\tnear\tNew York\nQ3\ttwin of\t?\nQ1\tP1\tQ2\n",
        "\tnear\tNew York\nQ3\ttwin of\t\nQ1\tP1\tQ2",
        "?,near,new york\r\n\r\nq3,TWIN OF,\r\nQ1,P1,Q2\r\n",
        'head;relation;tail\n?;near;"New York"\nQ3;twin of;?\nQ1;P1;Q2',
        "relation,object,subject\nnear,New York,?\ntwin of,?,Q3\nP1,Q2,Q1\n",
    ],
    ids=["tabs", "empty cells", "commas", "header", "other order"],
)
def test_a_file_is_read_in_any_form(text: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.csv"
    file.write_bytes(text.encode())
    assert numbered(file, GRAPH).tolist() == ASKED
    assert numbered(str(file), GRAPH).tolist() == ASKED


@pytest.mark.parametrize(("packing", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_file_may_be_packed(packing: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = tmp_path / f"questions.tsv{packing}"
    file.write_bytes(pack(b"?\tnear\tQ2\n"))
    assert numbered(file, GRAPH).tolist() == [[OPEN, 0, 1]]


def test_rows_are_read_too() -> None:
    rows = [("?", "near", "New York"), ["Q3", "twin of", None], ("Q1", "P1", "Q2")]
    assert numbered(rows, GRAPH).tolist() == ASKED


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"Q1\tnear\nQ1\tnear\t?\n", "line 1 has 2 columns where 3 are needed"),
        (b"Q1\tnear\t?\nQ1\tnear\t?\tx\n", "line 2 has 4 columns where 3 are needed"),
        (b"", "has no questions; write head, relation and tail"),
        (b"head\trelation\ttail\n", "has no questions"),
        (b"Q1\tnear\t?\nQ1\tn\xe4her\t?\n", "line 2 is not UTF-8 text"),
        (b"Q1\tnear\t?\n?\tnear\t?\n", "line 2: head and tail are both missing"),
        (b"Q1\tnear\t?\n\nQ1\t?\tQ2\n", "line 3: the relation is missing; there are 'near', 't"),
        (b"Q1\tnear\t?\nNew Yorck\tnear\t?\n", "line 2: there is no entity 'New Yorck'; did you"),
        (b"Bonn\tnear\t?\n", "line 1: 2 entities are called 'Bonn'"),
        (b"Q1\tnear\t?\nQ2\tclose\t?\n", "line 2: there is no relation 'close'; relations are"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_line(
    content: bytes, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "questions.tsv"
    file.write_bytes(content)
    with pytest.raises(Mistake) as told:
        numbered(file, GRAPH)
    assert words in str(told.value)
    assert str(file) in str(told.value)


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="there is no file"):
        numbered(tmp_path / "nowhere.tsv", GRAPH)


def test_a_mistake_in_a_list_is_told_with_its_number() -> None:
    good = ("Q1", "near", None)
    with pytest.raises(Mistake, match="question 2: there is no entity 'Rome'"):
        numbered([good, ("Rome", "near", None)], GRAPH)
    with pytest.raises(Mistake, match=r"question 2: \('Q1', 'near'\) is no row of head, relation"):
        numbered([good, ("Q1", "near")], GRAPH)
    with pytest.raises(Mistake, match="question 1: 'Q1' is no row of head, relation and tail"):
        numbered(good, GRAPH)  # type: ignore[arg-type]
    with pytest.raises(Mistake, match="there are no questions"):
        numbered([], GRAPH)


def test_the_example_can_be_asked() -> None:
    assert example(GRAPH) == "--head Q1 --relation near"
    asked = torch.tensor([[1, 1, 0]])
    other = dataclasses.replace(GRAPH, test=asked)
    assert example(other) == "--head 'New York' --relation 'twin of'"
