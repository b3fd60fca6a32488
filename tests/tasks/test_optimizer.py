"""The optimizer and the schedule of the learning rate, in every task."""

from pathlib import Path
from typing import Any

import cities
import karate
import pytest
import reviews
import rings
from on_cpu import CPU, changed, run, train_in_folder

from quatgraph import config as configs
from quatgraph.data.text import from_list
from quatgraph.errors import UserError
from quatgraph.tasks import TASKS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.refit import refit
from quatgraph.tasks.text.problem import corpus_of
from quatgraph.training.bundle import load_bundle
from quatgraph.training.context import Context
from quatgraph.training.optim import OPTIMIZERS
from quatgraph.training.schedule import Plateau

MODULES = {"node": karate, "graph": rings, "link": cities, "text": reviews}
every_task = pytest.mark.parametrize("name", TASKS)
SETTINGS = {"train.optimizer": "adagrad", "train.plateau_factor": 0.5, "train.plateau_patience": 0}


def data_of(name: str, folder: Path, config: Any) -> Any:
    if name == "node":
        return NODE.load(config)
    if name == "graph":
        return rings.collection(folder)
    if name == "link":
        return cities.cities()
    return corpus_of(from_list(reviews.TEXTS, reviews.LABELS), config)


@every_task
def test_a_task_trains_with_adagrad_at_rates_that_drop(name: str, tmp_path: Path) -> None:
    task, built = TASKS[name], []

    def build_ensemble(members: Any, problem: Any) -> Any:
        built.append(task.build_ensemble(members, problem))
        return built[0]

    config = MODULES[name].config_of(**SETTINGS)
    data = data_of(name, tmp_path, config)
    members = task.members(config, data)
    assert task.plan(members).plateau == Plateau(0.5, 0)
    (outcome,) = run(changed(task, build_ensemble=build_ensemble), members, data)
    assert not any(outcome.divergence)
    ((_, optimizer),) = built
    assert type(optimizer) is OPTIMIZERS["adagrad"]
    assert optimizer.lr.min() < config.train.lr


@every_task
def test_the_defaults_are_those_of_records_that_lack_these_settings(name: str) -> None:
    config = TASKS[name].config()
    assert (config.train.optimizer, config.train.plateau) == ("adam", None)
    added = {"optimizer", "plateau_factor", "plateau_patience"}
    assert not added & config.identity()["train"].keys()
    changed = configs.build(TASKS[name].config, {"train": {"optimizer": "adagrad"}})
    assert changed.identity()["train"]["optimizer"] == "adagrad"


@every_task
@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"optimizer": "sgd"}, r"train\.optimizer must be one of 'adam', 'adagrad'"),
        ({"plateau_factor": 0.0}, r"train\.plateau_factor must be positive"),
        ({"plateau_factor": 1.5}, r"train\.plateau_factor must be at most 1, got 1\.5"),
        ({"plateau_patience": -1}, r"train\.plateau_patience must not be negative"),
        (
            {"plateau_factor": 0.5, "select": "last"},
            r"needs validations: set train\.select=best-valid, or the factor to 1",
        ),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(
    name: str, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        configs.build(TASKS[name].config, {"train": {"select": "best-valid"} | values})


def test_a_refit_has_no_validations_and_a_constant_rate(tmp_path: Path) -> None:
    config = karate.config_of(**SETTINGS)
    data = NODE.load(config)
    train_in_folder(NODE, [config], tmp_path / "m", data=data, combine=True)
    refit(NODE, tmp_path / "m", Context(CPU), data)
    (member,) = load_bundle(tmp_path / "m").card["members"]
    train = member["config"]["train"]
    assert (train["optimizer"], train["plateau_factor"]) == ("adagrad", 1.0)
