"""Two checkouts are timed by turns; here the same one twice."""

from pathlib import Path

import pytest

from benchmarks import compare, conv, steps

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_compares_trainings_and_layers_of_two_checkouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "CASES", {"cpu": [("node/karate-qgnn", 1, 2)]})
    monkeypatch.setattr(conv, "SIZES", {"cpu": [(20, 40, 8)]})
    found = list(compare.rows(ROOT, "cpu", rounds=2))
    assert [row["case"] for row in found] == ["node/karate-qgnn"] + 5 * [
        "20 nodes, 40 edges, 8 wide"
    ]
    assert {row["variant"] for row in found} >= {"an epoch", "QGNNConv", "GCNConv"}
    for row in found:
        assert row["ms"] > 0
        assert row["base_ms"] > 0
        assert row["ratio_20"] <= row["ratio"] <= row["ratio_80"]
