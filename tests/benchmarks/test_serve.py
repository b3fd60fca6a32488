"""The benchmark of the service, for a moment."""

from pathlib import Path

import pytest
import torch
from services import service

import quatgraph
from benchmarks import serve
from quatgraph import LinkPredictor


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("benchmark") / "large"
    serve.save_untrained(folder, serve.made_up(100, 400), 4)
    return folder


def test_an_untrained_bundle_answers_the_queries_of_its_graph(bundle: Path) -> None:
    model = quatgraph.load(bundle, device="cpu")
    assert isinstance(model, LinkPredictor)
    for query in serve.queries_of(model.triples)[:3]:
        assert len(model.predict(**query).known) == 10


def test_clients_count_answers_and_errors(bundle: Path) -> None:
    bodies = serve.queries_of(serve.made_up(100, 400))
    with service([bundle]) as client:
        port = client.base_url.port
        assert port is not None
        found = serve.load(port, "/api/models/large/predict", bodies, 0.3)
        assert found["per_second"] > 10
        assert found["errors"] == 0
        assert 0 < found["p50"] <= found["p99"] <= found["worst"]
        wrong = serve.load(port, "/api/models/large/predict", [{}], 0.1)
        assert wrong["errors"] > 0


def test_searches_among_many_names_are_timed() -> None:
    rows = list(serve.measure_search(torch.device("cpu"), 1000))
    assert [row["work"] for row in rows][:2] == ["prepare", "a first letter"]
    assert all(row["ms"] < 50 for row in rows[1:])


@pytest.mark.slow
def test_every_variant_is_measured(bundle: Path) -> None:
    rows = list(serve.measure_load("large", bundle, serve.made_up(100, 400), 0.5))
    assert [row["variant"] for row in rows] == ["quatgraph serve", "pool", "bare"]
    assert [row["errors"] for row in rows] == [0, 0, 0]
