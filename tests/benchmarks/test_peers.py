"""Trainings beside those of other libraries."""

import importlib.util

import pytest
import torch

from benchmarks import peers, peers_link
from benchmarks.made_up import LIKE_CORA, papers

CPU = torch.device("cpu")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"GRAPH": (70, 140, 28), "MODELS": 4, "EPOCHS": 3, "TRAINED": {"cpu": 2}}
    for name, value in small.items():
        monkeypatch.setattr(peers, name, value)


def test_an_ensemble_stands_beside_single_models(
    few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    rows = list(peers.rows(CPU))
    assert [(row["variant"], row["trained"]) for row in rows] == [
        ("quatgraph, one ensemble", 4),
        ("quatgraph, sequential (2 trained, times 2)", 2),
        ("PyG GCNConv, dense features, plain loop (2 trained, times 2)", 2),
    ]
    assert rows[0]["ratio"] == 1
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ms"] / rows[0]["ms"], abs=0.02, rel=0.02)
        assert 0 <= row["test_accuracy"] <= 1


@pytest.mark.parametrize(
    ("installed", "device", "found"),
    [("pykeen", "cpu", ["ours", "PyKEEN"]), ("", "cpu", ["ours"]), ("pykeen", "cuda", ["ours"])],
)
def test_pykeen_is_compared_on_a_cpu_where_it_is_installed(
    installed: str, device: str, found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "find_spec", lambda name: name == installed)
    monkeypatch.setattr(peers, "_ensemble", lambda device: iter([{"variant": "ours"}]))
    monkeypatch.setattr(peers_link, "rows", lambda: iter([{"variant": "PyKEEN"}]))
    assert [row["variant"] for row in peers.rows(torch.device(device))] == found


@pytest.mark.filterwarnings("ignore")  # what PyKEEN raises is its own
@pytest.mark.skipif(not importlib.util.find_spec("pykeen"), reason="PyKEEN is not installed")
def test_pykeen_ranks_the_same_vectors_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers_link, "SAME", (*peers_link.SAME, "data.name=countries"))
    *_, ours, theirs = peers_link.rows()
    assert (ours["variant"], theirs["variant"]) == ("quatgraph", "PyKEEN")
    assert ours["mrr"] == theirs["mrr"]


def test_made_up_papers_are_as_large_as_cora_and_tell_their_subject() -> None:
    data = papers(*LIKE_CORA)
    assert data.x.shape == (2_708, 1_433)
    assert data.edge_index.size(1) == pytest.approx(2 * 5_278, rel=0.01)
    alike = data.y[data.edge_index[0]] == data.y[data.edge_index[1]]
    assert 0.75 < alike.float().mean() < 0.9
    assert (data.x.sum(dim=1) - 1).abs().max() < 1e-5
