"""Combinations of a table: trained once, weighted by validation data, measured item by item."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from quatgraph import config as configs
from quatgraph import presets
from quatgraph.errors import UserError
from quatgraph.reproduce import run as running
from quatgraph.reproduce import table as tables
from quatgraph.reproduce.combinations import read_items, run_combinations
from quatgraph.reproduce.render import render_combinations
from quatgraph.reproduce.run import read_results, run_missing
from quatgraph.reproduce.table import Combination, Table
from quatgraph.training.context import Context
from tools.items import render_items

CPU = Context(torch.device("cpu"))
TASKS = {
    "link": ("countries", "simqgnn", "test/mrr"),
    "node": ("karate", "qgnn", "test/accuracy"),
}


def table_of(task: str) -> Table:
    dataset, method, metric = TASKS[task]
    return Table(
        name="tiny",
        title="A tiny table",
        task=task,
        metric=metric,
        rows=[dataset],
        columns=[method],
        methods={method: "Ours"},
        splits=1,
        seeds=1,
        paper={},
        combinations={"x3": Combination(title="Three of ours", members={method: 3})},
        item_pairs=[("x3", method)],
    )


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(name: str, protocol: presets.Protocol = "paper") -> dict[str, Any]:
        return configs.override(presets.preset(name, protocol), ["train.epochs=5"])

    for module in (running, tables):
        monkeypatch.setattr(module, "preset", short)


@pytest.mark.parametrize("task", TASKS)
def test_a_combination_is_trained_once_and_measured_item_by_item(task: str, tmp_path: Path) -> None:
    table = table_of(task)
    list(run_missing(table, tmp_path, CPU))
    made = list(run_combinations(table, read_results(tmp_path), tmp_path, CPU))
    assert [(one.method, one.split) for one in made] == [("x3", 0)]
    assert made[0] in read_results(tmp_path)
    members = made[0].config["members"]
    assert 1 <= len(members) <= 3
    assert {one["seed"] for one in members} <= {0, 1, 2}
    assert made[0].metrics.keys() >= {table.metric, "valid/" + table.metric.split("/")[1]}

    dataset, method, metric = TASKS[task]
    *_, single = (one for one in read_results(tmp_path) if one.method == method)
    items = read_items(tmp_path / "items" / f"{task}-{dataset}.npz")
    assert items.keys() == {"x3/0/0", *(f"{method}/0/{seed}" for seed in range(3))}
    assert items["x3/0/0"].mean() == pytest.approx(made[0].metrics[metric], abs=1e-5)
    assert items[f"{method}/0/0"].mean() == pytest.approx(single.metrics[metric], abs=1e-3)

    assert not list(run_combinations(table, read_results(tmp_path), tmp_path, CPU))
    assert "Three of ours" in render_combinations(table, read_results(tmp_path))
    assert "Three of ours minus Ours" in render_items(table, tmp_path)


def test_members_count_as_runs_of_their_methods_up_to_the_seeds_of_the_table(
    tmp_path: Path,
) -> None:
    table = table_of("node")
    list(run_missing(table, tmp_path, CPU))
    more = dataclasses.replace(table, seeds=2)
    before = read_results(tmp_path)
    list(run_combinations(more, before, tmp_path, CPU))
    singles = [one for one in read_results(tmp_path) if one.method == "qgnn"]
    (chosen,) = {
        one["config"]
        for record in read_results(tmp_path)
        if record.method == "x3"
        for one in record.config["members"]
    }
    seeds = [one.seed for one in singles if one.config_digest == chosen]
    assert sorted(seeds) == [0, 1]
    assert len(singles) == sum(one.method == "qgnn" for one in before) + 1


def test_without_a_configuration_of_each_member_there_is_no_combination(tmp_path: Path) -> None:
    table = table_of("link")
    assert not list(run_combinations(table, [], tmp_path, CPU))
    assert render_combinations(table, []) == ""


def test_only_restricts_datasets_and_combinations(tmp_path: Path) -> None:
    table = table_of("node")
    list(run_missing(table, tmp_path, CPU))
    records = read_results(tmp_path)
    assert not list(run_combinations(table, records, tmp_path, CPU, only=["elsewhere"]))
    assert [*table.cells(["x3"])] == [("karate", "qgnn")]


def test_damaged_items_are_named(tmp_path: Path) -> None:
    path = tmp_path / "items.npz"
    path.write_bytes(b"PK damaged")
    with pytest.raises(UserError, match="cannot read the scores of test items"):
        read_items(path)
    np.savez(path, a=np.array([{}]))
    with pytest.raises(UserError, match="cannot read"):
        read_items(path)
