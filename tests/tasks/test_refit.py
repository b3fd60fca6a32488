"""Members of a bundle, trained again on all labels."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from on_cpu import CPU, changed, train_in_folder
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.tasks import TASKS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix
from quatgraph.tasks.refit import REFIT, refit
from quatgraph.tasks.task import Member
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle, save_bundle
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline


def node(folder: Path) -> tuple[list[Any], Any]:
    return [karate.config_of()], NODE.load(NodeConfig(data=DataConfig(name="karate")))


def graphs(folder: Path) -> tuple[list[Any], Any]:
    return [rings.config_of()], rings.collection(folder)


def link(folder: Path) -> tuple[list[Any], Any]:
    return [cities.config_of()], cities.cities()


def text(folder: Path) -> tuple[list[Any], Any]:
    config = reviews.config_of()
    return [config], corpus_of(from_list(reviews.TEXTS, reviews.LABELS), config)


MAKERS: dict[str, Callable[[Path], tuple[list[Any], Any]]] = {
    maker.__name__.removesuffix("s"): maker for maker in (node, graphs, link, text)
}


@pytest.mark.parametrize("name", MAKERS)
def test_members_learn_from_all_labels_and_keep_their_metrics(name: str, tmp_path: Path) -> None:
    task = TASKS[name]
    candidates, data = MAKERS[name](tmp_path)
    folder = tmp_path / "model"
    before = train_in_folder(task, candidates, folder, data=data, combine=True)
    trained: list[tuple[Member, Any]] = []

    def train(members: list[Member], problem: Any, plan: Any) -> Any:
        trained.extend((member, problem) for member in members)
        return task.train(members, problem, plan)

    refit(changed(task, train=train), folder, Context(CPU), data)
    bundle = load_bundle(folder)
    assert bundle.card["refit"] is True
    assert bundle.card["metrics"] == before.metrics
    assert bundle.card.get("temperature") == load_bundle(folder).card.get("temperature")
    (member,) = bundle.card["members"]
    config = configs.build(task.config, member["config"])
    assert (config.train.labels, config.train.select) == ("all", "last")
    epochs = [entry["epoch"] for entry in before.members]
    assert config.train.epochs == max(1, round(sum(epochs) / len(epochs)))
    ((_, problem),) = trained
    if name == "node":
        assert torch.equal(problem.masks["train"][0], data.y >= 0)
    if name == "link":
        every = sum(len(part) for part in (data.train, data.valid, data.test))
        assert len(problem.training.tails) == 2 * every
    predictor = PREDICTORS[name](bundle, CPU)
    with pytest.raises(UserError, match="refitted on all labels, so no test data is left"):
        predictor.evaluate()
    with pytest.raises(UserError, match="refitted on all labels"):
        predictor.report()
    refit(task, folder, Context(CPU), data)  # nothing is left to do
    assert load_bundle(folder).card == bundle.card


def test_a_refit_that_diverges_keeps_the_model(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    train_in_folder(NODE, candidates, tmp_path / "m", data=data, combine=True)
    before = load_bundle(tmp_path / "m").card

    def train(members: Any, problem: Any, plan: Any) -> Any:
        fit = NODE.train(members, problem, plan)
        fit.loss.fill_(torch.nan)
        return fit

    with pytest.raises(UserError, match=r"on all labels diverged .* keeps the model"):
        refit(changed(NODE, train=train), tmp_path / "m", Context(CPU), data)
    assert load_bundle(tmp_path / "m").card == before


def test_all_labels_leave_nothing_to_select_by() -> None:
    with pytest.raises(UserError, match=r"train\.labels=all leaves nothing to select by"):
        configs.build(NodeConfig, {"train": {"labels": "all"}})


def test_a_refit_that_was_killed_while_it_replaced_the_model_is_finished(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    folder = tmp_path / "m"
    train_in_folder(NODE, candidates, folder, data=data, combine=True)
    old = (folder / "card.json").read_bytes()
    refit(NODE, folder, Context(CPU), data)
    made = load_bundle(folder)
    save_bundle(folder / REFIT, made)
    (folder / "card.json").write_bytes(old)  # of the two files only one was replaced
    job = train_in_folder(NODE, candidates, folder, data=data, combine=True, resume=True)
    assert load_bundle(folder).card["refit"] is True
    assert not (folder / REFIT).exists()
    assert job.members[0]["metrics"] == made.card["members"][0]["metrics"]


def test_a_paused_refit_keeps_the_model_and_resumes_bit_for_bit(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    wider = karate.config_of(**{"model.hidden_quats": 3, "model.dropout": 0.4})
    for name in ("whole", "parts"):
        train_in_folder(NODE, candidates, tmp_path / name, data=data, combine=True)
        bundle = load_bundle(tmp_path / name)
        (member,) = bundle.card["members"]
        others = {"config": configs.to_dict(wider), "weight": 2}  # of another ensemble
        bundle.card["members"] = [member | {"epoch": 4}, member | {"epoch": 4} | others]
        save_bundle(tmp_path / name, bundle)
    before = load_bundle(tmp_path / "parts").card
    refit(NODE, tmp_path / "whole", Context(CPU), data)
    pauses = 0
    while not load_bundle(tmp_path / "parts").card.get("refit"):
        assert load_bundle(tmp_path / "parts").card == before
        try:
            context = Context(CPU, deadline=Deadline(0), resume=pauses > 0)
            refit(NODE, tmp_path / "parts", context, data)
        except Paused:
            pauses += 1
    assert pauses == 6
    whole, parts = (load_bundle(tmp_path / name) for name in ("whole", "parts"))
    assert [member["weight"] for member in parts.card["members"]] == [1, 2]
    assert parts.card["sha256"] == whole.card["sha256"]
    assert not (tmp_path / "parts" / REFIT).exists()


def test_a_new_training_does_not_finish_the_refit_of_the_one_that_it_replaces(
    tmp_path: Path,
) -> None:
    candidates, data = node(tmp_path)
    folder = tmp_path / "m"
    train_in_folder(NODE, candidates, folder, data=data, combine=True)
    refit(NODE, folder, Context(CPU), data)
    save_bundle(folder / REFIT, load_bundle(folder))  # as if it was killed just before its end
    others = [karate.config_of(**{"train.lr": 0.1})]
    train_in_folder(NODE, others, folder, data=data, combine=True, overwrite=True)
    train_in_folder(NODE, others, folder, data=data, combine=True, resume=True)
    card = load_bundle(folder).card
    assert "refit" not in card
    assert card["members"][0]["config"]["train"]["lr"] == 0.1


def test_other_data_is_not_refitted_on(tmp_path: Path) -> None:
    candidates, data = node(tmp_path)
    train_in_folder(NODE, candidates, tmp_path / "m", data=data, combine=True)
    other = data.clone()
    other.digest = "another"
    with pytest.raises(UserError, match="'karate' is no longer what the model was trained on"):
        refit(NODE, tmp_path / "m", Context(CPU), other)


def test_a_refitted_model_spreads_all_labels_over_the_graph(graph: Data, tmp_path: Path) -> None:
    smoothing = Smoothing(correct_steps=3, smooth_steps=4)
    task = changed(NODE, refine=lambda *_: {"smoothing": asdict(smoothing)})
    train_in_folder(task, [karate.config_of()], tmp_path / "m", data=graph, combine=True)
    refit(NODE, tmp_path / "m", Context(CPU), graph)
    bundle = load_bundle(tmp_path / "m")
    found = PREDICTORS["node"](bundle, CPU).predict(graph).probabilities
    bundle.card.pop("smoothing")
    plain = PREDICTORS["node"](bundle, CPU).predict(graph).probabilities
    known, matrix = graph.y >= 0, smoothing_matrix(graph)
    expected = correct_and_smooth(plain, graph.y, known, matrix, settings=smoothing)
    torch.testing.assert_close(found, expected)
