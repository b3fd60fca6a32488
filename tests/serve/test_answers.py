"""Answers over HTTP are those of the predictors."""

from pathlib import Path
from typing import Any

import pytest
from httpx import Client
from services import ask, refused

import quatgraph


@pytest.mark.parametrize("task", ["node", "graph", "link", "text"])
def test_the_example_of_a_model_is_answered_as_by_its_predictor(
    client: Client, bundles: dict[str, Path], task: str
) -> None:
    card = ask(client, f"/api/models/{task}")
    assert card["task"] == task
    reply = ask(client, f"/api/models/{task}/predict", card["example"])
    predictor: Any = quatgraph.load(bundles[task], device="cpu")
    rows = list(predictor.predict(**card["example"]).rows())
    assert len(reply["answers"]) == len(rows) > 0
    for answer, row in zip(reply["answers"], rows, strict=True):
        if task == "link":
            assert answer["score"] == pytest.approx(row["score"], rel=1e-5)
            shared = ("predicted", "head", "relation", "tail", "rank", "known")
            assert [answer[key] for key in shared] == [row[key] for key in shared]
        else:
            assert answer["prediction"] == row["prediction"]
            each = [row[f"p({label})"] for label in reply["classes"]]
            assert answer["probabilities"] == pytest.approx(each, abs=1e-6)


def test_explained_texts_have_the_support_of_each_word(
    client: Client, bundles: dict[str, Path]
) -> None:
    body = ask(client, "/api/models/text")["example"]
    (answer,) = ask(client, "/api/models/text/explain", body)["answers"]
    predictor: Any = quatgraph.load(bundles["text"], device="cpu")
    expected = predictor.predict(body["texts"], explain=True).support[0]
    assert answer["support"] == pytest.approx(expected, abs=1e-6)


def test_explained_triples_have_the_triples_that_support_them(
    client: Client, bundles: dict[str, Path]
) -> None:
    body = ask(client, "/api/models/link")["example"] | {"top": 2}
    answers = ask(client, "/api/models/link/explain", body)["answers"]
    predictor: Any = quatgraph.load(bundles["link"], device="cpu")
    expected = predictor.predict(**body, explain=True).support
    for answer, support in zip(answers, expected, strict=True):
        found = [(s["head"], s["relation"], s["tail"]) for s in answer["support"]]
        assert found == [tuple(one[:3]) for one in support]


def test_an_explained_node_names_its_neighbours_by_what_their_edges_add(
    client: Client,
) -> None:
    (answer,) = ask(client, "/api/models/node/explain", {"nodes": ["n3"]})["answers"]
    assert {edge["node"] for edge in answer["edges"]} == {"n1", "n5"}
    supports = [edge["support"] for edge in answer["edges"]]
    assert supports == sorted(supports, reverse=True)
    assert any(supports)


def test_an_explained_graph_weighs_each_node_by_the_graph_without_it(
    client: Client, bundles: dict[str, Path]
) -> None:
    graph = {"edges": [[0, 1], [1, 2], [2, 3]], "node_labels": ["C", "N", "C", "O"]}
    (answer,) = ask(client, "/api/models/graph/explain", {"graphs": [graph]})["answers"]
    assert len(answer["nodes"]) == 4
    rest = {"edges": [[0, 1], [1, 2]], "node_labels": ["C", "N", "C"]}
    reply = ask(client, "/api/models/graph/predict", {"graphs": [rest]})
    place = reply["classes"].index(answer["prediction"])
    without = reply["answers"][0]["probabilities"][place]
    assert answer["nodes"][3] == pytest.approx(answer["probability"] - without, abs=1e-6)


