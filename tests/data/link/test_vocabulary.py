"""Names of entities and relations."""

import time

import pytest

from quatgraph.data.io.messages import quote_some
from quatgraph.data.link.vocabulary import Vocabulary, read_labels
from quatgraph.errors import UserError

TOWNS = Vocabulary(
    "entity",
    ["Q1", "Q2", "Q3", "Q4", "Q5", "q5"],
    ["Springfield", "Springfield", "Paris", "PARIS", "Q1", "Lima"],
)


@pytest.mark.parametrize(
    ("name", "place"), [("Q1", 0), ("Paris", 2), ("PARIS", 3), (" lima ", 5), ("q2", 1), ("q5", 5)]
)
def test_an_id_goes_before_a_label_and_what_is_exact_before_what_is_not(name, place):
    assert TOWNS.find(name) == place


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Springfield", "2 entities are called 'Springfield': 'Q1', 'Q2'; name one by its id"),
        ("springfield", "2 entities are called 'springfield': 'Q1', 'Q2'; name one by its id"),
        ("paris", "2 entities are called 'paris': 'Q3', 'Q4'; name one by its id"),
        ("Pariss", "there is no entity 'Pariss'; did you mean 'Paris'\\?"),
        ("Atlantis", "no entity 'Atlantis'; entities are, for instance, 'Springfield', 'Paris'"),
        ("", "there is no entity ''"),
    ],
)
def test_an_unknown_or_ambiguous_entity_is_refused_with_a_remedy(name, message):
    with pytest.raises(UserError, match=message):
        TOWNS.find(name)


def test_many_of_one_name_are_not_all_listed():
    many = Vocabulary("relation", [f"P{n}" for n in range(9)], ["of"] * 9)
    with pytest.raises(UserError, match=r"9 relations are called 'of': 'P0', .* 'P4' and 4 more;"):
        many.find("of")
    assert quote_some(["a"]) == "'a'"


def test_a_hint_among_very_many_names_is_given_in_time():
    names = [f"{number:x} street {number % 997}" for number in range(100_000)]
    many = Vocabulary("entity", [f"Q{number}" for number in range(100_000)], names)
    start = time.process_time()
    with pytest.raises(UserError, match="did you mean 'ffff street 730'"):
        many.find("ffff stret 730")
    assert time.process_time() - start < 10


def test_labels_are_read_with_or_without_column_names():
    content = b'id\tlabel\nQ1\tOne\nQ2\t\nQ1\tOne\nQ3\t"Three"\n'
    assert read_labels(content, "f", ("id", "label")) == {"Q1": "One", "Q3": "Three"}
    headed = b"id,name\n1,One"
    assert read_labels(headed, "f", ("id", "label")) == {"1": "One"}
    assert read_labels(headed, "f", ("id", "label"), {"id", "1"}) == {"id": "name", "1": "One"}
    assert read_labels(b"a\tA\tbook", "f", ("id", "label", "source")) == {"a": "A"}
    assert read_labels(b"", "f", ("id", "label")) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tA\na\tB\n", "f line 2 calls 'a' 'B' but an earlier line calls it 'A'; keep one"),
        (b"a\tA\n\tB\n", "f line 2 has a label but no id"),
        (b"a\tA\tx\n", "f line 1 has 3 columns where 2 are needed; write id, label"),
        (b"a\n", "f line 1 has 1 column where 2 are needed"),
        (b"a\tA\n\xe9\tB\n", "f line 2 is not UTF-8"),
    ],
)
def test_labels_that_cannot_be_are_refused(content, message):
    with pytest.raises(UserError, match=message):
        read_labels(content, "f", ("id", "label"))
