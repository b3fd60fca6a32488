"""A cross-validated table of two folds, and records made up for it."""

from typing import Any

from made_up import made_up

from quatgraph.presets import Protocol
from quatgraph.reproduce.table import Table
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
    """A run of QGNN on MUTAG by default, with ``changes`` of its preset."""
    fields = {"metrics": {"test/accuracy": 0.5}, "epochs_run": 3, **others}
    dataset, method = fields.pop("dataset", "mutag"), fields.pop("method", "qgnn")
    return made_up("graph", dataset, method, *changes, protocol=protocol, split=fold, **fields)


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
