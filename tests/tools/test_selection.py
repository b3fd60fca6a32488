"""What a rule is worth, and who is ahead under ``honest``: on made-up records."""

from crossvalidated import TABLE, honest, published

from quatgraph.reproduce.rules import apply_rules
from tools.selection import (
    render_best,
    render_nested,
    render_paired,
    render_rule_effects,
    render_search,
)

QGNN = published([[0.9, 0.5], [0.5, 0.7]]) + honest([(0.5, 0.5), (0.5, 0.4)])
PTC = published([[0.6], [0.6]], dataset="ptc") + honest([(0.5, 0.5)] * 2, dataset="ptc")
GIN = honest([(0.5, 0.6), (0.5, 0.1)], method="gin")


def test_a_rule_is_worth_what_it_adds_on_the_datasets_that_have_all_rules() -> None:
    lines = render_rule_effects(TABLE, QGNN + PTC + GIN).splitlines()
    assert lines[0] == (
        "| method | datasets | best epoch per fold (selected on test) minus `honest` "
        "| `paper`: GIN's rule (selected on test) minus `honest` |"
    )
    # MUTAG: 0.8 and 0.7, less 0.45; PTC: 0.6 less 0.5 by both. GIN has honest runs alone.
    assert lines[2:] == [
        "| PSCN | 0 | not run | not run |",
        "| GIN-0 | 0 | not run | not run |",
        "| QGNN | 2 | +22.50 | +17.50 |",
    ]


def test_pairs_are_compared_fold_by_fold() -> None:
    # 0.5 - 0.6 and 0.4 - 0.1: mean 0.1, deviation 0.2828, by the root of two folds.
    assert render_paired(TABLE, QGNN + PTC + GIN).splitlines() == [
        "| comparison | mutag | ptc |",
        "|---|---|---|",
        "| QGNN minus GIN-0 | +10.00 ± 20.00 | not run |",
    ]


def test_presets_alone_are_one_configuration_each() -> None:
    # Searched, QGNN has 0.6 and 0.8 in place of its preset's 0.5 and 0.4.
    searched = honest([(0.6, 0.6), (0.9, 0.8)], "train.lr=1e-3")
    other = honest([(0.9, 0.9)] * 2, "train.epochs=7")
    records = QGNN + PTC + GIN + searched + other
    presets = QGNN + PTC + GIN
    assert apply_rules(TABLE, records, presets_only=True) == apply_rules(TABLE, presets)
    assert render_paired(TABLE, records, presets_only=True) == render_paired(TABLE, presets)
    assert render_paired(TABLE, records).splitlines()[2] == (
        "| QGNN minus GIN-0 | +35.00 ± 35.00 | not run |"
    )
    assert render_search(TABLE, records).splitlines() == [
        "| dataset | method | configurations | preset | selected | difference |",
        "|---|---|---|---|---|---|",
        "| mutag | QGNN | 2 | 45.0 ± 7.1 | 70.0 ± 14.1 | +25.00 ± 15.00 |",
    ]


def test_validation_data_selects_among_several_methods_fold_by_fold() -> None:
    gin = honest([(0.9, 0.6), (0.1, 0.1)], method="gin")
    assert render_best(TABLE, QGNN + PTC + gin, ["qgnn", "gin"], ["gin"]).splitlines()[2:] == [
        "| mutag | 2 | 1 GIN-0, 1 QGNN | 50.0 ± 14.1 | +15.00 ± 15.00 |",
        "| ptc | 1 | 2 QGNN | 50.0 ± 0.0 | not run |",
    ]


def test_what_others_measured_stands_beside_ours() -> None:
    assert render_nested(TABLE, QGNN + GIN).splitlines() == [
        "| method | source | mutag |",
        "|---|---|---|",
        "| PSCN | published | 70.0 ± 2.0 |",
        "| GIN-0 | published | 75.3 ± 2.9 |",
        "| GIN-0 | ours | 35.0 ± 35.4 |",
        "| QGNN | ours | 45.0 ± 7.1 |",
    ]


def test_without_records_nothing_has_run() -> None:
    assert render_rule_effects(TABLE, []).splitlines()[2:] == [
        "| PSCN | 0 | not run | not run |",
        "| GIN-0 | 0 | not run | not run |",
        "| QGNN | 0 | not run | not run |",
    ]
    assert render_paired(TABLE, []).splitlines()[2:] == ["| QGNN minus GIN-0 | not run | not run |"]
    assert len(render_nested(TABLE, []).splitlines()) == 4
