"""Requests that are answered together have the replies that each would have alone."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quatgraph.errors import UserError
from quatgraph.serve.answers import Answers, open_answers
from quatgraph.serve.answers.base import Keywords

REQUESTS: dict[str, list[Keywords]] = {
    "node": [{"nodes": ["n3"]}, {"nodes": ["n5", "n3"]}, {"nodes": ["nobody"]}, {"nodes": []}],
    "graph": [
        {"ids": ["ring-10"]},
        {"ids": []},
        {"graphs": [{"edges": [[0, 1]], "node_labels": ["C", "N"]}]},
        {"graphs": [{"edges": [[0, 5]], "num_nodes": 2}]},
        {},
    ],
    "text": [
        {"texts": ["a charming film"]},
        {"texts": ["an unheard word", "dull and flat"]},
        {"texts": ["\0"]},
        {"texts": [" "]},
        {"texts": ["a lovely town and a long story", ""]},
        {"ids": ["3"]},
        {"ids": []},
        {"texts": ["awful"], "explain": True},
    ],
}


def link_requests(answers: Answers) -> list[Keywords]:
    graph = answers.predictor.triples
    found: list[Keywords] = []
    for place, (head, relation, tail) in enumerate(graph.train[:12].tolist()):
        names = graph.entities[head], graph.relations[relation], graph.entities[tail]
        single = dict(zip(("head", "relation", "tail"), names, strict=True))
        single.pop(("head", "tail", "relation")[place % 3])
        known = ("mark", "leave-out")[place % 2]
        found.append(single | {"top": 2 + place // 2 % 2, "known": known})
        found.append({"queries": [names, [names[0], names[1], None]], "top": 3})
    return found


def replies(answers: Answers, requests: Sequence[Keywords], method: str = "predict") -> list[Any]:
    """The replies of one batch; a mistake as its sentence."""
    found = getattr(answers, method)(requests)
    assert all(isinstance(one, bytes | UserError) for one in found), found
    return [json.loads(one) if isinstance(one, bytes) else str(one) for one in found]


def close(value: Any) -> Any:
    """Numbers up to the rounding of float32; all else as it is."""
    if isinstance(value, float):
        return pytest.approx(value, rel=2e-5, abs=2e-6)
    if isinstance(value, dict):
        return {key: close(one) for key, one in value.items()}
    return [close(one) for one in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def opened(bundles: dict[str, Path]) -> dict[str, Answers]:
    return {task: open_answers(path, "cpu") for task, path in bundles.items()}


@pytest.mark.parametrize("method", ["predict", "explain"])
@pytest.mark.parametrize("task", ["node", "graph", "link", "text"])
def test_a_batch_is_answered_like_its_requests_one_by_one(
    opened: dict[str, Answers], task: str, method: str
) -> None:
    answers = opened[task]
    requests = link_requests(answers) if task == "link" else REQUESTS[task]
    alone = [replies(answers, [one], method)[0] for one in requests]
    assert any(isinstance(one, str) for one in alone)
    assert replies(answers, requests, method) == close(alone)
    backwards = replies(answers, requests[::-1], method)[::-1]
    assert backwards == close(alone)


def test_ranks_and_scores_of_triples_are_the_same_bit_for_bit(opened: dict[str, Answers]) -> None:
    answers = opened["link"]
    requests = [one for one in link_requests(answers) if "queries" not in one]
    alone = [replies(answers, [one])[0] for one in requests]
    assert replies(answers, requests) == alone


def test_a_note_is_only_for_the_one_whose_words_are_unknown(opened: dict[str, Answers]) -> None:
    plain, unknown = replies(
        opened["text"], [{"texts": ["a lovely film"]}, {"texts": ["xyzzy lovely"]}]
    )
    assert plain["notes"] == []
    assert unknown["notes"] == ["unknown words are left out: 'xyzzy'"]


@pytest.mark.parametrize("task", ["link", "text"])
def test_an_error_about_one_request_does_not_fail_the_others(
    opened: dict[str, Answers], monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    answers = opened[task]
    name = "predict_rows" if task == "link" else "predict"
    method = getattr(answers.predictor, name)

    def overflow(data: Any, **options: Any) -> Any:
        if len(data) != 1:
            raise UserError("the prediction for 'a secret' is not a finite number")
        return method(data, **options)

    requests: list[Keywords] = [{"texts": ["charming"]}, {"texts": ["dull"]}]
    bad: Keywords = {"texts": ["one", "two"]}
    if task == "link":
        singles = [one | {"top": 3, "known": "mark"} for one in link_requests(answers)]
        requests, bad = [singles[0], singles[2]], singles[1]
    alone = [replies(answers, [one])[0] for one in requests]
    monkeypatch.setattr(answers.predictor, name, overflow)
    *others, failed = replies(answers, [*requests, bad])
    assert others == alone
    assert "'a secret'" in failed
