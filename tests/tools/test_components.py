"""The table of hypercomplex models by number of components."""

from dataclasses import replace

from recorded import recorded

from quatgraph.training.record import RunRecord
from tools.components import render_components

RECORD = recorded()[0]


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
        config_digest=f"{n} {rules}",
        metrics={"valid/accuracy": accuracy + 0.1, "test/accuracy": accuracy},
    )


def test_differences_are_paired_by_split() -> None:
    runs = [record(1, "fixed", 0, 0.5), record(1, "fixed", 1, 0.7)]
    runs += [record(8, "learned", 1, 0.72), record(8, "learned", 0, 0.54)]
    others = [replace(runs[0], method="gcn"), replace(runs[0], dataset="citeseer")]
    *_, real, learned = render_components([*others, *runs], "cora", "phm", "accuracy").splitlines()
    assert real == "| 1 | 32 | fixed | 1,000 | 70.00 ± 14.14 (2) | 60.00 ± 14.14 (2) |  |"
    assert learned.startswith(
        "| 8 | 32 | learned | 8,000 | 73.00 ± 12.73 (2) | 63.00 ± 12.73 (2) |"
    )
    assert learned.endswith("| +3.00 ± 1.00 |")


def test_without_runs_there_is_no_table() -> None:
    assert render_components([], "cora", "phm", "accuracy") == "Not run yet."


def test_of_several_configurations_the_one_that_is_best_on_validation_data_is_shown() -> None:
    def run(n: int, lr: float, seed: int, valid: float, test: float) -> RunRecord:
        config = {"model": {"n": n, "rules": "fixed", "dim_quats": 250}, "train": {"lr": lr}}
        return replace(
            record(n, "fixed", 0, 0.0),
            method="phm-n3",
            seed=seed,
            config=config,
            config_digest=f"{n} {lr}",
            metrics={"valid/mrr": valid, "test/mrr": test},
        )

    runs = [run(1, 0.1, seed, 0.3, 0.3) for seed in range(2)]
    runs += [run(4, 0.1, seed, 0.4, 0.35 + 0.01 * seed) for seed in range(2)]
    runs += [run(4, 0.2, seed, 0.3, 0.9) for seed in range(2)]
    *_, real, ours = render_components(runs, "cora", "phm-n3", "mrr").splitlines()
    assert real == "| 1 | 1,000 | fixed | 1,000 | .300 ± .000 (2) | .300 ± .000 (2) |  |"
    assert ours == (
        "| 4 | 1,000 | fixed | 4,000 | .400 ± .000 (2) | .355 ± .007 (2) | +.055 ± .005 |"
    )
