"""README's table of results: fixed pairs, honest numbers, on made-up records."""

import dataclasses

from crossvalidated import TABLE, honest, published
from made_up import made_up

from quatgraph.reproduce import table_names
from quatgraph.reproduce.table import load_table
from quatgraph.training.record import RunRecord
from tools.headline import PAIRS, QUATERNION, Pair, render_headline

GRAPHS = Pair("graphs: QGNN vs GIN", "graph", "qgnn", "gin")
TEXTS = Pair("texts: TextQGNN vs TextING", "text", "textqgnn", "texting")
TEXT_TABLE = dataclasses.replace(load_table("text"), rows=["mr"], seeds=2)
# The rules that look at test folds would show 90 % and more.
QGNN = published([[0.99, 0.9], [0.9, 0.99]]) + honest([(0.5, 0.5), (0.5, 0.4)])
GIN = honest([(0.5, 0.6), (0.5, 0.1)], method="gin")


def text(method: str, seed: int, valid: float, test: float, *changes: str) -> RunRecord:
    metrics = {"test/accuracy": test, "valid/accuracy": valid, "valid/loss": 1.0}
    return made_up("text", "mr", method, *changes, seed=seed, metrics=metrics)


def test_a_pair_is_compared_fold_by_fold_under_honest() -> None:
    # 0.5 - 0.6 and 0.4 - 0.1: mean 0.1, deviation 0.2828, by the root of two folds.
    assert render_headline([TABLE], QGNN + GIN, [GRAPHS]).splitlines() == [
        "| task | dataset | quaternion | real | difference ± s.e. "
        "| best without quaternions, by test result |",
        "|---|---|---|---|---|---|",
        "| graphs: QGNN vs GIN | mutag | 45.00 ± 7.07 (2) | 35.00 ± 35.36 (2) | +10.00 ± 20.00 "
        "| GIN-0: 35.00 ± 35.36 (2) |",
        "",
        "1 of 1 rows have a standard error. By more than two of them the quaternion model is "
        "ahead in 0 and behind in 0; the other 1 are within noise.",
    ]


def test_validation_data_chooses_among_configurations_however_they_do_on_test_data() -> None:
    other = [text("textqgnn", seed, 0.4, 0.99, "train.lr=0.001") for seed in (0, 1)]
    ours = [text("textqgnn", 0, 0.7, 0.6), text("textqgnn", 1, 0.7, 0.8)]
    real = [text("texting", 0, 0.7, 0.9), text("texting", 1, 0.7, 0.9)]
    row = render_headline([TEXT_TABLE], ours + other + real, [TEXTS]).splitlines()[2]
    assert "| 70.00 ± 14.14 (2) | 90.00 ± 0.00 (2) | -20.00 ± 10.00 |" in row


def test_a_single_common_run_has_a_difference_without_an_error() -> None:
    records = [text("textqgnn", 0, 0.7, 0.6), text("textqgnn", 1, 0.7, 0.8)]
    records += [text("texting", 0, 0.7, 0.9)]
    lines = render_headline([TEXT_TABLE], records, [TEXTS]).splitlines()
    assert "| 90.00 (1) | -30.00 | TextING: 90.00 (1) |" in lines[2]
    assert lines[-1].startswith("0 of 1 rows have a standard error.")


def test_the_last_column_is_the_best_method_without_quaternions() -> None:
    records = [text("textqgnn", 0, 0.7, 0.99), text("textqgnn-random", 0, 0.7, 0.98)]
    records += [text("texting", 0, 0.7, 0.5), text("bilstm", 0, 0.7, 0.6)]
    row = render_headline([TEXT_TABLE], records, [TEXTS]).splitlines()[2]
    assert row.endswith("| Bi-LSTM: 60.00 (1) |")
    transductive = [text("textgcn", 0, 0.7, 0.97), text("textsgc", 0, 0.7, 0.96)]
    assert render_headline([TEXT_TABLE], records + transductive, [TEXTS]).splitlines()[2] == row


def test_rows_beyond_two_standard_errors_are_counted_by_their_side() -> None:
    ahead = [
        text(m, seed, 0.7, v + seed / 100)
        for m, v in (("textqgnn", 0.8), ("texting", 0.6))
        for seed in (0, 1)
    ]
    last = render_headline([TEXT_TABLE], ahead, [TEXTS]).splitlines()[-1]
    assert "ahead in 1 and behind in 0; the other 0" in last
    turned = Pair("turned", "text", "texting", "textqgnn")
    last = render_headline([TEXT_TABLE], ahead, [turned]).splitlines()[-1]
    assert "ahead in 0 and behind in 1; the other 0" in last


def test_what_was_not_run_has_no_row() -> None:
    lines = render_headline([TABLE], QGNN, [GRAPHS]).splitlines()
    assert lines[2:3] == [""]


def test_pairs_name_methods_of_their_tables_and_set_quaternions_against_real_numbers() -> None:
    tables = {load_table(name).task: load_table(name) for name in table_names()}
    assert {pair.task for pair in PAIRS} == tables.keys()
    for pair in PAIRS:
        assert {pair.ours, pair.real} <= set(tables[pair.task].columns)
        assert (pair.ours in QUATERNION, pair.real in QUATERNION) == (True, False)
    known = {method for table in tables.values() for method in table.columns}
    assert known >= QUATERNION
    named = {method for method in known if "qgnn" in method or "quat" in method}
    assert named | {"hamilton-n3", "rotation4d-n3"} == QUATERNION
