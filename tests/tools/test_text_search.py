"""The search of text graphs: the effect of each setting, and the selected configurations; on
made-up records."""

import dataclasses

from made_up import made_up

from quatgraph.reproduce.table import load_table
from quatgraph.training.record import RunRecord
from tools.searches import complete_axes, read_searches
from tools.text_search import (
    LIFT_SEARCH,
    SEARCH,
    render_effects,
    render_lift,
    render_selected,
    searched_runs,
)

TABLE = dataclasses.replace(load_table("text"), rows=["r8"], columns=["texting", "textqgnn"])


def run(
    method: str, valid: float, test: float, *settings: str, seed: int = 0, lr: str = "1e-3"
) -> RunRecord:
    """A run of the search, with .2 dropout and the sum of words times their maximum."""
    search, name = read_searches()[SEARCH], f"text/r8-{method}"
    own = "model.lift='split'" if method == "textqgnn" else "model.bias=false"
    first = [f"train.lr={lr}", "model.dropout=0.2", "model.pooling='sum-times-max'", own]
    return made_up(
        "text",
        "r8",
        method,
        *complete_axes(name, [*search["set"], *first, *settings]),
        seed=seed,
        metrics={"test/accuracy": test, "valid/accuracy": valid, "valid/loss": 1.0},
    )


LEARNED, BIAS = "model.lift='learned'", "model.bias=true"
FAST = "3e-3"


def test_runs_of_other_configurations_are_not_searched_ones() -> None:
    others = [run("textqgnn", 0.9, 0.9, "model.hidden_quats=24"), run("texting", 0.9, 0.9)]
    records = [*others, run("textqgnn", 0.5, 0.5), run("textqgnn", 0.6, 0.6, LEARNED)]
    found = searched_runs(TABLE, records, "r8", "textqgnn")
    assert [dict(settings)["model.lift"] for settings in found] == ["split", "learned"]
    assert [[r.metrics["test/accuracy"] for r in runs] for runs in found.values()] == [[0.5], [0.6]]


def test_an_effect_is_the_mean_over_pairs_that_differ_in_one_setting() -> None:
    records = [
        run("textqgnn", 0.50, 0.40),
        run("textqgnn", 0.52, 0.46, LEARNED),
        run("textqgnn", 0.60, 0.50, lr=FAST),
        run("textqgnn", 0.66, 0.52, LEARNED, lr=FAST),
        run("textqgnn", 0.99, 0.99, LEARNED, seed=1),  # of another seed
    ]
    lines = render_effects(TABLE, records).splitlines()
    assert lines[0] == "| change | r8 |"
    assert lines[2:] == [
        "| TextQGNN, lift split to learned | +4.00 ± 2.00 / +4.00 ± 2.00 |",
        "| TextQGNN, lr 0.001 to 0.003 | +12.00 ± 2.00 / +8.00 ± 2.00 |",
    ]


def test_methods_are_compared_with_otherwise_equal_settings() -> None:
    records = [
        run("textqgnn", 0.50, 0.40),
        run("textqgnn", 0.50, 0.40, lr=FAST),
        run("texting", 0.60, 0.40),
        run("texting", 0.70, 0.50, BIAS),
        run("texting", 0.55, 0.41, lr=FAST),
    ]
    *_, last = render_effects(TABLE, records).splitlines()
    # -15 and -5 on validation data, -5 and -1 on test data.
    assert last == "| TextQGNN, lift split, minus TextING | -10.00 ± 5.00 / -3.00 ± 2.00 |"


def test_validation_data_selects_and_seeds_are_paired() -> None:
    records = [run("textqgnn", 0.6, 0.5), run("textqgnn", 0.5, 0.9, LEARNED)]
    records += [run("textqgnn", 0.6, 0.7, seed=1)]
    records += [run("texting", 0.7, 0.4), run("texting", 0.7, 0.5, seed=1)]
    real, ours = render_selected(TABLE, records).splitlines()[2:]
    shared = "dropout 0.2, pooling sum-times-max"
    assert real == (
        f"| r8 | TextING | {shared}, bias False, lr 0.001 "
        "| 70.00 ± 0.00 (2) | 45.00 ± 7.07 (2) |  |"
    )
    assert ours == (
        f"| r8 | TextQGNN | {shared}, lift split, lr 0.001 "
        "| 60.00 ± 0.00 (2) | 60.00 ± 14.14 (2) | +15.00 ± 5.00 |"
    )


def test_the_learned_lift_is_compared_with_equal_settings_and_the_same_seeds() -> None:
    fixed = ["train.lr=5e-3", "model.dropout=0.5", "train.batch_size=4096", "model.hidden_quats=96"]

    def fixed_run(method: str, test: float, *more: str, seed: int = 0) -> RunRecord:
        axes = complete_axes(f"text/r8-{method}", [*fixed, *more])
        metrics = {"test/accuracy": test, "valid/accuracy": test / 2, "valid/loss": 1.0}
        return made_up("text", "r8", method, *axes, seed=seed, metrics=metrics)

    assert read_searches()[LIFT_SEARCH]["also"]["text/r8-textqgnn"][1] == fixed[1]
    records = [fixed_run("textqgnn", 0.6, LEARNED), fixed_run("textqgnn", 0.8, LEARNED, seed=1)]
    records += [fixed_run("textqgnn", 0.5), fixed_run("textqgnn", 0.5, seed=1)]
    records += [fixed_run("texting", 0.7, seed=1), fixed_run("texting", 0.1, BIAS)]
    *_, line = render_lift(TABLE, records).splitlines()
    assert line == (
        "| r8 | lr 0.005, dropout 0.5 | 35.00 ± 7.07 (2) | 70.00 ± 14.14 (2) "
        "| +10.00 ± 5.00 / +20.00 ± 10.00 | +5.00 / +10.00 |"
    )


def test_without_runs_there_is_no_table() -> None:
    for render in (render_effects, render_selected, render_lift):
        assert render(TABLE, []) == "Not run yet."