def test_many_queries_are_answered_in_one_request(client: Client) -> None:
    example = ask(client, "/api/models/link")["example"]
    rows = [[example["head"], example["relation"], None], [None, example["relation"], None]]
    assert refused(client, "/api/models/link/predict", {"queries": rows}) == (
        422,
        "query 2: head and tail are both missing; give one, or both to score the triple",
    )
    rows[1][2] = example["head"]
    reply = ask(client, "/api/models/link/predict", {"queries": rows, "top": 2})
    assert [answer["query"] for answer in reply["answers"]] == [0, 0, 1, 1]
    assert [answer["predicted"] for answer in reply["answers"]] == ["tail"] * 2 + ["head"] * 2


def test_a_text_that_names_a_file_is_a_text(client: Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("charming\n")
    body = {"texts": [str(secret)]}
    (answer,) = ask(client, "/api/models/text/predict", body)["answers"]
    assert answer["text"] == str(secret)


@pytest.mark.parametrize(
    ("task", "body", "most"),
    [
        ("text", {"texts": ["a film"] * 101}, 100),
        ("node", {"nodes": ["n1"] * 11}, 10),
        ("graph", {"ids": ["ring-0"] * 101}, 100),
        ("link", {"queries": [["person 1", "knows", None]] * 11}, 100),
    ],
)
def test_many_answers_are_not_explained_at_once(
    client: Client, task: str, body: dict[str, Any], most: int
) -> None:
    assert ask(client, f"/api/models/{task}/predict", body)["answers"]
    status, sentence = refused(client, f"/api/models/{task}/explain", body)
    assert status == 422
    assert sentence.startswith(f"at most {most} answers are explained at once, not 1")


def test_a_reply_has_no_more_answers_than_a_client_can_want(client: Client) -> None:
    body = {"queries": [["person 1", "knows", None]] * 1000, "top": 1000}
    status, sentence = refused(client, "/api/models/link/predict", body)
    assert status == 422
    assert sentence.startswith("a reply has at most 10,000 answers, and these would be ")


@pytest.mark.parametrize(
    ("task", "body", "sentence"),
    [
        ("link", {"head": "x", "relation": "in", "tops": 3}, "unknown option 'tops'; did you mean"),
        ("link", {"head": "x", "relation": "in", "top": 0}, "top: input should be greater than"),
        ("link", {"head": "x", "relation": "in", "top": "3"}, "top: input should be a valid int"),
        ("link", {}, "give a query: a relation, and a head or a tail, such as {"),
        ("link", {"nodes": ["1"]}, "nodes is an option for node models, but the model is for"),
        ("link", {"queries": []}, "there are no queries; give rows of head, relation and tail"),
        ("text", {"texts": []}, "there is no text to classify; give at least one word"),
        ("text", {"texts": ["x"], "vectors": "/etc/passwd"}, "vectors names a file, which only"),
        ("text", {"texts": ["\0"]}, "is not UTF-8 text"),
        ("node", {"nodes": ["n99"]}, "there is no node 'n99' in the graph; did you mean"),
        ("node", {}, "give the ids of nodes, such as 'n0'"),
        ("graph", {"smiles": ["c1cc"]}, "the SMILES: 'c1cc' is no molecule"),
        ("graph", {"ids": ["ring-99"]}, "there is no graph 'ring-99'; did you mean"),
        ("graph", {"graphs": [{"edges": [[0, 9]], "num_nodes": 2}]}, "graph 1 has an edge to the"),
        ("graph", {"graphs": []}, "there are no graphs; give at least one"),
        ("graph", {"graphs": [{"edges": [[0, 99_999_999]]}]}, "and these are 100,000,000: send"),
        ("graph", {"graphs": [{"edges": [[0, 9**99]]}]}, "at most 100,000 nodes, and these are"),
        ("graph", {"graphs": [{"edges": [], "num_nodes": 99_999}] * 2}, "and these are 199,998"),
    ],
)
def test_a_mistake_is_a_sentence(
    client: Client, task: str, body: dict[str, Any], sentence: str
) -> None:
    status, error = refused(client, f"/api/models/{task}/predict", body)
    assert status == 422
    assert sentence in error
    assert "\n" not in error
