"""The default portfolio: its configurations, and bundles of combined runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from on_cpu import train_in_folder

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.presets import preset, protocols
from quatgraph.tasks import TASKS
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.portfolio import RUNS, default_candidates
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

CPU = torch.device("cpu")


@pytest.mark.parametrize("task", TASKS)
def test_every_entry_of_a_portfolio_holds_settings_that_its_model_reads(task: str) -> None:
    config = TASKS[task].config
    for entry in protocols(task)["portfolio"]:
        known = configs.to_dict(configs.build(config, {"model": {"name": entry["model.name"]}}))
        assert set(configs.grid_keys(entry)) - {"fast"} <= configs.flatten(known).keys()


@pytest.mark.parametrize("task", TASKS)
def test_a_portfolio_has_several_models_and_no_configuration_twice(task: str) -> None:
    candidates = default_candidates(TASKS[task])
    assert len({configs.digest(c.identity()) for c in candidates}) == len(candidates)
    names = [c.model.name for c in candidates]
    assert len(set(names)) > 1
    assert list(dict.fromkeys(names)) == list(
        dict.fromkeys(entry["model.name"] for entry in protocols(task)["portfolio"])
    )
    fast = default_candidates(TASKS[task], fast=True)
    assert 0 < len(fast) < len(candidates)
    assert all(config in candidates for config in fast)


def test_on_ones_own_graph_the_loss_breaks_ties_and_presets_stay_what_they_were() -> None:
    candidates = [*default_candidates(NODE), *default_candidates(NODE, only=["gat"])]
    assert {config.train.ties for config in candidates} == {"loss"}
    given = default_candidates(NODE, {"train": {"ties": "first"}})
    assert {config.train.ties for config in given} == {"first"}
    assert "ties" not in configs.build(NodeConfig, preset("node/cora-qgnn")).identity()["train"]


def test_a_setting_that_is_given_is_not_varied() -> None:
    candidates = default_candidates(NODE, {"train": {"lr": 0.05}})
    assert {config.train.lr for config in candidates} == {0.05}
    assert len({config.train.weight_decay for config in candidates}) > 1


def test_models_that_do_not_read_a_setting_are_left_out() -> None:
    names = {c.model.name for c in default_candidates(NODE, {"model": {"skip": False}})}
    assert "qgnn" in names
    assert "mlp" not in names


def test_a_setting_that_no_model_reads_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown key 'model\.skipp'; did you mean 'model\.skip'"):
        default_candidates(NODE, {"model": {"skipp": False}})


def test_only_some_models_are_tried() -> None:
    assert {c.model.name for c in default_candidates(NODE, only=["gcn"])} == {"gcn"}
    named = default_candidates(NODE, {"model": {"name": "gcn"}})
    assert named == default_candidates(NODE, only=["gcn"])
    with pytest.raises(UserError, match="the task node has no model 'gnc'; did you mean 'gcn'"):
        default_candidates(NODE, only=["gnc"])


def test_a_model_outside_the_portfolio_is_tried_with_the_grid_of_its_task() -> None:
    candidates = default_candidates(GRAPH, only=["sage"])
    assert {config.model.name for config in candidates} == {"sage"}
    assert len(candidates) == 4


def node(folder: Path) -> tuple[list[Any], Any]:
    made = [
        *(karate.config_of(**{"train.lr": lr}) for lr in (0.01, 0.1)),
        karate.config_of(**{"model.hidden_quats": 3}),
    ]
    return made, NODE.load(NodeConfig(data=DataConfig(name="karate")))


def graph(folder: Path) -> tuple[list[Any], Any]:
    made = [rings.config_of(**{"model.hidden_quats": size}) for size in (1, 2)]
    return made, rings.collection(folder)


def link(folder: Path) -> tuple[list[Any], Any]:
    return [cities.config_of(**{"model.dim_quats": size}) for size in (1, 2, 3)], cities.cities()


def text(folder: Path) -> tuple[list[Any], Any]:
    made = [reviews.config_of(**{"model.hidden_quats": size}) for size in (1, 2)]
    return made, corpus_of(from_list(reviews.TEXTS, reviews.LABELS), made[0])


MAKERS: dict[str, Callable[[Path], tuple[list[Any], Any]]] = {
    maker.__name__: maker for maker in (node, graph, link, text)
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_combination_is_evaluated_as_it_was_selected(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    candidates, data = MAKERS[name](tmp_path)
    job = train_in_folder(task, candidates, tmp_path / "model", data=data, combine=True)
    assert {path.name for path in job.folder.iterdir()} == {
        *("records.jsonl", "card.json", "model.safetensors")
    }
    assert sum(job.shares.values()) == pytest.approx(1.0)
    groups = {(record.split, record.seed) for record in job.records}
    assert [(each["split"], each["seed"]) for each in job.selection] == sorted(groups)
    metric = task.reported_metrics[0]
    for each in job.selection:  # on validation data, a combination is never worse
        assert each["combination"][f"valid/{metric}"] >= each["single"][f"valid/{metric}"]
    bundle = load_bundle(job.folder)
    predictor = PREDICTORS[name](bundle, CPU)
    if name == "link":
        measured = predictor.evaluate()
    else:
        assert bundle.card["temperature"] > 0
        measured = predictor.evaluate(data.documents if name == "text" else data)
    assert measured.keys() == job.metrics.keys()
    for key, value in measured.items():
        assert value == pytest.approx(job.metrics[key], abs=1e-5), key


def test_a_combination_out_of_time_is_made_of_what_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidates, data = node(tmp_path)
    whole = train_in_folder(NODE, candidates, tmp_path / "whole", data=data, combine=True)
    deadline, folder = Deadline(None), tmp_path / "model"

    def stop_in_the_second(title: str, done: int, total: int) -> None:
        if "2 of 2" in title:
            monkeypatch.setattr(Deadline, "passed", lambda self: True)

    with pytest.raises(Paused):
        train_in_folder(
            NODE,
            candidates,
            folder,
            data=data,
            combine=True,
            deadline=deadline,
            progress=stop_in_the_second,
        )
    assert len(load_bundle(folder).card["selection"]) == 1
    assert (folder / RUNS).is_dir()
    monkeypatch.undo()
    resumed = train_in_folder(NODE, candidates, folder, data=data, combine=True, resume=True)
    assert not (folder / RUNS).exists()
    assert load_bundle(folder).card["sha256"] == load_bundle(whole.folder).card["sha256"]
    assert resumed.selection == whole.selection


def test_a_configuration_that_diverged_on_a_split_is_not_combined(tmp_path: Path) -> None:
    candidates, data = graph(tmp_path)
    wild = rings.config_of(**{"train.lr": 1e9, "model.hidden_quats": 3})
    job = train_in_folder(GRAPH, [wild, *candidates], tmp_path / "m", data=data, combine=True)
    quats = {m["config"]["model"]["hidden_quats"] for m in job.members}
    assert quats <= {1, 2}


def test_a_finished_training_is_not_extended_by_other_models(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    train_in_folder(NODE, candidates[:2], tmp_path / "m", data=data, combine=True)
    before = load_bundle(tmp_path / "m").card
    with pytest.raises(UserError, match="a finished training of fewer models or seeds"):
        train_in_folder(NODE, candidates, tmp_path / "m", data=data, combine=True, resume=True)
    assert load_bundle(tmp_path / "m").card == before


def test_a_setting_that_the_chosen_model_does_not_read_is_an_error() -> None:
    with pytest.raises(UserError, match=r"unknown key 'model\.dropout'; the model 'linear' reads"):
        default_candidates(NODE, {"model": {"dropout": 0.3}}, only=["linear"])
