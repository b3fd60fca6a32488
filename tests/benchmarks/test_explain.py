"""The benchmark of explanations: its controls, and what its record shows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import explain
from benchmarks.render import render_explain

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"


@pytest.mark.slow
def test_a_row_compares_supporting_triples_with_a_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "QUERIES", 10)
    monkeypatch.setattr(explain, "SEEDS", 1)
    options, train = explain.MODELS["ComplEx"]
    monkeypatch.setattr(explain, "MODELS", {"ComplEx": (options, replace(train, epochs=15))})
    rows = list(explain.rows(torch.device("cpu"), ["countries"]))
    assert [row["variant"] for row in rows] == [explain.NEAR, explain.SAME_END]
    for row in rows:
        assert row["difference"] == pytest.approx(row["drop"] - row["drop_control"], abs=2e-3)
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["mrr_low"] <= row["mrr_control"] - row["mrr_removed"] <= row["mrr_high"]


def test_a_control_shares_the_same_ends_and_is_not_what_was_named() -> None:
    triple, named = torch.tensor([0, 0, 9]), torch.tensor([[0, 1, 5], [6, 1, 9], [0, 2, 7]])
    near = torch.cat((named, torch.tensor([[0, 1, 8], [8, 3, 0], [0, 3, 4], [5, 0, 9], [9, 0, 0]])))
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        found = explain._draw_alike(triple, named, near, generator).tolist()
        assert [5, 0, 9] in found
        assert sum(9 not in row for row in found) == 2
        assert not any(row in named.tolist() for row in found)


def test_supporting_triples_matter_more_than_all_controls_on_record() -> None:
    rows = [json.loads(line) for line in (RECORDS / "explain.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * len(explain.DATASETS) * len(explain.MODELS)
    for row in rows:
        if row["case"] == "nations, SimQGNN":  # learns nothing: all its entities are alike
            assert row["drop"] == row["drop_control"] == 0
            continue
        assert row["low"] > 0
        assert row["mrr_low"] > 0
        assert row["mrr_removed"] < min(row["mrr_control"], row["mrr"])
    assert render_explain(RECORDS).count("\n") == 1 + len(rows)
