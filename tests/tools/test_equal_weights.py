"""QGNN beside the GCN of half its width."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from quatgraph import config as configs
from quatgraph.reproduce.table import load_table
from quatgraph.tasks import TASKS
from tools.equal_weights import pair_runs, render_equal_search, render_equal_weights
from tools.searches import expand_search, read_searches

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


def searched(search: str, method: str, best: float, places: Sequence[int]) -> list[Any]:
    """The runs of some configurations of a search on PTC or DD, the first one with ``best``."""
    dataset = "ptc" if search == "graph-methods" else "dd"
    values = [*expand_search(read_searches()[search], f"graph/{dataset}-{method}", "honest")]
    made = []
    for place in places:
        config = configs.build(TASKS["graph"].config, values[place])
        for run in runs(method, 8, best - 0.01 * place):
            run.dataset, run.config_digest = dataset, configs.digest(config.identity())
            made.append(run)
    return made


def test_an_equal_search_selects_among_its_own_configurations_alone() -> None:
    whole = range(12)
    records = searched("graph-methods", "gcn", 0.5, whole)
    records += searched("graph-methods", "qgnn-symmetric", 0.6, whole)
    assert not render_equal_search(TABLE, records).splitlines()[2:]
    records += searched("graph-methods", "structure-free", 0.7, whole)
    records += searched("graph-methods", "gin", 0.9, whole[1:])
    records += runs("gcn", 8, 0.9)  # of another search
    assert render_equal_search(TABLE, records).splitlines()[2:] == [
        "| ptc | GCN | 12 | 51.00 ± 3.16 |  | -20.00 ± 0.00 |",
        "| ptc | structure-free | 12 | 71.00 ± 3.16 | +20.00 ± 0.00 |  |",
        "| ptc | QGNN, normalised adjacency | 12 | 61.00 ± 3.16 | +10.00 ± 0.00 | -10.00 ± 0.00 |",
    ]
    records += searched("graph-methods", "qgnn", 0.55, whole)
    lines = render_equal_search(TABLE, records).splitlines()
    assert lines[-1] == "| ptc | every QGNN | 24 | 61.00 ± 3.16 | +10.00 ± 0.00 | -10.00 ± 0.00 |"


def test_methods_are_compared_on_the_configurations_that_all_have() -> None:
    records = searched("graph-methods", "gcn", 0.5, range(9))
    records += searched("graph-methods", "qgnn-symmetric", 0.6, range(1, 12))
    records += searched("graph-methods", "structure-free", 0.7, range(12))
    gcn, free, qgnn = render_equal_search(TABLE, records).splitlines()[2:]
    assert gcn.startswith("| ptc | GCN | 8 | 50.00 ")
    assert free.startswith("| ptc | structure-free | 8 | 70.00 ")
    assert qgnn.startswith("| ptc | QGNN, normalised adjacency | 8 | 60.00 ")


def test_a_search_with_another_head_has_rows_of_its_own() -> None:
    records = searched("graph-perceptron", "gcn", 0.5, range(6))
    records += searched("graph-perceptron", "qgnn-symmetric", 0.6, range(6))
    gcn, qgnn = render_equal_search(TABLE, records).splitlines()[2:]
    assert gcn == "| dd | GCN, perceptron | 6 | 51.00 ± 3.16 |  |  |"
    assert qgnn == "| dd | QGNN, normalised adjacency, perceptron | 6 | 61.00 ± 3.16 |  |  |"
