"""Filling a table: only what is missing runs, and a search runs once."""

import dataclasses
import errno
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import changed

from quatgraph import config as configs
from quatgraph import presets
from quatgraph.errors import UserError
from quatgraph.files import unwritable
from quatgraph.reproduce import rules
from quatgraph.reproduce import run as running
from quatgraph.reproduce import table as tables
from quatgraph.reproduce.run import IncompleteError, read_results, run_missing, search
from quatgraph.reproduce.table import Table, cell
from quatgraph.tasks import TASKS
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import Deadline

CPU = Context(torch.device("cpu"))
GRID = {"train.lr": [0.01, 0.05], "model.hidden_quats": [2, 3]}


def table_of(**changes: Any) -> Table:
    values = {
        "name": "tiny",
        "title": "A tiny table",
        "task": "node",
        "metric": "test/accuracy",
        "rows": ["karate"],
        "columns": ["qgnn", "hgcn"],
        "methods": {"qgnn": "QGNN", "hgcn": "HGCN"},
        "splits": 1,
        "seeds": 2,
        "paper": {"karate": {"hgcn": 0.5}},
    }
    return Table(**values | changes)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presets of three epochs, and a search through four configurations."""

    def short(name: str, protocol: presets.Protocol = "paper") -> dict[str, Any]:
        values = presets.preset(name, protocol)
        select = "last" if protocol == "paper" else "best-valid"
        return configs.override(values, ["train.epochs=3", f"train.select={select}"])

    for module in (running, tables):
        monkeypatch.setattr(module, "preset", short)
    rules = {"searched": ["honest"], "grid": GRID}
    monkeypatch.setattr(running, "protocols", lambda task: rules)


def ran(
    table: Table, results: Path, context: Context = CPU, **others: Any
) -> list[list[RunRecord]]:
    return list(run_missing(table, results, context, **others))


def test_a_table_is_filled_under_both_protocols(tmp_path: Path) -> None:
    finished = ran(table_of(), tmp_path)
    assert [[(r.protocol, r.seed) for r in records] for records in finished] == [
        [("paper", 0), ("paper", 1)],
        [("honest", 0), ("honest", 1)],
    ]
    assert read_results(tmp_path) == [record for records in finished for record in records]
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["node-karate.jsonl"]
    for protocol in ("paper", "honest"):
        made = cell(table_of(), read_results(tmp_path), "karate", "qgnn", protocol)
        assert (made.runs, made.configs) == (2, 1)


@pytest.mark.parametrize("missing", ["data", "memory"])
def test_cells_without_data_or_memory_do_not_keep_others_from_being_run(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = TASKS["node"]

    def loaded(config: Any) -> Any:
        if config.data.name == "cora" and missing == "data":
            raise UserError("cora cannot be had")
        data = dataclasses.replace(config.data, name="karate")
        return plain.load(dataclasses.replace(config, data=data))

    def max_members(problem: Any, config: Any) -> int:
        if config.data.name == "cora":
            raise UserError("cora cannot be had in memory")
        return plain.max_members(problem, config)

    task = changed(plain, load=loaded, max_members=max_members)
    monkeypatch.setitem(TASKS, "node", task)
    with pytest.raises(IncompleteError, match="yet: cora-qgnn, cora-hgcn: cora cannot be had"):
        ran(table_of(rows=["cora", "karate"]), tmp_path)
    assert {record.dataset for record in read_results(tmp_path)} == {"karate"}


def test_a_full_disk_stops_a_table_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def fail(path: Path, records: list[RunRecord]) -> None:
        asked.append(path)
        raise unwritable(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    monkeypatch.setattr(running, "append_records", fail)
    with pytest.raises(UserError, match="No space left") as caught:
        ran(table_of(ablations={"qgnn": [["train.lr=0.5"]]}), tmp_path)
    assert not isinstance(caught.value, IncompleteError)
    assert len(asked) == 1


def test_what_is_there_is_not_run_again(tmp_path: Path) -> None:
    ran(table_of(), tmp_path)
    assert ran(table_of(), tmp_path) == []
    more = ran(table_of(seeds=3), tmp_path)
    assert [[(r.protocol, r.seed) for r in records] for records in more] == [
        [("paper", 2)],
        [("honest", 2)],
    ]


def test_runs_of_other_settings_do_not_count_as_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(table_of(), tmp_path)
    before = running.preset
    monkeypatch.setattr(
        running, "preset", lambda *a: configs.override(before(*a), ["train.lr=0.3"])
    )
    assert len(ran(table_of(), tmp_path)) == 2


def test_an_interrupted_table_goes_on_where_it_stopped(tmp_path: Path) -> None:
    begun = run_missing(table_of(), tmp_path, CPU)
    first = next(begun)
    begun.close()
    assert read_results(tmp_path) == first
    rest = ran(table_of(), tmp_path)
    assert [r.protocol for r in rest[0]] == ["honest", "honest"]
    assert len(rest) == 1


def test_a_deadline_stops_a_table_and_keeps_what_is_whole(tmp_path: Path) -> None:
    with pytest.raises(Paused):
        ran(table_of(), tmp_path, dataclasses.replace(CPU, deadline=Deadline(0)))
    assert read_results(tmp_path) == []
    assert len(ran(table_of(), tmp_path)) == 2


def test_only_limits_what_runs(tmp_path: Path) -> None:
    assert ran(table_of(), tmp_path, only=["hgcn"]) == []
    with pytest.raises(UserError, match="has no 'gin'"):
        ran(table_of(), tmp_path, only=["gin"])
    assert read_results(tmp_path) == []


def searched(results: Path, **others: Any) -> list[RunRecord]:
    found = search("node/karate-qgnn", results, CPU, **others)
    return [record for records in found for record in records]


def test_a_search_tries_every_combination_once(tmp_path: Path) -> None:
    records = searched(tmp_path)
    tried = {(r.config["train"]["lr"], r.config["model"]["hidden_quats"]) for r in records}
    assert tried == {(0.01, 2), (0.01, 3), (0.05, 2), (0.05, 3)}
    assert len(records) == 4
    # What only differs in the learning rate was one ensemble.
    assert len({r.ensemble for r in records}) == 2
    assert {(r.protocol, r.method, r.dataset) for r in records} == {("honest", "qgnn", "karate")}
    assert read_results(tmp_path) == records
    assert searched(tmp_path) == []
    assert read_results(tmp_path) == records


def test_a_search_goes_through_its_lists_under_every_protocol_that_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = {"searched": ["paper", "honest"], "grid": {"train.lr": [0.01, 0.05]}}
    monkeypatch.setattr(running, "protocols", lambda task: rules)
    mixed = ("train.lr", "protocol", "train.select", "train.epochs", "train.patience")
    task = changed(TASKS["node"], varying=mixed)
    monkeypatch.setitem(TASKS, "node", task)
    records = searched(tmp_path)
    assert [(r.protocol, r.config["train"]["lr"]) for r in records] == [
        ("paper", 0.01),
        ("paper", 0.05),
        ("honest", 0.01),
        ("honest", 0.05),
    ]
    # One call, so that what a task allows to run together does.
    assert len({r.ensemble for r in records}) == 1
    assert searched(tmp_path) == []


def test_more_seeds_of_a_search_add_only_the_new_ones(tmp_path: Path) -> None:
    searched(tmp_path)
    assert {r.seed for r in searched(tmp_path, seeds=2)} == {1}


def test_what_is_set_is_not_searched(tmp_path: Path) -> None:
    records = searched(tmp_path, overrides=["model.hidden_quats=5", "train.weight_decay=0.0"])
    assert {r.config["model"]["hidden_quats"] for r in records} == {5}
    assert {r.config["train"]["weight_decay"] for r in records} == {0.0}
    assert len(records) == 2


def test_a_list_replaces_that_of_the_search_or_is_another(tmp_path: Path) -> None:
    lists = ["train.lr=[0.2, 0.3, 0.4]", "model.hidden_quats=[3]", "model.dropout=[0.1, 0.2]"]
    records = searched(tmp_path, overrides=lists)
    tried = [(r.config["train"]["lr"], r.config["model"]["dropout"]) for r in records]
    assert sorted(tried) == [(lr, rate) for lr in (0.2, 0.3, 0.4) for rate in (0.1, 0.2)]
    assert {r.config["model"]["hidden_quats"] for r in records} == {3}
    # What was tried stays tried: a wider list adds only what is new.
    more = searched(tmp_path, overrides=["train.lr=[0.4, 0.5]", *lists[1:]])
    assert {r.config["train"]["lr"] for r in more} == {0.5}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("protocol=paper", "search always runs under honest; do not set protocol"),
        ("train.lr=[]", "train.lr must be a list of values to search"),
        ("train.lr=[0.1, fast]", "train.lr must be a number, got 'fast'"),
        ("train.rate=[1, 2]", "unknown key 'train.rate'"),
        ("train.lr=[0.1, true]", "train.lr must be a number"),
    ],
)
def test_a_search_refuses_what_it_cannot_try(tmp_path: Path, override: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        searched(tmp_path, overrides=[override])
    assert read_results(tmp_path) == []


@pytest.fixture
def _cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    """A preset of QGNN for the built-in graphs, with two folds and one epoch."""
    small = ("data.num_folds=2", "model.hidden_quats=1", "train.epochs=1", "train.batch_size=50")
    name = "graph/cycles-qgnn"

    def made(_: str, protocol: presets.Protocol = "paper") -> dict[str, Any]:
        values = presets.preset("graph/imdb-b-qgnn", protocol)
        return configs.override(values, ["data.name=cycles", *small])

    monkeypatch.setattr(tables, "names", lambda task: [name])
    for module in (running, tables):
        monkeypatch.setattr(module, "preset", made)
    monkeypatch.setattr(running, "parts", lambda _: ("graph", "cycles", "qgnn"))
    monkeypatch.setattr(running, "protocols", presets.protocols)


@pytest.mark.usefixtures("_cycles")
def test_the_protocols_of_graphs_share_ensembles(tmp_path: Path) -> None:
    all_rules = ["best-per-fold", "gin", "validation"]
    table = table_of(task="graph", rows=["cycles"], splits=2, seeds=1, rules=all_rules)
    (records,) = ran(table, tmp_path)
    assert [(r.protocol, r.split) for r in records] == [
        ("paper", 0),
        ("paper", 1),
        ("honest", 0),
        ("honest", 1),
    ]
    assert len({r.ensemble for r in records}) == 1
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["graph-cycles.jsonl"]
    assert ran(table, tmp_path) == []
    # A search adds to it, under both protocols, and each rule chooses among all four.
    lists = ["model.num_layers=[1, 2]", "model.hidden_quats=1", "train.lr=[1e-3, 5e-4]"]
    more = search("graph/cycles-qgnn", tmp_path, CPU, overrides=lists)
    found = [record for part in more for record in part]
    assert len(found) == 2 * 2 * (2 * 2 - 1)
    assert (tmp_path / "records" / "graph-cycles-search.jsonl").exists()
    chosen = rules.apply_rules(table, read_results(tmp_path))
    assert list(chosen) == [("cycles", "qgnn", rule) for rule in all_rules]
    assert all((len(one.candidates), len(one.folds)) == (4, 2) for one in chosen.values())


def test_what_a_search_left_is_chosen_from_in_the_honest_cell_alone(tmp_path: Path) -> None:
    records = searched(tmp_path)
    table = table_of()
    honest = cell(table, read_results(tmp_path), "karate", "qgnn", "honest")
    assert (honest.runs, honest.configs) == (1, 4)
    best = max(r.metrics["valid/accuracy"] for r in records)
    assert honest.mean in {
        r.metrics["test/accuracy"] for r in records if r.metrics["valid/accuracy"] == best
    }
    paper = cell(table, read_results(tmp_path), "karate", "qgnn", "paper")
    assert paper.runs == 0


def test_an_unknown_preset_cannot_be_searched(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no preset 'node/karate-gnn'"):
        list(search("node/karate-gnn", tmp_path, CPU))


def test_results_that_cannot_be_written_are_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        ran(table_of(), tmp_path / "file")


def test_ablations_of_a_table_are_run_once_under_the_protocol_paper(tmp_path: Path) -> None:
    table = table_of(ablations={"qgnn": [["train.lr=0.5"]]})
    ran(table, tmp_path)
    changed = [r for r in read_results(tmp_path) if r.config["train"]["lr"] == 0.5]
    assert [(r.protocol, r.seed) for r in changed] == [("paper", 0), ("paper", 1)]
    assert (tmp_path / "records" / "node-fidelity.jsonl").exists()
    assert ran(table, tmp_path) == []


def test_a_full_table_needs_no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran(table_of(), tmp_path)
    monkeypatch.setattr("quatgraph.data.node.load", lambda name: pytest.fail("read the data"))
    assert ran(table_of(), tmp_path) == []
