"""Searches behind the tables: each method has the same number of configurations."""

import math
from types import SimpleNamespace

import pytest

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.tasks import TASKS
from tools.searches import complete_axes, describe_runs, read_searches


@pytest.mark.parametrize(("name", "values"), read_searches().items())
def test_every_search_builds_and_has_the_axes_that_it_names(name: str, values: dict) -> None:
    named = configs.flatten(configs.override({}, values["set"]))
    size = math.prod(len(axis) for axis in named.values() if isinstance(axis, list))
    for one in values["presets"]:
        task = TASKS[one.partition("/")[0]]
        axes = configs.flatten(configs.override({}, complete_axes(one, values["set"])))
        lists = {key: axis if isinstance(axis, list) else [axis] for key, axis in axes.items()}
        found = configs.expand_grid(preset(one), lists)
        built = {configs.digest(configs.build(task.config, made).identity()) for made in found}
        assert len(built) == size


def test_the_grid_of_the_task_is_fixed_where_a_search_does_not_name_it() -> None:
    axes = complete_axes("link/codex-s-relqgnn-n3", ["train.lr=[0.1, 0.2]"])
    assert set(axes) == {"train.lr=[0.1, 0.2]", "model.dim_quats=500", "model.num_layers=1"}


def test_a_setting_that_is_not_searched_is_that_of_the_preset() -> None:
    axes = complete_axes("node/cora-gcn", ["train.lr=[0.1, 0.2]", "model.dropout=0.5"])
    fixed = {"model.skip=false", "model.num_layers=1", "model.hidden_quats=4"}
    assert fixed < set(axes)


def test_nodes_are_searched_with_equal_budgets() -> None:
    searches = read_searches()
    shallow, deep = searches["node-shallow"]["set"], searches["node-deep"]["set"]
    assert [key for key, other in zip(shallow, deep, strict=True) if key != other] == [
        "model.num_layers=[1, 2]"
    ]


def test_a_configuration_is_described_by_what_varies_and_by_its_mean_over_splits() -> None:
    def record(lr: float, accuracy: float) -> SimpleNamespace:
        config = {"model": {"dropout": 0.5}, "train": {"lr": lr, "epochs": 3}}
        metrics = {"valid/accuracy": accuracy, "test/accuracy": 0.1}
        return SimpleNamespace(config=config, config_digest=str(lr), metrics=metrics)

    runs = [record(0.1, 0.5), record(0.2, 0.25), record(0.1, 0.7)]
    assert describe_runs(["train.lr=[0.1, 0.2]", "train.epochs=3"], runs) == [
        "train.lr=0.1: validation accuracy 0.6000 (2 runs)",
        "train.lr=0.2: validation accuracy 0.2500 (1 runs)",
    ]
