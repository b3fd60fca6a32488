"""Rules of choice on made-up curves: what each takes, what counts, and what no choice may see."""

import dataclasses
import math
import random

import pytest
from crossvalidated import TABLE, honest, published, record

from quatgraph.reproduce.rules import Selection, apply_rules, rule_cell
from quatgraph.reproduce.table import Cell, Rule, load_table
from quatgraph.training.record import RunRecord

FAST = "train.lr=1e-3"
DEEP = "model.num_layers=5"


def choice(records: list[RunRecord], rule: Rule) -> Selection:
    return apply_rules(TABLE, records)["mutag", "qgnn", rule]


def cell_of(records: list[RunRecord], rule: Rule) -> Cell:
    return rule_cell(TABLE, apply_rules(TABLE, records), "mutag", "qgnn", rule)


def test_the_best_epoch_of_each_fold_and_the_best_epoch_of_all() -> None:
    records = published([[0.5, 0.9, 0.6], [0.8, 0.1, 0.6]])
    assert choice(records, "best-per-fold").folds == [0.9, 0.8]
    # Means 0.65, 0.5, 0.6.
    assert choice(records, "gin").folds == [0.5, 0.8]
    made = cell_of(records, "gin")
    assert made.mean == pytest.approx(0.65)
    assert made.std == pytest.approx(0.3 / math.sqrt(2))
    assert (made.protocol, made.rule, made.runs, made.configs) == ("paper", "gin", 2, 1)


def test_each_rule_takes_the_configuration_that_is_best_by_it() -> None:
    spiky = published([[0.9, 0.1], [0.1, 0.9]], FAST)
    steady = published([[0.7, 0.2], [0.7, 0.2]], DEEP)
    assert choice(spiky + steady, "best-per-fold").runs == spiky
    assert choice(spiky + steady, "gin").runs == steady
    assert cell_of(spiky + steady, "gin").configs == 2


def test_an_epoch_at_which_a_run_diverged_counts_as_0() -> None:
    records = published([[0.4, math.nan], [0.4, 0.7]])
    assert choice(records, "gin").folds == [0.4, 0.4]
    assert choice(records, "best-per-fold").folds == [0.4, 0.7]
    lost = honest([(0.9, math.nan), (0.9, 0.5)])
    assert choice(lost, "validation").folds == [0.0, 0.5]


def test_validation_data_chooses_on_each_fold_by_itself() -> None:
    records = honest([(0.9, 0.3), (0.2, 0.8)], FAST) + honest([(0.8, 0.7), (0.6, 0.5)], DEEP)
    made = choice(records, "validation")
    assert made.folds == [0.3, 0.5]
    assert [run.config["train"]["lr"] for run in made.runs] == [1e-3, 5e-4]


def test_among_equals_the_lower_validation_loss_decides_and_a_diverged_run_is_last() -> None:
    records = honest([(0.9, 0.1, 0.5), (0.9, 0.1, math.nan)], FAST)
    records += honest([(0.9, 0.2, 0.4), (0.1, 0.2, 9.0)], DEEP)
    assert choice(records, "validation").folds == [0.2, 0.2]


def test_the_honest_choice_stays_whatever_the_test_folds_say() -> None:
    draw = random.Random(0)
    changes = (FAST, DEEP, "train.lr=1e-4")
    records = [r for c in changes for r in honest([(draw.random(), 0.5)] * 2, c)]
    kept = [r.config_digest for r in choice(records, "validation").runs]
    for _ in range(5):
        other = [
            dataclasses.replace(r, metrics=r.metrics | {"test/accuracy": draw.random()})
            for r in records
        ]
        assert [r.config_digest for r in choice(other, "validation").runs] == kept


def test_seeds_are_averaged_before_anything_is_chosen() -> None:
    records = published([[1.0, 0.0], [0.5, 0.4]]) + published([[0.0, 0.8], [0.5, 0.4]], seed=1)
    # The mean curves are [0.5, 0.4] on both folds.
    for rule in ("best-per-fold", "gin"):
        made = cell_of(records, rule)  # type: ignore[arg-type]
        assert (made.mean, made.std, made.runs) == (0.5, 0.0, 4)
    twice = honest([(0.5, 0.2), (0.5, 0.4)]) + honest([(0.9, 0.6), (0.9, 0.8)], seed=1)
    other = honest([(0.8, 0.9), (0.6, 0.9)], FAST) + honest([(0.8, 0.7), (0.6, 0.7)], FAST, seed=1)
    # On validation data 0.7 in the mean on both folds: less than 0.8, more than 0.6.
    made = choice(twice + other, "validation")
    assert made.folds == pytest.approx([0.8, 0.6])
    assert len(made.runs) == 4


def test_a_configuration_that_lacks_a_fold_does_not_count() -> None:
    whole, part = published([[0.5], [0.5]]), published([[0.9], [0.9]], FAST)[:1]
    assert cell_of(whole + part, "gin").configs == 1
    assert choice(whole + part, "gin").folds == [0.5, 0.5]
    assert apply_rules(TABLE, part) == {}
    assert apply_rules(TABLE, honest([(0.9, 0.9)])) == {}


def test_only_the_preset_and_what_the_task_searches_count() -> None:
    mine = published([[0.5], [0.5]])
    for change in ("train.epochs=7", "model.normalization=symmetric", "data.fold_seed=3"):
        assert choice(mine + published([[0.9], [0.9]], change), "gin").folds == [0.5, 0.5]
    searched = "model.hidden_quats=8"
    assert choice(mine + published([[0.9], [0.9]], searched), "gin").folds == [0.9, 0.9]


@pytest.mark.parametrize(
    "others",
    [{"dataset": "ptc"}, {"method": "gin"}, {"task": "node"}],
    ids=["another dataset", "another method", "another task"],
)
def test_what_belongs_elsewhere_does_not_count(others: dict[str, str]) -> None:
    mine = published([[0.5], [0.5]])
    assert choice(mine + published([[0.9], [0.9]], **others), "gin").runs == mine


def test_a_run_that_is_on_record_twice_counts_once() -> None:
    assert cell_of(published([[0.5], [0.5]]) * 2, "gin").runs == 2


def test_a_method_without_a_preset_has_no_choice() -> None:
    odd = [dataclasses.replace(record("paper", fold), method="pscn") for fold in range(2)]
    assert apply_rules(TABLE, odd) == {}


def test_a_cell_says_what_is_behind_it() -> None:
    records = published([[0.5], [0.5]], FAST, ensemble="one", parameters=7)
    records += published([[0.6], [0.6]], DEEP, ensemble="two", seconds=3.5, parameters=9)
    made = cell_of(records, "best-per-fold")
    assert (made.configs, made.seconds, made.parameters) == (2, 5.5, 9)
    assert (made.task, made.dataset, made.method) == ("graph", "mutag", "qgnn")
    assert (made.metric, made.paper) == ("test/accuracy", 0.9259)
    folds = honest([(0.9, 0.5), (0.1, 0.5)], FAST, parameters=7)
    folds += honest([(0.1, 0.5), (0.9, 0.5)], DEEP, parameters=9)
    assert cell_of(folds, "validation").parameters == 9
    nothing = cell_of([], "validation")
    assert (nothing.mean, nothing.std, nothing.parameters) == (None, None, None)
    assert (nothing.protocol, nothing.runs, nothing.configs) == ("honest", 0, 0)


def test_the_rules_of_table_1_are_known() -> None:
    assert set(load_table("graph").rules) == {"best-per-fold", "gin", "validation"}
    assert load_table("node").rules == []
