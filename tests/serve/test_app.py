"""The routes, beyond the answers of the models."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from httpx import Client
from services import ask, refused, service

from quatgraph.serve.answers import node


def test_the_description_has_every_route_and_the_body_of_each_task(client: Client) -> None:
    found = ask(client, "/openapi.json")
    assert {"/api/models/{name}/predict", "/api/models/{name}/explain", "/healthz"} <= set(
        found["paths"]
    )
    schemas = found["components"]["schemas"]
    assert set(schemas["LinkRequest"]["properties"]) >= {"head", "relation", "tail", "queries"}
    assert "tail_rank" in schemas["LinkAnswer"]["properties"]
    body = found["paths"]["/api/models/{name}/predict"]["post"]["requestBody"]
    each = body["content"]["application/json"]["schema"]["oneOf"]
    named = {one["$ref"].rpartition("/")[2] for one in each}
    assert named == {"NodeRequest", "GraphRequest", "LinkRequest", "TextRequest"} <= schemas.keys()


def test_what_is_not_there_is_a_sentence(client: Client) -> None:
    assert refused(client, "/nowhere") == (404, "there is no /nowhere; /docs lists what there is")
    assert refused(client, "/api/models/lnk")[0] == 404
    reply = client.delete("/api/models")
    assert (reply.status_code, reply.json()) == (
        405,
        {"error": "DELETE is not for this path; /docs lists what is"},
    )
    assert refused(client, "/api/models/link/predict") == (
        405,
        "GET is not for this path; /docs lists what is",
    )


def test_a_head_request_has_the_headers_of_a_get(client: Client) -> None:
    for path in ("/", "/healthz", "/api/models/link"):
        head, get = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == get.headers["content-type"]
    assert client.head("/api/models/link/predict").status_code == 405


@pytest.mark.parametrize(
    "path", ["/../pyproject.toml", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/page/../app.py"]
)
def test_no_path_reaches_the_file_system(client: Client, path: str) -> None:
    reply = client.get(path)
    assert (reply.status_code, list(reply.json())) == (404, ["error"])


def test_a_body_must_be_declared_as_json(client: Client) -> None:
    reply = client.post("/api/models/link/predict", content=b"{}")
    assert reply.status_code == 415
    reply = client.post("/api/models/link/predict", content=b"x" * (1 << 20) + b"y")
    assert reply.status_code == 413


def test_metrics_count_requests_and_batches(bundles: dict[str, Path]) -> None:
    with service([bundles["link"]]) as client:
        body = ask(client, "/api/models/link")["example"]
        for _ in range(3):
            ask(client, "/api/models/link/predict", body)
        refused(client, "/api/models/link/predict", {})
        lines = client.get("/metrics").text.splitlines()
        route = 'route="/api/models/{name}/predict"'
        assert f'quatgraph_requests_total{{{route},status="200"}} 3' in lines
        assert f'quatgraph_requests_total{{{route},status="422"}} 1' in lines
        assert f"quatgraph_request_seconds_count{{{route}}} 4" in lines
        assert 'quatgraph_model_ready{model="link"} 1' in lines
        assert any(line.startswith("quatgraph_batches_total ") for line in lines)


def test_an_error_of_ours_is_no_stack_trace(
    bundles: dict[str, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with service([bundles["node"]]) as client:
        monkeypatch.setattr(node, "reply_of", lambda _: 1 / 0)
        assert refused(client, "/api/models/node/predict", {"nodes": ["n1"]}) == (
            500,
            "the service failed; its log says why",
        )
        monkeypatch.undo()
        assert ask(client, "/api/models/node/predict", {"nodes": ["n1"]})["answers"]
    assert "ZeroDivisionError" in caplog.text


def test_requests_that_wait_become_one_batch(
    bundles: dict[str, Path], slow_down: Callable[[float], None]
) -> None:
    with service([bundles["link"]]) as client:
        body = ask(client, "/api/models/link")["example"]
        slow_down(0.2)
        with ThreadPoolExecutor(12) as pool:
            replies = list(
                pool.map(lambda _: ask(client, "/api/models/link/predict", body), range(12))
            )
        assert all(reply == replies[0] for reply in replies)
        text = client.get("/metrics").text
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    # One for the card; then the first alone, and those that came meanwhile together.
    assert int(counts["quatgraph_batches_total"]) <= 5
    assert int(counts["quatgraph_batched_requests_total"]) == 13


def test_items_are_filtered_paged_and_exported(client: Client) -> None:
    found = ask(client, "/api/models/node/items?limit=2&offset=1")
    assert (found["total"], [one["id"] for one in found["items"]]) == (24, ["n1", "n2"])
    assert ask(client, "/api/models/node/items?q=N1&limit=1000")["total"] == 11
    labelled = ask(client, "/api/models/node/items?label=a&limit=1000")
    assert {one["label"] for one in labelled["items"]} == {"a"}
    assert ask(client, "/api/models/node/items?offset=99999999999999999999")["items"] == []
    reply = client.get("/api/models/node/items?format=csv&label=a")
    assert reply.headers["content-disposition"] == 'attachment; filename="nodes.csv"'
    assert len(reply.text.splitlines()) == 1 + labelled["total"]
    assert refused(client, "/api/models/link/items")[0] == 422


def test_drawings_have_edges_among_their_nodes(client: Client) -> None:
    for task, name in (("link", "person 1"), ("node", "n3"), ("graph", "ring-0")):
        found = ask(client, f"/api/models/{task}/graph?of={name}&hops=2&limit=9")
        ids = {one["id"] for one in found["nodes"]}
        assert {one[end] for one in found["edges"] for end in ("source", "target")} <= ids
    splits = ask(client, "/api/models/link/graph?of=person 0&hops=2&limit=200")["edges"]
    assert {one["split"] for one in splits} == {"train", "valid", "test"}
    lives = [one for one in splits if (one["source"], one["relation"]) == ("person 0", "lives in")]
    assert [one["split"] for one in lives] == ["valid"]
    assert refused(client, "/api/models/text/graph?of=1") == (422, "a text has no graph to draw")


def test_a_molecule_is_drawn_by_models_of_graphs(client: Client) -> None:
    drawn = ask(client, "/api/models/graph/graph?smiles=CC%3DO")
    assert [node["label"] for node in drawn["nodes"]] == ["C", "C", "O"]
    assert [(edge["source"], edge["target"]) for edge in drawn["edges"]] == [("0", "1"), ("1", "2")]
    status, sentence = refused(client, "/api/models/graph/graph?smiles=C1C")
    assert status == 422
    assert "C1C" in sentence
    assert refused(client, "/api/models/node/graph?smiles=CCO") == (
        422,
        "a model of the task 'node' draws no molecules",
    )
