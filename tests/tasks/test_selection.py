"""Selection on validation data: the scores of runs and epochs, and the group of a bundle."""

import math

import pytest
import torch
from made_up import made_up

from quatgraph.tasks.selection import (
    DIVERGED,
    drop_diverged,
    mark_diverged,
    score_epoch,
    score_run,
    select_group,
    selection_metric,
    selection_score,
)
from quatgraph.training.record import RunRecord


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({"valid/accuracy": 0.7, "valid/loss": 2.0, "test/accuracy": 0.1}, (0.7, -2.0)),
        ({"valid/accuracy": 0.7, "valid/loss": math.nan}, DIVERGED),
        ({"valid/accuracy": 0.7, "valid/loss": math.inf}, DIVERGED),
        ({"valid/accuracy": 0.7}, (0.7, 0.0)),
        ({"valid/mrr": 0.3, "valid/merit": 0.4}, (0.4, 0.0)),
        ({"valid/accuracy": 0.7, "valid/merit": 0.4}, (0.7, 0.0)),
        # Without validation data.
        ({"test/accuracy": 0.9}, (0.0, 0.0)),
        ({"valid/merit": math.nan}, (0.0, 0.0)),
        ({"valid/accuracy": math.nan, "valid/loss": math.nan, "test/loss": 3.0}, (0.0, 0.0)),
        ({"valid/accuracy": math.nan, "valid/loss": math.nan, "test/loss": math.nan}, DIVERGED),
    ],
)
def test_the_score_of_a_run(metrics: dict[str, float], found: tuple[float, float]) -> None:
    assert selection_score(metrics) == found
    assert found == DIVERGED or found > DIVERGED


def test_an_epoch_is_scored_by_accuracy_and_then_by_loss() -> None:
    accuracy = torch.tensor([0.5, 0.5, 0.5, 0.501])
    loss = torch.tensor([2.0, 1.0, 1.0 - 6e-8, 100.0])
    scores = score_epoch(accuracy, loss).tolist()
    assert scores == sorted(scores)
    assert len(set(scores)) == 4


def run(accuracy: float, digest: str, ensemble: str = "e") -> RunRecord:
    metrics = {"valid/accuracy": accuracy, "valid/loss": 1.0}
    return made_up("node", "cora", "qgnn", metrics=metrics, config_digest=digest, ensemble=ensemble)


def test_the_group_with_the_best_mean_is_selected_not_the_one_with_the_best_run() -> None:
    lucky, steady = [run(0.9, "a"), run(0.2, "a")], [run(0.7, "b"), run(0.6, "b")]
    group = select_group(lucky + steady)
    assert group.runs == steady
    assert group.best == steady[0]
    assert group.score == (pytest.approx(0.65), -1.0)
    # The runs of a configuration may be in several ensembles.
    apart = run(0.9, "a", ensemble="f")
    assert select_group([*lucky, *steady, apart]).runs == [*lucky, apart]


def test_a_diverged_run_is_marked_dropped_and_lowers_its_group() -> None:
    runs = [run(0.9, "a"), mark_diverged(run(0.9, "a"))]
    assert selection_score(runs[1].metrics) == DIVERGED
    assert drop_diverged(runs) == select_group(runs).healthy == runs[:1]
    assert select_group([*runs, run(0.1, "b")]).best.config_digest == "b"


@pytest.mark.parametrize(
    ("metrics", "found"),
    [
        ({"valid/accuracy": 0.7, "valid/roc-auc": 0.9, "valid/loss": 2.0}, (0.9, -2.0)),
        # Undefined: the loss decides.
        ({"valid/accuracy": 0.7, "valid/roc-auc": math.nan, "valid/loss": 2.0}, (0.0, -2.0)),
        ({"valid/accuracy": 0.7, "valid/loss": 2.0}, (0.0, -2.0)),
        ({"valid/accuracy": 0.7, "valid/roc-auc": 0.9, "valid/loss": math.nan}, DIVERGED),
        # Without validation data.
        ({"valid/accuracy": math.nan, "valid/roc-auc": math.nan, "test/loss": 3.0}, (0.0, 0.0)),
    ],
)
def test_the_score_of_a_run_by_another_metric(
    metrics: dict[str, float], found: tuple[float, float]
) -> None:
    assert selection_score(metrics, "roc-auc") == found


def test_a_run_is_scored_by_the_metric_of_its_configuration() -> None:
    metrics = {"valid/accuracy": 0.7, "valid/roc-auc": 0.9, "valid/loss": 2.0}
    for config, found in (({}, 0.7), ({"train": {"metric": "roc-auc"}}, 0.9)):
        record = made_up("node", "cora", "qgnn", metrics=metrics, config=config)
        assert score_run(record) == (found, -2.0)
    assert selection_metric({"train": {"monitor": "hits@3"}}) == "hits@3"


def test_an_undefined_metric_leaves_the_epoch_to_the_loss() -> None:
    undefined = torch.tensor([math.nan, math.nan])
    assert score_epoch(undefined, torch.tensor([2.0, 1.0])).argmax() == 1
    assert score_epoch(undefined, undefined).isnan().all()
