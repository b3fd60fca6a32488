"""Searches behind the tables: each method has the same number of configurations."""

import math
from types import SimpleNamespace

import pytest

from quatgraph import config as configs
from quatgraph.reproduce.table import load_table
from quatgraph.tasks import TASKS
from tools.searches import complete_axes, describe_runs, expand_search, plan_rounds, read_searches


def count_configurations(axes: list[str]) -> int:
    named = configs.flatten(configs.override({}, axes))
    return math.prod(len(axis) for axis in named.values() if isinstance(axis, list))


@pytest.mark.parametrize("search", read_searches().values(), ids=read_searches())
def test_every_search_builds_as_many_configurations_of_each_preset_as_it_names(
    search: dict,
) -> None:
    size = count_configurations(search["set"])
    size *= max(map(count_configurations, search.get("also", {}).values()), default=1)
    size *= max(map(len, search.get("rounds", {}).values()), default=1)
    assert {name for name, _ in plan_rounds(search)} == {*search["presets"]}
    for name in search["presets"]:
        config = TASKS[name.partition("/")[0]].config
        made = [configs.build(config, one).identity() for one in expand_search(search, name)]
        assert len({*map(configs.digest, made)}) == len(made) == size


def test_a_round_of_every_preset_comes_before_the_next_round() -> None:
    rounds = {"a": [["x=1"], ["x=2"]], "b": [["x=3"], ["x=4"]]}
    search = {"presets": ["a", "b"], "set": ["y=0"], "also": {"b": ["z=5"]}, "rounds": rounds}
    assert list(plan_rounds(search)) == [
        ("a", ["y=0", "x=1"]),
        ("b", ["y=0", "z=5", "x=3"]),
        ("a", ["y=0", "x=2"]),
        ("b", ["y=0", "z=5", "x=4"]),
    ]


def test_the_grid_of_the_task_is_fixed_where_a_search_does_not_name_it() -> None:
    axes = complete_axes("link/codex-s-relqgnn-n3", ["train.lr=[0.1, 0.2]"])
    assert set(axes) == {"train.lr=[0.1, 0.2]", "model.dim_quats=500", "model.num_layers=1"}


def test_a_setting_that_is_not_searched_is_that_of_the_preset() -> None:
    axes = complete_axes("node/cora-gcn", ["train.lr=[0.1, 0.2]", "model.dropout=0.5"])
    fixed = {"model.skip=false", "model.num_layers=1", "model.hidden_quats=4"}
    assert fixed < set(axes)


def test_nodes_are_searched_with_equal_budgets() -> None:
    shallow, deep = (set(read_searches()[name]["set"]) for name in ("node-shallow", "node-deep"))
    assert count_configurations([*shallow]) == count_configurations([*deep]) == 16
    assert {"model.hidden_quats=[16, 64]", "train.lr=0.01", "train.epochs=700"} < shallow & deep


def test_graphs_are_searched_with_twelve_configurations_of_each_method() -> None:
    search, table = read_searches()["graph-methods"], load_table("graph")
    methods = ("qgnn", "qgnn-symmetric", "gcn", "gin", "dgcnn", "structure-free")
    wanted = {f"graph/{dataset}-{method}" for dataset in table.rows for method in methods}
    assert {*search["presets"]} == wanted
    assert all(len([*expand_search(search, name)]) == 12 for name in wanted)


def test_texting_has_as_many_configurations_as_textqgnn() -> None:
    values = read_searches()["text-graphs"]
    sizes = set()
    for one in values["presets"]:
        own = configs.flatten(configs.override({}, values["also"][one]))
        sizes.add(math.prod(len(axis) for axis in own.values()))
    assert sizes == {2}


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
    runs[1].metrics["valid/accuracy"] = math.nan  # without validation data
    assert len(describe_runs(["train.lr=[0.1, 0.2]"], runs)) == 1
    (line,) = describe_runs(["model.lift=['split', 'learned']"], runs[:1])
    assert line == "model.lift=default: validation accuracy 0.5000 (1 runs)"
