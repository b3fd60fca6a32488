"""The metric of a classifier selects its epoch and its configuration, and is on record."""

from pathlib import Path
from typing import Any

import karate
import pytest
import reviews
import rings
import torch
from on_cpu import run, train_in_folder

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.predictors import load
from quatgraph.tasks import TASKS
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.selection import SELECTION_SCORE, score_epoch, score_run, select_group
from quatgraph.training.bundle import save_bundle

METRICS = ["macro-f1", "roc-auc", "average-precision"]


def three_kinds(folder: Path) -> dict[str, Any]:
    """Small settings of each task, with three classes for the metrics to average over."""
    graphs = [
        line | {"label": "other" if place % 5 == 0 else line["label"]}
        for place, line in enumerate(rings.lines(40))
    ]
    rows = [
        (text, "other" if place % 5 == 0 else label)
        for place, (text, label) in enumerate(reviews.REVIEWS)
    ]
    return {
        "node": (karate.config_of, {}),
        "graph": (
            rings.config_of,
            {"data.path": str(rings.written(folder / "rings.jsonl", graphs))},
        ),
        "text": (
            reviews.config_of,
            {"data.path": str(reviews.written(folder / "reviews.csv", rows))},
        ),
    }


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return three_kinds(tmp_path_factory.mktemp("kinds"))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_the_metric_is_on_record_and_selects_the_epoch(
    kinds: dict[str, Any], task: str, metric: str, tmp_path: Path
) -> None:
    config_of, values = kinds[task]
    config = config_of(**values, **{"train.metric": metric, "train.epochs": 4})
    data = TASKS[task].load(config)
    (outcome,) = run(TASKS[task], TASKS[task].members(config, data)[:2], data)
    curve, loss = (outcome.fit.curves[f"valid/{name}"] for name in (metric, "loss"))
    scores = score_epoch(curve, loss)  # (T, M)
    for index, record in enumerate(outcome.records):
        own = scores[:, index]
        assert float(own[record.best_epoch - 1]) == pytest.approx(float(own.max()), abs=1e-6)
        assert record.metrics[SELECTION_SCORE] == pytest.approx(float(own.max()), abs=1e-5)
        assert score_run(record)[0] == record.metrics[f"valid/{metric}"]
    save_bundle(tmp_path / "model", bundle_of(TASKS[task], [(outcome, 0, 1)], data))
    predictor = load(tmp_path / "model", device="cpu")
    found, recorded = predictor.evaluate(), predictor.card["metrics"]
    for part in ("valid", "test"):
        name = f"{part}/{metric}"
        assert found[name] == pytest.approx(recorded[name], abs=1e-5)


@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_another_metric_changes_no_weight_of_the_last_epoch(
    kinds: dict[str, Any], task: str
) -> None:
    config_of, values = kinds[task]
    fits = []
    for metric in ("accuracy", "roc-auc"):
        config = config_of(**values, **{"train.metric": metric, "train.select": "last"})
        data = TASKS[task].load(config)
        (outcome,) = run(TASKS[task], TASKS[task].members(config, data)[:2], data)
        fits.append(outcome.fit)
    for name, weight in fits[0].weights.items():
        assert torch.equal(weight, fits[1].weights[name])
    for name, value in fits[0].metrics.items():
        if name != SELECTION_SCORE:
            torch.testing.assert_close(fits[1].metrics[name], value, equal_nan=True)


def test_runs_are_ranked_by_their_own_metric(kinds: dict[str, Any]) -> None:
    config_of, values = kinds["node"]
    candidates = [
        config_of(**values, **{"train.metric": "roc-auc", "train.lr": lr}) for lr in (0.05, 1e-6)
    ]
    data = TASKS["node"].load(candidates[0])
    (outcome,) = run(TASKS["node"], [TASKS["node"].members(c, data)[0] for c in candidates], data)
    best = select_group(outcome.records).best
    assert best.metrics["valid/roc-auc"] == max(r.metrics["valid/roc-auc"] for r in outcome.records)
    assert TASKS["node"].metrics_to_report(best.config) == ("roc-auc", "accuracy")


@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_the_defaults_leave_no_trace_in_the_identity(kinds: dict[str, Any], task: str) -> None:
    config_of, values = kinds[task]
    identity = config_of(**values).identity()
    assert not {"metric", "class_weights"} & identity["train"].keys()
    other = config_of(**values, **{"train.metric": "roc-auc", "train.class_weights": "balanced"})
    assert other.identity()["train"] == identity["train"] | {
        "metric": "roc-auc",
        "class_weights": "balanced",
    }


@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_a_metric_that_a_task_lacks_is_a_mistake(kinds: dict[str, Any], task: str) -> None:
    config_of, values = kinds[task]
    with pytest.raises(UserError, match=r"train\.metric must be one of 'accuracy', .*, got 'mrr'"):
        config_of(**values, **{"train.metric": "mrr"})


def test_triples_have_a_monitor_and_no_classes() -> None:
    for key, value in (("metric", "mrr"), ("class_weights", "balanced")):
        with pytest.raises(UserError, match=f"unknown key 'train.{key}'"):
            configs.build(LinkConfig, {"train": {key: value}})
    assert configs.build(LinkConfig, {"train": {"monitor": "hits@3"}}).train.monitor == "hits@3"


@pytest.mark.parametrize("task", ["node", "graph", "text"])
def test_a_weight_for_a_class_that_does_not_exist_is_a_mistake(
    kinds: dict[str, Any], task: str, tmp_path: Path
) -> None:
    config_of, values = kinds[task]
    config = config_of(**values, **{"train.class_weights": "othr:2"})
    with pytest.raises(UserError, match="names 'othr', which is not a class"):
        train_in_folder(TASKS[task], [config], tmp_path / "model")
