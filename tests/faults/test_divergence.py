"""Runs that diverge: reported with their cause, never selected, never in a bundle."""

import csv
import dataclasses
import math
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from commands import assert_user_error, call
from karate import CPU
from on_cpu import changed, train_in_folder

from quatgraph.errors import UserError
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.link import LINK
from quatgraph.tasks.node import NODE
from quatgraph.tasks.selection import (
    DIVERGED,
    SELECTION_SCORE,
    select_group,
    selection_score,
)
from quatgraph.training.bundle import load_bundle
from quatgraph.training.divergence import find_divergence
from quatgraph.training.loop import Fit
from quatgraph.training.record import read_records


def write_graph(folder: Path, *, x: str = "1.5", weight: str = "1") -> Path:
    """A ring of 40 nodes; the feature x of every fifth, and the weight of an edge, are given."""
    folder.mkdir()
    with (folder / "nodes.csv").open("w", newline="") as file:
        rows = ([f"n{k}", "ab"[k % 2], x if k % 5 == 3 else k % 2 + 0.1, k] for k in range(40))
        csv.writer(file).writerows([["id", "label", "x", "y"], *rows])
    with (folder / "edges.csv").open("w", newline="") as file:
        rows = ([f"n{k}", f"n{(k + 2) % 40}", weight if k == 3 else 1] for k in range(40))
        csv.writer(file).writerows(rows)
    return folder


def write_triples(path: Path) -> Path:
    people = [(f"p{k}", "knows", f"p{(k * 7 + 1) % 30}") for k in range(30)]
    homes = [(f"p{k}", "lives in", f"c{k % 5}") for k in range(30)]
    path.write_text("".join("\t".join(row) + "\n" for row in people + homes))
    return path


def data_of(place: Path) -> dict[str, Path]:
    """Small data of each task."""
    return {
        "node": write_graph(place / "graph"),
        "graph": rings.written(place / "rings.jsonl", rings.lines()),
        "text": reviews.written(place / "reviews.csv"),
        "link": write_triples(place / "triples.tsv"),
    }


def options_of(task: str, lr: str) -> list[str]:
    """Small settings with a learning rate."""
    if task == "text":
        return reviews.options(**{"train.lr": lr})
    small = rings.options("train.lr") if task == "graph" else ["--set", "train.epochs=4"]
    return [*small, "--set", f"train.lr={lr}"]


