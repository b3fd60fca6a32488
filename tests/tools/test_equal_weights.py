"""QGNN beside the GCN of half its width."""

from types import SimpleNamespace
from typing import Any

from quatgraph.reproduce.table import load_table
from tools.equal_weights import pair_runs, render_equal_search, render_equal_weights

TABLE = load_table("graph")


def runs(method: str, width: int, accuracy: float, **settings: Any) -> list[Any]:
    """The runs of a configuration under ``honest``; that of fold 9 has another accuracy."""
    model = {"name": method.partition("-")[0], "hidden_quats": width, "num_layers": 2}
    return [
        SimpleNamespace(
            **{"task": "graph", "dataset": "ptc", "method": method, "protocol": "honest"},
            **{"seed": 0, "split": fold, "parameters": 10 * width * (2 if "gcn" in method else 1)},
            config={"model": model, "train": {"lr": 0.1} | settings},
            metrics={
                "test/accuracy": accuracy + 0.1 * (fold == 9),
                "valid/accuracy": accuracy,
                "valid/loss": 1.0,
            },
            config_digest=f"{method}{width}{settings}",
        )
        for fold in range(10)
    ]


def test_pairs_differ_in_the_width_only() -> None:
    records = [*runs("qgnn", 16, 0.5), *runs("gcn", 8, 0.4), *runs("gcn", 16, 0.9)]
    records += runs("gcn", 8, 0.7, lr=0.2) + runs("qgnn", 32, 0.5, lr=0.2)[:9]
    ((this, that),) = pair_runs(TABLE, records, "ptc", "qgnn")
    assert {run.config["model"]["hidden_quats"] for run in this.values()} == {16}
    assert {run.config["model"]["hidden_quats"] for run in that.values()} == {8}
    assert sorted(this) == sorted(that) == [*range(10)]


def test_the_difference_is_the_mean_over_pairs_of_each_fold() -> None:
    records = [*runs("qgnn", 16, 0.5), *runs("gcn", 8, 0.4)]
    records += runs("qgnn", 16, 0.5, lr=0.2) + runs("gcn", 8, 0.2, lr=0.2)
    (line,) = render_equal_weights(TABLE, records).splitlines()[2:]
    assert line == "| ptc | QGNN | 2 | 1.00 | +20.00 ± 0.00 |"


def test_an_equal_search_selects_among_its_own_configurations_alone() -> None:
    shared = {"epochs": 100, "batch_size": 32, "smoothing": 0.1, "clip": 0.5}

    def searched(method: str, best: float, count: int = 12) -> list[Any]:
        accuracies = [best - 0.01 * place for place in range(count)]
        return [
            run
            for place, accuracy in enumerate(accuracies)
            for run in runs(method, 8, accuracy, lr=0.1 + place, **shared)
        ]

    records = searched("gcn", 0.5) + searched("qgnn", 0.6) + searched("gin", 0.9, 2)
    records += runs("qgnn", 8, 0.9)  # of another search
    gcn, qgnn = render_equal_search(TABLE, records).splitlines()[2:]
    assert gcn == "| ptc | GCN | 12 | 51.00 ± 3.16 |  |  |"
    assert qgnn == "| ptc | QGNN | 12 | 61.00 ± 3.16 | +10.00 ± 0.00 |  |"

    records += searched("qgnn-symmetric", 0.7) + searched("structure-free", 0.8)
    lines = render_equal_search(TABLE, records).splitlines()[2:]
    assert lines[-1] == "| ptc | both QGNN | 24 | 71.00 ± 3.16 | +20.00 ± 0.00 | -10.00 ± 0.00 |"


def test_a_search_with_another_head_has_rows_of_its_own() -> None:
    shared = {"epochs": 100, "batch_size": 32, "smoothing": 0.1, "clip": 0.5}
    records = [run for place in range(6) for run in runs("gcn", 8, 0.5, lr=place, **shared)]
    for run in records:
        run.dataset = "dd"
        run.config["model"]["head"] = "perceptron"
    (line,) = render_equal_search(TABLE, records).splitlines()[2:]
    assert line == "| dd | GCN, perceptron | 6 | 51.00 ± 3.16 |  |  |"
    del records[0].config["model"]["head"]
    assert not render_equal_search(TABLE, records).splitlines()[2:]
