"""A cross-validated table of two folds, and records made up for it."""

from typing import Any

from quatgraph import config as configs
from quatgraph.presets import Protocol, preset
from quatgraph.reproduce.table import Table
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.training.record import RunRecord

TABLE = Table(
    name="tiny",
    title="A tiny table",
    task="graph",
    metric="test/accuracy",
    rows=["mutag", "ptc"],
    columns=["pscn", "gin", "qgnn"],
    methods={"pscn": "PSCN", "gin": "GIN-0", "qgnn": "QGNN"},
    splits=2,
    seeds=1,
    paper={"mutag": {"pscn": 0.9263, "qgnn": 0.9259}, "ptc": {"qgnn": 0.6992}},
    paper_std={"mutag": {"pscn": 0.0421, "qgnn": 0.0359}},
    nested={"mutag": {"pscn": (0.7, 0.02), "gin": (0.753, 0.029)}},
    rules=["best-per-fold", "gin", "validation"],
    pairs=[{"this": ["qgnn"], "that": ["gin"]}],
)


def record(protocol: Protocol, fold: int, *changes: str, **others: Any) -> RunRecord:
    """A run of QGNN on MUTAG, with ``changes`` of its preset."""
    dataset, method = others.get("dataset", "mutag"), others.get("method", "qgnn")
    values = configs.override(preset(f"graph/{dataset}-{method}", protocol), changes)
    config = configs.build(GraphConfig, values).identity()
    made = {
        "task": "graph",
        "dataset": dataset,
        "method": method,
        "protocol": protocol,
        "split": fold,
        "seed": 0,
        "config": config,
        "config_digest": configs.digest(config),
        "data_digest": "d",
        "members": {},
        "metrics": {"test/accuracy": 0.5},
        "best_epoch": 1,
        "epochs_run": 3,
        "parameters": 100,
        "seconds": 2.0,
        "ensemble": "e",
        "curves": {},
        "environment": {},
        "finished": "",
    }
    return RunRecord(**made | others)


def published(folds: list[list[float]], *changes: str, **others: Any) -> list[RunRecord]:
    """Runs under ``paper``: the test accuracy of each fold, epoch by epoch."""
    return [
        record("paper", fold, *changes, curves={"test/accuracy": curve}, **others)
        for fold, curve in enumerate(folds)
    ]


def honest(folds: list[tuple[float, ...]], *changes: str, **others: Any) -> list[RunRecord]:
    """Runs under ``honest``: validation and test accuracy of each fold, perhaps the validation
    loss."""
    return [
        record(
            "honest",
            fold,
            *changes,
            metrics={
                "valid/accuracy": valid,
                "test/accuracy": test,
                "valid/loss": loss[0] if loss else 1.0,
            },
            **others,
        )
        for fold, (valid, test, *loss) in enumerate(folds)
    ]
