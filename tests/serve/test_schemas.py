"""Requests are typed by the table of queries."""

import json
from pathlib import Path
from typing import Any

import pytest

from quatgraph.errors import UserError
from quatgraph.query_options import QUERIES, find_query
from quatgraph.serve.schemas import DATA, REQUESTS, options_of, parse_request


def mistake(task: str, body: Any) -> str:
    """The sentence about a body, JSON or bytes."""
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(UserError) as caught:
        parse_request(task, given)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "pydantic" not in sentence
    return sentence


@pytest.mark.parametrize("task", list(QUERIES))
def test_a_request_has_every_option_of_the_table_but_files(task: str) -> None:
    options = [one for one in find_query(task).options if one.type is not Path]
    fields, data = REQUESTS[task].model_fields, [DATA[task]] if task in DATA else []
    assert set(fields) == {one.name for one in options} | {name for name, *_ in data}
    for one in options:
        assert (fields[one.name].description, fields[one.name].default) == (one.help, one.default)
    assert options_of(task) == options


@pytest.mark.parametrize(
    ("task", "body"),
    [
        ("node", {"nodes": ["a", "b"]}),
        ("graph", {"graphs": [{"edges": [[0, 1]], "id": "x"}]}),
        ("link", {"head": "a", "relation": "r", "top": 3, "known": "leave-out", "explain": True}),
        ("link", {"queries": [["a", "r", None]]}),
        ("text", {"texts": ["a"], "explain": False}),
    ],
)
def test_the_keywords_are_those_that_were_given(task: str, body: dict[str, Any]) -> None:
    assert parse_request(task, json.dumps(body).encode()) == body


@pytest.mark.parametrize("body", [b"", b"{", b'{"top": 3', b"\xff\xfe", b'{"head": "\\ud800"}'])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    assert mistake("link", body).startswith("the request is not valid JSON: send an object")


@pytest.mark.parametrize("body", [[], 1, "x", None, True])
def test_a_request_is_an_object(body: Any) -> None:
    assert mistake("link", body).startswith("the request: input should be an object")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"top": 1001}, "top: input should be less than or equal to 1000"),
        ({"top": 2.5}, "top: input should be a valid integer"),
        ({"top": True}, "top: input should be a valid integer"),
        ({"known": "new"}, "known: input should be 'mark' or 'leave-out'"),
        ({"explain": 1}, "explain: input should be a valid boolean"),
        ({"queries": [["a", "r"]]}, "queries.0: list should have at least 3 items"),
        ({"queries": [["a", "r", None]] * 1001}, "queries: list should have at most 1000 items"),
        ({"heads": "a"}, "unknown option 'heads'; did you mean 'head'?"),
        ({"missing": True}, "--missing may take minutes: use the command line, quatgraph predict"),
        ({"by_relation": True}, "--by-relation may take minutes: use the command line, quatgraph"),
        ({"texts": ["a"]}, "unknown option 'texts'; choose from head, relation"),
        ({"ids": ["a"]}, "ids is an option for graph and text models, but the model is for"),
    ],
)
def test_a_mistake_names_its_field(body: dict[str, Any], sentence: str) -> None:
    assert mistake("link", body).startswith(sentence)


def test_a_file_is_never_read_for_a_request() -> None:
    assert mistake("text", {"vectors": "/etc/passwd"}) == (
        "vectors names a file, which only the command line reads: leave it out"
    )
