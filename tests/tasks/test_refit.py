"""Members of a bundle, trained again on all labels."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
import torch
from on_cpu import CPU, changed, train_in_folder

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.predictors import PREDICTORS
from quatgraph.tasks import TASKS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.refit import REFIT, refit
from quatgraph.tasks.task import Member
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle, save_bundle
from quatgraph.training.context import Context


def node(folder: Path) -> tuple[list[Any], Any]:
    return [karate.config_of()], NODE.load(NodeConfig(data=DataConfig(name="karate")))


def graph(folder: Path) -> tuple[list[Any], Any]:
    return [rings.config_of()], rings.collection(folder)


def link(folder: Path) -> tuple[list[Any], Any]:
    return [cities.config_of()], cities.cities()


def text(folder: Path) -> tuple[list[Any], Any]:
    config = reviews.config_of()
    return [config], corpus_of(from_list(reviews.TEXTS, reviews.LABELS), config)


MAKERS: dict[str, Callable[[Path], tuple[list[Any], Any]]] = {
    maker.__name__: maker for maker in (node, graph, link, text)
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
