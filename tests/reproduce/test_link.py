"""Table 3: two metrics in a cell, and ``honest`` as the best on validation data of all runs."""

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from made_up import made_up

from quatgraph import config as configs
from quatgraph import presets
from quatgraph.reproduce import run as running
from quatgraph.reproduce import table as tables
from quatgraph.reproduce.render import cells, render
from quatgraph.reproduce.run import read_results, run_missing, search
from quatgraph.reproduce.table import Table, cell, load_table, protocols_to_run
from quatgraph.tasks.selection import mark_diverged
from quatgraph.training.context import Context
from quatgraph.training.record import RunRecord

CPU = Context(torch.device("cpu"))
TABLE = dataclasses.replace(load_table("link"), rows=["codex-s"])
WIDE = "model.dim_quats=64"


def record(valid: float, mrr: float, hits: float, *changes: str, **others: Any) -> RunRecord:
    """A run on CoDEx-S, of SimQGNN by default, with ``changes`` of its preset."""
    metrics = {"valid/mrr": valid, "test/mrr": mrr, "test/hits@10": hits}
    fields = {"method": "simqgnn", "metrics": metrics, "parameters": 1000, **others}
    return made_up("link", "codex-s", fields.pop("method"), *changes, **fields)


PUBLISHED = [
    record(0.60, 0.430, 0.640),
    record(0.61, 0.432, 0.642, seed=1),
    record(0.62, 0.434, 0.644, seed=2),
]
SEARCHED = [
    record(0.65, 0.450, 0.660, WIDE, parameters=2000),
    record(0.59, 0.440, 0.650, WIDE, seed=1),
    record(0.63, 0.500, 0.700, "train.lr=0.001"),
]


def test_a_table_of_two_metrics_shows_both_in_each_cell() -> None:
    assert render(TABLE, PUBLISHED + SEARCHED, ["simqgnn", "simrgcn"]) == "\n".join(
        [
            "| dataset | method | published, MRR / Hits@10 | ours, `paper` | difference "
            "| ours, `honest` | configurations | weights "
            "| training time per run |",
            "|---|---|---|---|---|---|---|---|---|",
            "| codex-s | SimRGCN | .427 / 64.7 | not run |  | not run |  |  |  |",
            "| codex-s | SimQGNN | .435 / 65.2 | .432 ± .002 / 64.2 ± 0.2 (3) | -.003 / -1.0 "
            "| .445 ± .007 / 65.5 ± 0.7 (2) | 3 | 1,000; `honest` up to 2,000 | 2 s |",
        ]
    )


def test_what_was_not_run_or_not_published_may_be_left_out() -> None:
    records = [record(0.6, 1.0, 1.0, method="quate")]
    (line,) = render(TABLE, records, skip_missing=True).splitlines()[2:]
    shown = "1.000 / 100.0 (1)"
    assert line == f"| codex-s | QuatE |  | {shown} |  | {shown} | 1 | 1,000 | 2 s |"
    whole = render(load_table("link"), records).splitlines()
    assert len(whole) == 2 + 3 * 18
    assert "| codex-l | SACN |  | not run |  | not run |  |  |  |" in whole


def test_programs_get_an_object_for_each_metric() -> None:
    made = list(cells(TABLE, PUBLISHED + SEARCHED, ["simqgnn"]))
    assert [(one["protocol"], one["metric"]) for one in made] == [
        (protocol, metric)
        for protocol in ("paper", "honest")
        for metric in ("test/mrr", "test/hits@10")
    ]
    assert [one["mean"] for one in made] == pytest.approx([0.432, 0.642, 0.445, 0.655])
    assert [one["paper"] for one in made] == pytest.approx([0.435, 0.652] * 2)
    assert [one["configs"] for one in made] == [1, 1, 3, 3]


def test_the_choice_stays_whatever_the_test_data_says() -> None:
    draw = random.Random(0)
    records = PUBLISHED + SEARCHED
    for _ in range(5):
        other = [
            dataclasses.replace(r, metrics=r.metrics | {"test/mrr": draw.random()}) for r in records
        ]
        made = cell(TABLE, other, "codex-s", "simqgnn", "honest")
        assert made.mean == pytest.approx(sum(r.metrics["test/mrr"] for r in other[3:5]) / 2)


def test_configurations_are_compared_by_the_metric_of_the_table() -> None:
    by_mrr = record(0.66, 0.9, 0.9, "train.monitor=mrr")
    diverged = record(0.99, 1.0, 1.0, "train.lr=0.1")
    diverged = mark_diverged(diverged)
    made = cell(TABLE, [*PUBLISHED, by_mrr, diverged], "codex-s", "simqgnn", "honest")
    assert (made.mean, made.runs, made.configs) == (0.9, 1, 3)


def test_a_task_whose_honest_changes_nothing_is_run_once() -> None:
    assert protocols_to_run("link") == protocols_to_run("text") == ("paper",)
    assert protocols_to_run("node") == protocols_to_run("graph") == ("paper", "honest")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table of the built-in sample, runs of one short epoch, a search through four."""
    small = ("train.epochs=1", "train.batch_size=4096", "model.dim_quats=1")

    def short(name: str, protocol: presets.Protocol = "paper") -> dict[str, Any]:
        return configs.override(presets.preset(name, protocol), [*small, "train.evaluate_every=1"])

    for module in (running, tables):
        monkeypatch.setattr(module, "preset", short)
    rules = {"searched": ["paper"], "grid": {"model.num_layers": [1, 2], "train.lr": [0.01, 0.02]}}
    monkeypatch.setattr(running, "protocols", lambda task: rules)
    return dataclasses.replace(TABLE, rows=["countries"], columns=["simqgnn"], seeds=2)


def searched(results: Path, *overrides: str) -> list[RunRecord]:
    found = search("link/countries-simqgnn", results, CPU, overrides=overrides)
    return [run for part in found for run in part]


def test_what_validation_data_chose_gets_the_seeds_it_lacks(table: Table, tmp_path: Path) -> None:
    tried = searched(tmp_path)
    assert [r.protocol for r in tried] == ["paper"] * 4
    merits = {r.config_digest: r.metrics["valid/mrr"] for r in tried}
    best = sorted(merits, key=lambda digest: -merits[digest])[: table.finalists]
    finished = [run for part in run_missing(table, tmp_path, CPU) for run in part]
    # The preset is one of the four: its first seed is there.
    assert {r.seed for r in finished} == {1}
    assert {r.config_digest for r in finished} >= set(best)
    assert len(finished) <= table.finalists + 1
    honest = cell(table, read_results(tmp_path), "countries", "simqgnn", "honest")
    assert (honest.runs, honest.configs) == (2, 4)
    assert cell(table, read_results(tmp_path), "countries", "simqgnn", "paper").runs == 2
    assert list(run_missing(table, tmp_path, CPU)) == []


@pytest.mark.usefixtures("table")
def test_a_search_leaves_out_what_the_model_does_not_read(tmp_path: Path) -> None:
    tried = searched(tmp_path, "model.name=embeddings")
    assert [r.config["train"]["lr"] for r in tried] == [0.01, 0.02]
    assert not any("num_layers" in r.config["model"] for r in tried)
