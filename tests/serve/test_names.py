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
        {"id": "7", "label": "ab"},
        {"id": "4", "label": "New York"},
        {"id": "2", "label": "Paris"},
    ]


def test_an_index_may_be_empty() -> None:
    assert NameIndex([], []).search("x", 5) == []