@pytest.mark.parametrize("lr", ["1e6", "1e30"])
@pytest.mark.parametrize("task", ["node", "graph", "text", "link"])
def test_a_training_that_diverges_is_told_and_leaves_nothing(
    task: str, lr: str, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    words = ["train", task, "--data", str(data_of(tmp_path)[task]), "--out", str(model)]
    result = call(*words, *options_of(task, lr), "--device", "cpu")
    assert_user_error(
        result, "every run diverged: lower train.lr; the ", f"(train.lr={float(lr):g}", notes=True
    )
    assert not model.exists()
    again = call(*words, *options_of(task, "0.01"), "--device", "cpu")
    assert again.exit_code == 0, again.stderr
    assert "diverged" not in again.stderr


@pytest.mark.parametrize(
    ("graph", "setting", "named"),
    [
        ({"x": "1e15"}, "data.scaling=none", "node 'n3' has 1e+15 in the feature 'x'"),
        ({"weight": "1e30"}, "model.normalization=none", "an edge of node 'n"),
    ],
)
def test_data_that_overflows_is_named_instead_of_the_learning_rate(
    graph: dict[str, str], setting: str, named: str, tmp_path: Path
) -> None:
    data = write_graph(tmp_path / "graph", **graph)
    words = ["--set", setting, "--set", "train.epochs=4", "--out", str(tmp_path / "m"), "--fast"]
    result = call("train", "node", "--data", str(data), *words, "--device", "cpu")
    assert_user_error(
        result, f"every run diverged, because {named}", "correct it or scale it down", notes=True
    )
    assert "train.lr" not in result.stderr
    assert not (tmp_path / "m").exists()


def test_word_vectors_that_overflow_are_named(tmp_path: Path) -> None:
    vectors = reviews.vector_file(tmp_path / "vectors.txt")
    lines = vectors.read_text().replace("film ", "film 3e16 ").splitlines()
    vectors.write_text("\n".join(" ".join(line.split()[:9]) for line in lines) + "\n")
    texts = str(reviews.written(tmp_path / "reviews.csv"))
    words = ["train", "text", "--data", texts, "--vectors", str(vectors), *reviews.options()]
    result = call(*words, "--out", str(tmp_path / "m"), "--device", "cpu")
    assert_user_error(
        result,
        "every run diverged, because the vector of the word 'film' has 3e+16 in col",
        notes=True,
    )


def test_runs_that_diverge_are_told_and_the_others_are_chosen_from(tmp_path: Path) -> None:
    result: list[str] = []
    candidates = [karate.config_of(seeds=2, **{"train.lr": lr}) for lr in (1e20, 0.05)]
    job = train_in_folder(NODE, candidates, tmp_path, log=result.append)
    assert len(result) == 1
    assert result[0].startswith("2 of 4 runs diverged and are left out: train.lr=1e+20, split 0, ")
    assert job.notes == result
    assert job.chosen.config["train"]["lr"] == 0.05
    assert [run.config["train"]["lr"] for run in job.healthy] == [0.05, 0.05]
    assert len(job.records) == 4
    # As read back, where a number that is not finite is NaN.
    again = read_records(tmp_path / "records.jsonl")
    assert [selection_score(run.metrics) == DIVERGED for run in again] == [True, True, False, False]


def poisoned(task: Any, member: int) -> Any:
    """The task, of whose runs one comes out with a weight that is NaN."""

    def train(*arguments: Any) -> Fit:
        fitted = task.train(*arguments)
        for value in fitted.weights.values():
            value.view(len(value), -1)[member, :1] = math.nan
        return fitted

    return changed(task, train=train)


def test_a_diverged_fold_is_not_in_a_bundle_of_folds(tmp_path: Path) -> None:
    graphs = rings.collection(tmp_path)
    result: list[str] = []
    job = train_in_folder(
        poisoned(GRAPH, 1),
        [rings.config_of()],
        tmp_path / "m",
        device=CPU,
        data=graphs,
        log=result.append,
    )
    bundle = load_bundle(tmp_path / "m")
    assert [member["split"] for member in bundle.card["members"]] == [0, 2]
    assert all(bool(value.isfinite().all()) for value in bundle.tensors.values())
    assert job.num_bundled == 2
    assert result[0].startswith("1 of 3 runs diverged and is left out: train.lr=0.02, split 1, ")


def test_a_model_of_triples_with_weights_that_are_not_finite_has_diverged(tmp_path: Path) -> None:
    # Its ranks are numbers like others.
    with pytest.raises(UserError, match=r"lower train\.lr; the weights are not finite numbers"):
        train_in_folder(
            poisoned(LINK, 0),
            [cities.config_of()],
            tmp_path / "m",
            device=CPU,
            data=cities.cities(),
        )
    assert not (tmp_path / "m").exists()


def test_without_validation_data_a_diverged_run_is_noticed_too(tmp_path: Path) -> None:
    def blind(*arguments: Any) -> Fit:
        fitted = poisoned(NODE, 0).train(*arguments)
        return dataclasses.replace(
            fitted, metrics={"test/accuracy": fitted.metrics["test/accuracy"]}
        )

    task = changed(NODE, train=blind)
    job = train_in_folder(task, [karate.config_of(seeds=2)], tmp_path)
    assert job.chosen.seed == 1
    assert job.records[0].metrics[SELECTION_SCORE] == DIVERGED[0]


def test_a_training_with_a_diverged_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    candidates = [karate.config_of(**{"train.lr": lr}) for lr in (1e20, 0.05)]
    job = train_in_folder(NODE, candidates, tmp_path)
    again = train_in_folder(NODE, candidates, tmp_path, resume=True)
    assert again.chosen == job.chosen
    assert select_group(again.records).best == job.chosen


HEALTHY: dict[str, Any] = {"weights": [0.5, -3.0], "loss": 0.7, "metrics": {"valid/loss": 0.7}}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ""),
        ({"weights": [math.nan, 1.0]}, "the weights are not finite numbers"),
        ({"weights": [1.0, -math.inf]}, "the weights are not finite numbers"),
        ({"weights": [1.0, -2e6]}, "the weights reached 2e+06"),
        ({"loss": math.nan}, "the training loss is nan"),
        ({"loss": 3e7}, "the training loss is 3e+07"),
        ({"metrics": {"valid/loss": math.inf}}, "the validation loss is inf"),
        ({"metrics": {"valid/loss": 1e9}}, "the validation loss is 1e+09"),
        ({"metrics": {"test/loss": 1e9}}, ""),
        ({"metrics": {"test/loss": math.nan, "test/accuracy": 0.5}}, ""),
        ({"metrics": {"valid/loss": math.nan, "valid/accuracy": math.nan}}, ""),
    ],
)
def test_what_counts_as_divergence(changes: dict[str, Any], found: str) -> None:
    given = HEALTHY | changes
    fit = Fit(
        best_epoch=torch.ones(2),
        metrics={name: torch.tensor([0.5, value]) for name, value in given["metrics"].items()},
        curves={},
        curve_epochs=[1],
        weights={
            "weight": torch.tensor([[1.0, 1.0], given["weights"]]),
            "norm.running_var": torch.full((2, 3), 1e9),
            "pairs": torch.full((2, 3), 10**12),  # integers are not weights
        },
        loss=torch.tensor([0.5, given["loss"]]),
        seconds=0.0,
        epochs_run=1,
        device=CPU,
    )
    assert find_divergence(fit) == ["", found]
