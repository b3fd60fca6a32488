"""A client of a service returns what a loaded bundle returns."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from services import save_bundles, service

import quatgraph
from quatgraph.client import ExplainedNodes
from quatgraph.data.link import Triples
from quatgraph.predictors.predictions import GraphPredictions, Links

GRAPHS = [{"edges": [[0, 1], [1, 2]], "node_labels": ["C", "N", "C"], "id": "x", "label": "ring"}]
QUERIES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("node", (), {"nodes": ["n3", "n5"]}),
    ("graph", (), {"ids": ["ring-10", "ring-0"]}),
    ("text", ("a charming film",), {}),
    ("text", (["a charming film", "an unheard word"],), {"explain": True}),
    ("text", (), {"ids": ["3", "0"]}),
    ("text", (), {"ids": [3]}),
    ("link", (), {"head": "person 1", "relation": "knows"}),
    ("link", (), {"relation": "knows", "tail": "person 1", "top": 3, "known": "leave-out"}),
    ("link", (), {"head": "person 1", "relation": "lives in", "top": 2, "explain": True}),
    ("link", (), {"head": "person 1", "relation": "lives in", "tail": "city 1"}),
    ("link", ([("person 2", "knows", None), ("?", "knows", "person 3")],), {"top": 2}),
    ("link", ([("person 2", "knows", "person 3"), (None, "knows", "person 3")],), {"top": 2}),
]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_bundles(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def served(bundles: dict[str, Path]) -> Iterator[httpx.Client]:
    with service(list(bundles.values())) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: httpx.Client) -> quatgraph.Client:
    return quatgraph.Client(str(served.base_url))


@pytest.fixture(scope="module")
def predictors(bundles: dict[str, Path]) -> dict[str, Any]:
    return {task: quatgraph.load(path, device="cpu") for task, path in bundles.items()}


def assert_same(found: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """The same type and the same values; of links, also the same names."""
    assert type(found) is type(expected)
    assert repr(found) == repr(expected)
    for name in (field.name for field in fields(expected)):
        one, other = getattr(found, name), getattr(expected, name)
        if isinstance(other, torch.Tensor) and name != "triples":
            assert one.dtype == other.dtype
            torch.testing.assert_close(one, other, rtol=1e-5, atol=tolerance, equal_nan=True)
        elif not isinstance(other, Triples | torch.Tensor) and name not in ("support", "attention"):
            assert list(one or []) == list(other or [])
            assert (one is None) == (other is None)
    for row, own in zip(found.rows(), expected.rows(), strict=True):
        assert list(row) == list(own)
        for key, value in own.items():
            near = isinstance(value, float | dict)
            assert row[key] == (pytest.approx(value, rel=1e-4, abs=5e-6) if near else value)


@pytest.mark.parametrize(("task", "data", "options"), QUERIES)
def test_predictions_are_those_of_the_bundle(
    client: quatgraph.Client,
    predictors: dict[str, Any],
    task: str,
    data: tuple[Any, ...],
    options: dict[str, Any],
) -> None:
    expected = predictors[task].predict(*data, **options)
    assert_same(client[task].predict(*data, **options), expected)


def test_new_graphs_are_sent_as_dictionaries(
    client: quatgraph.Client, predictors: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "new.jsonl"
    path.write_text("\n".join(map(json.dumps, GRAPHS)))
    assert_same(client["graph"].predict(GRAPHS), predictors["graph"].predict(path))


def test_many_clients_at_once_are_each_answered_as_if_alone(
    client: quatgraph.Client, predictors: dict[str, Any]
) -> None:
    people = [f"person {number}" for number in range(25)]
    queries = [{"head": one, "relation": "knows", "top": 2 + n % 3} for n, one in enumerate(people)]
    queries += [{"tail": one, "relation": "knows", "known": "leave-out"} for one in people]
    texts = [f"a {word} story" for word in ("charming", "dull", "lovely", "awful", "unheard")] * 10
    model, reader = client["link"], client["text"]
    with ThreadPoolExecutor(16) as pool:
        links = pool.map(lambda query: model.predict(**query), queries * 2)
        read = pool.map(lambda text: reader.predict(text), texts)
        for query, found in zip(queries * 2, links, strict=True):
            expected = predictors["link"].predict(**query)
            assert_same(found, expected)
            # Ranks and scores do not depend on who else asks, bit for bit.
            assert isinstance(found, Links)
            torch.testing.assert_close(found.scores, expected.scores, rtol=0, atol=0)
        for text, found in zip(texts, read, strict=True):
            assert_same(found, predictors["text"].predict(text))


def test_explanations_of_triples_and_texts_are_those_of_the_bundle(
    client: quatgraph.Client, predictors: dict[str, Any]
) -> None:
    query = {"head": "person 1", "relation": "knows", "top": 2}
    assert_same(client["link"].explain(**query), predictors["link"].predict(**query, explain=True))
    text = "a charming film"
    assert_same(client["text"].explain(text), predictors["text"].predict(text, explain=True))


def test_nodes_and_graphs_are_explained_too(client: quatgraph.Client) -> None:
    nodes: Any = client["node"].explain(nodes=["n3"])
    assert isinstance(nodes, ExplainedNodes)
    assert nodes.support is not None
    assert set(nodes.support[0]) == {"n1", "n5"}
    graphs: Any = client["graph"].explain(GRAPHS)
    assert isinstance(graphs, GraphPredictions)
    assert graphs.node_names is not None
    assert set(next(graphs.rows())["support"]) == set(graphs.node_names[0])


def test_names_and_models_are_listed(client: quatgraph.Client) -> None:
    assert {one["name"]: one["task"] for one in client.models()} == {
        task: task for task in ("node", "graph", "link", "text")
    }
    assert client["link"].search("city", limit=2) == [
        {"id": name, "label": name, "name": name} for name in ("city 0", "city 1")
    ]
    assert client["link"].search("know", kind="relations")[0]["id"] == "knows"


@pytest.mark.parametrize(
    ("task", "data", "options", "sentence"),
    [
        ("", (), {}, "choose a model of the service, as client[name]; it has node, graph, link"),
        ("lnk", (), {}, "the service has no model 'lnk'; did you mean 'link'?"),
        ("link", (), {"heads": "x"}, "unknown option 'heads'; did you mean 'head'?"),
        ("link", (), {"head": "person 99", "relation": "knows"}, "'person 99'"),
        ("link", (), {"top": 0}, "top: input should be greater than or equal to 1"),
        ("link", ("queries.tsv",), {}, "a service reads no files: pass what is in it"),
        ("text", (Path("x.txt"),), {}, "a service reads no files: pass what is in it"),
        ("node", ("folder",), {}, "a service classifies the nodes of its training graph"),
        ("node", (), {"nodes": ["n99"]}, "there is no node 'n99' in the graph; did you mean"),
        ("graph", ([{"edges": {1}}],), {}, "the query cannot be sent as JSON: "),
        ("graph", ([{"edges": [], "node_features": [[float("nan")]]}],), {}, "sent as JSON"),
    ],
)
def test_a_mistake_is_the_sentence_of_the_service(
    client: quatgraph.Client,
    task: str,
    data: tuple[Any, ...],
    options: dict[str, Any],
    sentence: str,
) -> None:
    with pytest.raises(quatgraph.UserError) as caught:
        (client[task] if task else client).predict(*data, **options)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_token_is_sent_and_never_shown(bundles: dict[str, Path]) -> None:
    with service([bundles["link"]], token="secret") as served:
        url = str(served.base_url)
        with pytest.raises(quatgraph.UserError, match="a token is needed: send the header"):
            quatgraph.Client(url).models()
        client = quatgraph.Client(url, token="secret")
        assert "secret" not in repr(client["link"])
        assert client.predict(head="person 1", relation="knows").notes == []  # the only model


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "file:///etc/passwd", "http://", "http://[::1"]
)
def test_an_address_is_checked(url: str) -> None:
    with pytest.raises(quatgraph.UserError, match="is not the address of a service, such as http"):
        quatgraph.Client(url)


def test_a_server_that_does_not_answer_is_one_sentence() -> None:
    with pytest.raises(quatgraph.UserError) as caught:
        quatgraph.Client("http://127.0.0.1:9").models()
    assert str(caught.value).startswith("http://127.0.0.1:9 does not answer (")
    assert str(caught.value).endswith("): start it with quatgraph serve")


class Other(BaseHTTPRequestHandler):
    """Another kind of server, which also redirects."""

    seen: list[str | None] = []
    reply = b""

    def do_GET(self) -> None:
        Other.seen.append(self.headers["Authorization"])
        self.send_response(302 if self.path.startswith("/moved") else 200)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(self.reply)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("path", "status", "reply"),
    [
        ("", 200, b"<html>"),
        ("", 200, b'{"status": "ok"}'),
        ("", 200, b'{"models": ["llama"]}'),
        ("", 200, b"[" * 100_000),
        ("/moved", 302, b""),
    ],
    ids=["page", "JSON", "other models", "deep JSON", "moved"],
)
def test_another_server_is_recognised_and_redirections_are_not_followed(
    path: str, status: int, reply: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Other, "reply", reply)
    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}{path}"
        Other.seen.clear()
        try:
            with pytest.raises(quatgraph.UserError, match=rf"not a quatgraph .*status {status}"):
                quatgraph.Client(url, token="secret").models()
        finally:
            server.shutdown()
            thread.join()
    assert Other.seen == ["Bearer secret"]
