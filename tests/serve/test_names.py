"""Names are found by their beginning, within, and with typing errors."""

import pytest

from quatgraph.serve.names import NameIndex

NAMES = ["Peru", "Perth", "Paris", "São Paulo", "New York", "York", "Zürich", "ab"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("pe", ["Perth", "Peru"]),
        ("PERU", ["Peru"]),
        ("prau", []),
        ("sao paulo", ["São Paulo"]),
        ("zurich", ["Zürich"]),
        ("york", ["York", "New York"]),
        ("nwe york", ["New York", "York"]),
        ("zzzz", []),
    ],
)
def test_the_best_names_come_first(query: str, first: list[str]) -> None:
    found = [one["label"] for one in NameIndex(NAMES, NAMES).search(query, 10)]
    assert found[: len(first)] == first


def test_all_names_come_in_order_before_anything_is_typed() -> None:
    found = NameIndex([str(place) for place in range(len(NAMES))], NAMES).search("", 3)
    assert found == [
        {"id": "7", "label": "ab", "name": "ab"},
        {"id": "4", "label": "New York", "name": "New York"},
        {"id": "2", "label": "Paris", "name": "Paris"},
    ]


def test_an_index_may_be_empty() -> None:
    assert NameIndex([], []).search("x", 5) == []


def test_a_label_that_others_have_is_named_by_its_id() -> None:
    labels = ["York", "Yale", "york", "Zoo", "Zoo"]
    index = NameIndex(["Q1", "Q2", "Q3", "Q4", "Q5"], labels)
    assert [index.name(place) for place in range(5)] == ["Q1", "Yale", "Q3", "Q4", "Q5"]
