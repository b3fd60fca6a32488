"""The queries to trained models: one table, which agrees with the predictors."""

import inspect
from typing import Any, Unpack, get_args, get_origin

import pytest

from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.query_options import QUERIES, check_options, find_query, parse_flags, queries_of


def keywords_of(method: Any) -> dict[str, Any]:
    """The keywords of a method and their defaults, without its data and its progress bar."""
    found = {}
    for name, one in inspect.signature(method).parameters.items():
        if get_origin(one.annotation) is Unpack:
            (fields,) = get_args(one.annotation)
            found |= dict.fromkeys(fields.__annotations__)
        elif one.kind is one.KEYWORD_ONLY or name in ("relation", "part"):
            found[name] = one.default
    return {name: default for name, default in found.items() if name != "progress"}


@pytest.mark.parametrize("task", PREDICTORS)
def test_the_table_names_the_keywords_of_each_query(task: str) -> None:
    assert QUERIES.keys() == PREDICTORS.keys()
    assert len({query.method for query in QUERIES[task]}) == len(QUERIES[task])
    for query in QUERIES[task]:
        method = getattr(PREDICTORS[task], query.method)
        assert {option.name: option.default for option in query.options} == keywords_of(method)
        assert query.shows_progress == ("progress" in inspect.signature(method).parameters)


def test_a_spelling_on_the_command_line_is_a_switch_everywhere_or_nowhere() -> None:
    """So that the options of all tasks fit into one command."""
    kinds: dict[str, set[bool]] = {}
    for task in QUERIES:
        for query in queries_of(task):
            for option in query.options:
                kinds.setdefault(option.spelling, set()).add(option.flag_value is None)
            spellings = [option.spelling for option in query.options]
            assert len(set(spellings)) == len(spellings)
            assert f"--{query.flag}" not in kinds
    assert all(len(kind) == 1 for kind in kinds.values())


def test_options_that_a_query_takes_are_accepted() -> None:
    check_options("link", ["head", "--relation", "top", "--new", "known", "explain"])
    check_options("link", ["relation", "--top", "--explain", "--missing"], "predict_missing")
    check_options("link", ["part"], "by_relation")
    check_options("graph", ["ids", "--graph"])


@pytest.mark.parametrize(
    ("task", "name", "words"),
    [
        ("link", "tops", "unknown option 'tops'; did you mean 'top'?"),
        ("text", "explian", "unknown option 'explian'; did you mean 'explain'?"),
        ("node", "zzz", "unknown option 'zzz'; choose from nodes"),
        ("node", "top", "top is an option for link models, but the model is for the task 'node'"),
        ("text", "--node", "--node is an option for node models, but the model is for the"),
        ("text", "--missing", "--missing is an option for link models, but the model is for the"),
        ("node", "--explain", "--explain is an option for graph, link and text models, but"),
        ("link", "part", "unknown option 'part'"),
    ],
)
def test_an_option_that_a_query_does_not_take_is_refused(task: str, name: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        check_options(task, [name])
    assert str(error.value).startswith(words)


def test_a_query_of_another_task_is_refused() -> None:
    assert find_query("link", "by_relation").command == "evaluate"
    with pytest.raises(UserError, match="--by-relation is an option for link models, but the"):
        find_query("text", "by_relation")


def test_flags_make_a_query_and_its_keywords() -> None:
    query, keywords = parse_flags("link", {"--relation": ["r"], "--new": True, "--explain": True})
    assert query.method == "predict"
    assert keywords == {"relation": "r", "known": "leave-out", "explain": True}
    query, keywords = parse_flags("link", {"--missing": True, "--relation": ["r", "s"]})
    assert (query.method, keywords) == ("predict_missing", {"relation": ["r", "s"]})
    assert parse_flags("a task without a table", {})[0].method == "predict"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"--relation": ["r", "s"]}, "give --relation once; several are for --missing"),
        (
            {"--missing": True, "--head": "h"},
            "--missing does not go with --head; it takes --relation, --top, --explain",
        ),
        ({"--missing": True, "--node": ["n"]}, "--node is an option for node models, but"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError) as error:
        parse_flags("link", flags)
    assert str(error.value).startswith(words)
