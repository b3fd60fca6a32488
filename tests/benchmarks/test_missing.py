"""The benchmark of missing triples: its measures, and what its record shows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import choose_datasets, explain, missing
from benchmarks.render import render_clean, render_missing
from quatgraph.data.link import load
from quatgraph.errors import UserError
from quatgraph.tasks.link.config import LinkConfig

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
CPU = torch.device("cpu")


def test_the_calibration_error_is_the_mean_gap_of_bins() -> None:
    generator = torch.Generator().manual_seed(0)
    stated = torch.rand(95, generator=generator).double().sort(descending=True).values
    true = (torch.rand(95, generator=generator).double() < stated).double()
    total, start = 0.0, 0
    for number in range(10):
        size = 10 if number < 5 else 9
        chunk = range(start, start + size)
        total += abs(sum(float(stated[i] - true[i]) for i in chunk))
        start += size
    assert missing.calibration_error(stated, true) == pytest.approx(total / 95)
    assert missing.calibration_error(true, true) == 0


@pytest.mark.slow
def test_test_triples_are_counted_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of CoDEx's kind of negatives beside them."""
    graph = load("countries")
    graph = replace(graph, test_negatives=graph.test[:, [2, 1, 0]], valid_negatives=graph.valid)
    options, train = explain.MODELS["ComplEx"]
    config = LinkConfig(model=options, train=replace(train, epochs=15, patience=None), seeds=1)
    monkeypatch.setattr(missing, "DRAWS", 10)
    (model,) = explain.train_models(graph, config, CPU)
    found = missing.measure(model, graph, CPU)
    assert found["random"] < 1e-5
    assert 100 * found["random"] < found["precision_1000"] <= found["precision_100"] < 1
    assert found["observed"][0] == found["precision_100"]
    assert len(found["stated"]) == len(found["observed"]) == 5
    assert found["auc"] > 0.5
    assert found["top_true"] == pytest.approx(1000 * found["precision_1000"])
    # Test triples of symmetric relations may be negatives of this kind too, turned around.
    assert 0 <= found["top_false"] < found["top_true"]


def test_an_unknown_dataset_is_a_mistake() -> None:
    assert choose_datasets(["umls"], explain.DATASETS) == ["umls"]
    with pytest.raises(UserError, match="no dataset 'uml'; did you mean 'umls'"):
        choose_datasets(["uml"], explain.DATASETS)


def test_probabilities_are_nearer_to_the_rates_on_record_than_before() -> None:
    lines = (RECORDS / "missing.jsonl").read_text().splitlines()
    rows = {(row["case"], row["variant"]): row for row in map(json.loads, lines)}
    cases = {case for case, _ in rows}
    assert cases == {f"{name}, {model}" for name in explain.DATASETS for model in explain.MODELS}
    for case in cases:
        now, before = rows[case, missing.VARIANT], rows[case, "rate, in sample"]
        assert now["error"] < before["error"]
        assert now["precision_100"] > 10 * now["random"]
    assert render_missing(RECORDS).count("\n") == 1 + len(rows)
    assert render_clean(RECORDS).count("\n") == 1 + len(explain.MODELS)
