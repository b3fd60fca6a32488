"""Tables as text: what is printed of each cell."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from crossvalidated import TABLE as FOLDS
from crossvalidated import honest, published
from made_up import made_up

from quatgraph.presets import Protocol
from quatgraph.reproduce.render import cells, render
from quatgraph.reproduce.table import Table, load_table
from quatgraph.training.record import RunRecord

ROOT = Path(__file__).parents[2]
TABLE = Table(
    name="tiny",
    title="A tiny table",
    task="node",
    metric="test/accuracy",
    rows=["cora"],
    columns=["qgnn", "gcn", "hgcn"],
    methods={"qgnn": "QGNN", "gcn": "GCN, real", "hgcn": "HGCN"},
    splits=2,
    seeds=1,
    paper={"cora": {"qgnn": 0.8748, "hgcn": 0.8609}},
)


def record(test: float, protocol: Protocol, **changes: Any) -> RunRecord:
    """A run on Cora with the settings of ``paper``."""
    paper = made_up("node", "cora", "qgnn")
    fields: dict[str, Any] = {
        "protocol": protocol,
        "metrics": {"test/accuracy": test, "valid/accuracy": 0.5},
        "parameters": 23_063,
        "seconds": 1.5,
        "ensemble": protocol,
    }
    return dataclasses.replace(paper, **fields | changes)


RECORDS = [
    record(0.87, "paper", split=0),
    record(0.88, "paper", split=1),
    record(0.85, "honest", config_digest="a"),
    record(0.50, "honest", config_digest="b", metrics={"test/accuracy": 0.9, "valid/accuracy": 0}),
    record(0.8, "honest", method="gcn"),
]


def test_a_small_table_reads_so() -> None:
    assert render(TABLE, RECORDS) == "\n".join(
        [
            "| dataset | method | published | ours, `paper` | difference "
            "| ours, `honest` | configurations | weights "
            "| training time per run |",
            "|---|---|---|---|---|---|---|---|---|",
            "| cora | QGNN | 87.48 | 87.50 ± 0.71 (2) | +0.02 | 85.00 (1) | 2 | 23,063 | 1.5 s |",
            "| cora | GCN, real |  | not run |  | 80.00 (1) | 1 |  | 1.5 s |",
            "| cora | HGCN | 86.09 | not run |  | not run |  |  |  |",
        ]
    )


def test_a_cell_out_of_reach_says_why() -> None:
    table = dataclasses.replace(TABLE, not_run={"cora": {"hgcn": "34 GB per tensor"}})
    reason = "not run: 34 GB per tensor"
    lines = render(table, RECORDS).splitlines()
    assert lines[-1] == f"| cora | HGCN | 86.09 | {reason} |  | {reason} |  |  |  |"
    (line,) = render(load_table("graph"), [], only=["dd", "ppgn"]).splitlines()[2:]
    assert line == f"| dd | PPGN |  | {reason} | {reason} | {reason} |  |  |  |"


def test_some_cells_are_rendered_alone() -> None:
    lines = render(TABLE, RECORDS, only=["hgcn"]).splitlines()
    assert len(lines) == 3
    assert lines[2].startswith("| cora | HGCN |")


def test_cells_for_programs_are_fractions_with_the_documented_keys() -> None:
    made = list(cells(TABLE, RECORDS, only=["qgnn"]))
    assert [one["protocol"] for one in made] == ["paper", "honest"]
    assert made[0].keys() >= {
        *("task", "dataset", "method", "protocol", "metric", "mean"),
        *("std", "runs", "configs", "paper", "seconds"),
    }
    assert made[0]["mean"] == pytest.approx(0.875)
    assert made[0]["paper"] == 0.8748
    assert made[0]["seconds"] == 1.5
    assert made[1]["configs"] == 2


SEARCHED = [
    *published([[0.9, 0.5], [0.5, 0.7]]),
    *published([[0.6, 0.6], [0.6, 0.6]], "train.lr=1e-3"),
    *honest([(0.5, 0.5), (0.5, 0.4)], parameters=23_063),
    *honest([(0.4, 0.9), (0.4, 0.9)], "train.lr=1e-3", parameters=99_999),
    *published([[0.6], [0.6]], method="gin"),
    *honest([(0.5, 0.5), (0.5, 0.5)], method="gin"),
    *published([[0.6], [0.6]], dataset="ptc"),
    *honest([(0.5, 0.5)] * 2, dataset="ptc", method="gin"),
]


def test_a_table_with_rules_shows_them_side_by_side() -> None:
    assert render(FOLDS, SEARCHED) == "\n".join(
        [
            "| dataset | method | published | best epoch per fold (selected on test) "
            "| `paper`: GIN's rule (selected on test) | `honest` | configurations "
            "| weights (max.) | training time per run |",
            "|---|---|---|---|---|---|---|---|---|",
            "| mutag | PSCN | 92.63 ± 4.21 | not run | not run | not run |  |  |  |",
            "| mutag | GIN-0 |  | 60.00 ± 0.00 (2) | 60.00 ± 0.00 (2) | 50.00 ± 0.00 (2) "
            "| 1; QGNN 2 | 100 | 2 s |",
            "| mutag | QGNN | 92.59 ± 3.59 | 80.00 ± 14.14 (2) | 70.00 ± 28.28 (2) "
            "| 45.00 ± 7.07 (2) | 2 | 23,063 | 2 s |",
            "| ptc | PSCN |  | not run | not run | not run |  |  |  |",
            "| ptc | GIN-0 |  | not run | not run | 50.00 ± 0.00 (2) "
            "| `paper` 0, `honest` 1; QGNN `paper` 1, `honest` 0 | 100 | 2 s |",
            "| ptc | QGNN | 69.92 | 60.00 ± 0.00 (2) | 60.00 ± 0.00 (2) | not run "
            "| `paper` 1, `honest` 0 |  | 2 s |",
        ]
    )
    (line,) = render(FOLDS, SEARCHED, only=["gin", "mutag"]).splitlines()[2:]
    assert line.startswith("| mutag | GIN-0 |")


def test_cells_of_a_table_with_rules_name_them() -> None:
    made = list(cells(FOLDS, SEARCHED, only=["mutag", "qgnn"]))
    assert [(one["protocol"], one["rule"], one["configs"]) for one in made] == [
        ("paper", "best-per-fold", 2),
        ("paper", "gin", 2),
        ("honest", "validation", 2),
    ]
    assert [one["mean"] for one in made] == pytest.approx([0.8, 0.7, 0.45])
    assert all(one.keys() == next(cells(TABLE, [])).keys() for one in made)


def test_table_1_is_rendered_without_records() -> None:
    lines = render(load_table("graph"), []).splitlines()
    assert len(lines) == 2 + 7 * 20
    why = "not run: up to 0.1 H200 hours"
    assert lines[2] == f"| collab | PSCN | 72.60 ± 2.15 | {why} | {why} | {why} |  |  |  |"
