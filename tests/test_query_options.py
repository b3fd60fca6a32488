"""The options of queries: one table, which agrees with the predictors."""

import inspect

import pytest

from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.query_options import OPTIONS, check_options, options_of


@pytest.mark.parametrize("task", PREDICTORS)
def test_the_table_names_the_keywords_of_each_query(task: str) -> None:
    assert OPTIONS.keys() == PREDICTORS.keys()
    for query in {option.query for option in OPTIONS[task]}:
        signature = inspect.signature(getattr(PREDICTORS[task], query))
        keywords = {
            name: one.default
            for name, one in signature.parameters.items()
            if one.kind is one.KEYWORD_ONLY or query != "predict"
        }
        keywords.pop("self", None)
        assert {option.name: option.default for option in options_of(task, query)} == keywords


def test_spellings_on_the_command_line_are_distinct() -> None:
    spellings = [option.spelling for task in OPTIONS for option in options_of(task)]
    assert len(set(spellings)) == len(spellings)


def test_options_that_a_query_takes_are_accepted() -> None:
    check_options("link", ["head", "--relation", "top", "--new", "known"])
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
        ("link", "part", "unknown option 'part'"),
    ],
)
def test_an_option_that_a_query_does_not_take_is_refused(task: str, name: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        check_options(task, [name])
    assert str(error.value).startswith(words)
