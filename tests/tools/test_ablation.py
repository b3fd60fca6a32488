"""Changes of a preset, one line each."""

import dataclasses
from pathlib import Path

from quatgraph import config as configs
from quatgraph.presets import preset
from quatgraph.reproduce.table import load_table
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.training.record import RunRecord, read_records
from tools.ablation import render_ablation, render_pairs

RECORDS = Path(__file__).parents[2] / "results" / "records" / "node-cora.jsonl"


def changed(record: RunRecord, accuracy: float, *assignments: str) -> RunRecord:
    values = configs.override(preset("node/cora-qgnn"), assignments)
    config = configs.build(NodeConfig, values).identity()
    return dataclasses.replace(
        record,
        config=config,
        config_digest=configs.digest(config),
        metrics={"test/accuracy": accuracy},
    )


def test_runs_are_gathered_by_what_they_change_in_the_preset() -> None:
    some = read_records(RECORDS)[0]
    records = [
        changed(some, 0.9),
        changed(some, 0.8, "train.lr=0.5"),
        dataclasses.replace(changed(some, 0.6, "train.lr=0.5"), seed=some.seed + 1),
        dataclasses.replace(changed(some, 0.1), protocol="honest"),
    ]
    lines = render_ablation(load_table("node"), records).splitlines()
    assert lines[0] == "| method (changes) | cora | citeseer | pubmed |"
    assert lines[2:] == [
        "| QGNN (preset) | 90.00 ± 0.00 (1) |  |  |",
        "| QGNN (`train.lr = 0.5`) | 70.00 ± 14.14 (2) |  |  |",
    ]


def test_pairs_are_compared_split_by_split() -> None:
    some = read_records(RECORDS)[0]
    pairs = [{"this": ["qgnn"], "that": ["qgnn", "train.lr=0.5"]}]
    table = dataclasses.replace(load_table("node"), pairs=pairs, rows=["cora"])
    records = [
        dataclasses.replace(changed(some, accuracy, *change), split=split)
        for split, change, accuracy in [
            (0, (), 0.9),
            (1, (), 0.5),
            (0, ("train.lr=0.5",), 0.8),
            (1, ("train.lr=0.5",), 0.6),
        ]
    ]
    line = render_pairs(table, records).splitlines()[2]
    assert line == "| QGNN (preset) minus QGNN (`train.lr = 0.5`) | +0.00 ± 10.00 |"
