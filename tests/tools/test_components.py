"""The table of hypercomplex models by number of components."""

from dataclasses import replace
from pathlib import Path

from quatgraph.reproduce.run import read_results
from quatgraph.training.record import RunRecord
from tools.components import render_components

RECORD = read_results(Path(__file__).parents[2] / "results")[0]


def record(n: int, rules: str, split: int, accuracy: float) -> RunRecord:
    model = {"n": n, "rules": rules, "hidden_quats": 8}
    return replace(
        RECORD,
        task="node",
        dataset="cora",
        method="phm",
        split=split,
        parameters=1000 * n,
        config={"model": model},
        metrics={"valid/accuracy": accuracy + 0.1, "test/accuracy": accuracy},
    )


def test_differences_are_paired_by_split() -> None:
    runs = [record(1, "fixed", 0, 0.5), record(1, "fixed", 1, 0.7)]
    runs += [record(8, "learned", 1, 0.72), record(8, "learned", 0, 0.54)]
    others = [replace(runs[0], method="gcn"), replace(runs[0], dataset="citeseer")]
    *_, real, learned = render_components([*others, *runs], "cora").splitlines()
    assert real == "| 1 | 32 | fixed | 1,000 | 70.00 ± 14.14 (2) | 60.00 ± 14.14 (2) |  |"
    assert learned.startswith(
        "| 8 | 32 | learned | 8,000 | 73.00 ± 12.73 (2) | 63.00 ± 12.73 (2) |"
    )
    assert learned.endswith("| +3.00 ± 1.00 |")
