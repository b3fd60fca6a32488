"""The models of graphs on a built-in dataset: their times and their memory."""

import json
from subprocess import CalledProcessError, TimeoutExpired

import pytest
import torch

from benchmarks import graph_methods, rows
from benchmarks.render import render_graph_methods
from quatgraph.training.runtime import environment

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_methods, "SMALL", "cycles")
    monkeypatch.setattr(graph_methods, "LARGE", "cycles")
    monkeypatch.setattr(graph_methods, "TIMED", {"QGNN": ("qgnn",), "wide": ("qgnn",)})
    monkeypatch.setattr(graph_methods, "EPOCHS", 1)
    monkeypatch.setattr(graph_methods, "ROUNDS", 2)


def test_times_are_beside_those_of_the_first_method(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_methods, "methods", list)
    first, second = rows("graph_methods", CPU)
    assert (first["variant"], first["ratio"]) == ("QGNN", 1)
    assert second["ms"] > 0
    assert second["ratio"] > 0


def test_every_method_of_the_table_with_a_preset_is_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert graph_methods.methods() == ["qgnn"]
    monkeypatch.undo()
    assert {"gat", "ppgn", "qgnn", "pscn"} < {*graph_methods.methods()}


def test_a_few_steps_and_a_chunk_take_memory() -> None:
    found = graph_methods.measure_memory("qgnn", CPU)
    assert found["members"] == 10
    assert found.get("peak_mib", 1) > 0


def test_a_process_that_fails_or_takes_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    row = graph_methods._memory("none", CPU)
    assert "no preset" in row["outcome"] or "none" in row["outcome"]

    def late(*_: object, **__: object) -> None:
        raise TimeoutExpired(["python"], 900)

    monkeypatch.setattr(graph_methods.subprocess, "run", late)
    assert graph_methods._memory("qgnn", CPU)["outcome"] == "no result in 15 minutes"

    def killed(*_: object, **__: object) -> None:
        raise CalledProcessError(-9, ["python"], stderr="")

    monkeypatch.setattr(graph_methods.subprocess, "run", killed)
    assert graph_methods._memory("qgnn", CPU)["outcome"] == "exit code -9"


def test_records_are_two_tables(tmp_path) -> None:
    machine = environment(CPU)
    made = [
        {"case": "a", "work": "w", "variant": "QGNN", "ms": 2.0, "ratio": 1.0},
        {"case": "b", "work": "w", "variant": "gat", "members": 3, "peak_mib": 2048.4},
        {"case": "b", "work": "w", "variant": "ppgn", "outcome": "refused"},
    ]
    lines = [json.dumps({"bench": "graph_methods", **row, "environment": machine}) for row in made]
    (tmp_path / "graph_methods.jsonl").write_text("\n".join(lines))
    times, memory = render_graph_methods(tmp_path).split("\n\n")
    assert times.endswith("| a | QGNN | 2 ms | 1 |")
    assert "| b | gat | 3 | 2,048 MiB |" in memory
    assert memory.endswith("| b | ppgn |  | refused |")
