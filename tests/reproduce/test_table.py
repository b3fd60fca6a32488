"""Cells out of hand-made records: what is counted, what is chosen, what is ignored."""

import dataclasses
import random
from typing import Any

import pytest
from made_up import made_up

from quatgraph.errors import UserError
from quatgraph.presets import Protocol, preset
from quatgraph.reproduce.table import (
    Cell,
    Table,
    cell,
    honest_finalists,
    load_table,
    select_shown,
)
from quatgraph.tasks import TASKS
from quatgraph.tasks.selection import choose_by_validation
from quatgraph.training.record import RunRecord

TABLE = Table(
    name="tiny",
    title="A tiny table",
    task="node",
    metric="test/accuracy",
    rows=["cora", "karate"],
    columns=["qgnn", "gcn", "hgcn"],
    methods={"qgnn": "QGNN", "gcn": "GCN", "hgcn": "HGCN"},
    splits=2,
    seeds=2,
    paper={"cora": {"qgnn": 0.8748, "hgcn": 0.8609}},
)
QGNN = made_up("node", "cora", "qgnn")


def record(test: float, valid: float = 0.5, **changes: Any) -> RunRecord:
    """A run of QGNN on Cora under the protocol ``honest``."""
    fields: dict[str, Any] = {
        "protocol": "honest",
        "config": {},
        "config_digest": "a",
        "metrics": {"test/accuracy": test, "valid/accuracy": valid, "valid/loss": 1.0},
    }
    return dataclasses.replace(QGNN, **fields | changes)


def cell_of(records: list[RunRecord], protocol: Protocol = "honest") -> Cell:
    return cell(TABLE, records, "cora", "qgnn", protocol)


def paper_record(test: float, **changes: Any) -> RunRecord:
    return record(test, **{"protocol": "paper", "config_digest": QGNN.config_digest} | changes)


def test_a_cell_is_the_mean_and_the_sample_standard_deviation_of_its_runs() -> None:
    made = cell_of([paper_record(t, split=s) for s, t in enumerate((0.80, 0.82, 0.87))], "paper")
    assert made.mean == pytest.approx(0.83)
    assert made.std == pytest.approx(0.036055512754639891)  # over n - 1
    assert (made.runs, made.configs) == (3, 1)
    assert made.paper == 0.8748
    assert (made.task, made.dataset, made.method) == ("node", "cora", "qgnn")
    assert (made.protocol, made.metric) == ("paper", "test/accuracy")
    assert made.parameters == 100
    assert made.rule == "preset"
    assert cell_of([], "honest").rule == "validation"


def test_a_cell_without_runs_is_empty() -> None:
    made = cell(TABLE, [record(0.9, dataset="karate")], "cora", "hgcn", "paper")
    assert (made.mean, made.std, made.parameters) == (None, None, None)
    assert (made.runs, made.configs, made.seconds) == (0, 0, 0)
    assert made.paper == 0.8609
    assert cell(TABLE, [], "karate", "qgnn", "honest").paper is None


def test_a_run_has_its_share_of_its_ensembles_seconds_on_its_machine() -> None:
    four = {"product": {"train.lr": [0.1, 0.2], "split": [0, 1]}}
    gpu, cpu = {"device": "a GPU"}, {"device": "cpu", "cpu": "a CPU", "cpus": "2"}
    records = [
        paper_record(0.8, split=0, seconds=4.0, members=four, environment=gpu),
        paper_record(0.8, split=1, seconds=3.0, ensemble="two", environment=cpu),
    ]
    made = cell_of(records, "paper")
    assert made.seconds_per_run == {"a CPU, 2 cores": 3.0, "a GPU": 1.0}
    in_columns = {"columns": {"train.lr": [0.1, 0.2], "split": [0, 1]}}
    assert paper_record(0.8, seconds=4.0, members=in_columns).share == 2.0


def test_the_seconds_of_an_ensemble_are_counted_once() -> None:
    records = [
        paper_record(0.8, split=0, ensemble="one", seconds=3.0),
        paper_record(0.8, split=1, ensemble="one", seconds=3.0),
        paper_record(0.8, split=0, seed=1, ensemble="two", seconds=0.5),
    ]
    assert cell_of(records, "paper").seconds == 3.5


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "citeseer"},
        {"method": "gcn"},
        {"protocol": "honest"},
        {"task": "graph"},
        {"seed": 2},
        {"config_digest": "another"},
    ],
)
def test_a_paper_cell_counts_only_what_belongs_to_it(changes: dict[str, Any]) -> None:
    made = cell_of([paper_record(0.8), paper_record(0.1, **changes)], "paper")
    assert (made.runs, made.configs, made.mean, made.seconds) == (1, 1, 0.8, 2.0)


def test_an_honest_cell_counts_every_configuration_that_was_tried() -> None:
    records = [
        record(0.70, valid=0.6, config_digest="a", ensemble="one"),
        record(0.60, valid=0.9, config_digest="b", ensemble="two", parameters=7),
        record(0.99, valid=0.8, config_digest="c", ensemble="three", seconds=5.0),
        record(0.99, valid=1.0, config_digest="d", seed=2),
    ]
    made = cell_of(records)
    assert (made.mean, made.std, made.runs, made.configs) == (0.60, 0.0, 1, 3)
    assert made.seconds == 9.0
    assert made.parameters == 7


def test_the_configuration_is_chosen_for_each_split_by_the_mean_over_its_seeds() -> None:
    records = [
        # On split 0, b has the single best run but a the better mean.
        record(0.1, valid=0.80, config_digest="a", split=0, seed=0),
        record(0.2, valid=0.80, config_digest="a", split=0, seed=1),
        record(0.9, valid=0.90, config_digest="b", split=0, seed=0),
        record(0.9, valid=0.60, config_digest="b", split=0, seed=1),
        # On split 1, b is better on both.
        record(0.9, valid=0.70, config_digest="a", split=1, seed=0),
        record(0.9, valid=0.70, config_digest="a", split=1, seed=1),
        record(0.3, valid=0.71, config_digest="b", split=1, seed=0),
        record(0.4, valid=0.71, config_digest="b", split=1, seed=1),
    ]
    chosen = choose_by_validation(records)
    assert [(r.split, r.seed, r.config_digest) for r in chosen] == [
        (0, 0, "a"),
        (0, 1, "a"),
        (1, 0, "b"),
        (1, 1, "b"),
    ]
    assert cell_of(records).mean == pytest.approx((0.1 + 0.2 + 0.3 + 0.4) / 4)


def test_configurations_are_compared_on_the_seeds_that_all_have_and_all_seeds_are_chosen() -> None:
    twice = [
        record(0.1, valid=0.8, config_digest="a", seed=0),
        record(0.2, valid=0.1, config_digest="a", seed=1),
    ]
    once = [record(0.9, valid=0.7, config_digest="b", seed=0)]
    assert choose_by_validation(twice + once) == twice
    better = [record(0.9, valid=0.9, config_digest="b", seed=0)]
    assert choose_by_validation(twice + better) == better
    # None in common: each by its own.
    apart = [record(0.9, valid=0.5, config_digest="b", seed=3)]
    assert choose_by_validation(twice + apart) == apart


def test_configurations_with_several_seeds_are_compared_by_all_of_them() -> None:
    lucky = [
        record(0.1, valid=0.9, config_digest="a", seed=0),
        record(0.1, valid=0.5, config_digest="a", seed=1),
    ]
    steady = [
        record(0.2, valid=0.8, config_digest="b", seed=0),
        record(0.2, valid=0.8, config_digest="b", seed=1),
    ]
    rest = [record(0.9, valid=0.7, config_digest="c", seed=0)]
    # A third one with the first seed alone neither wins nor hides what the second seed showed.
    runs = rest + lucky + steady
    assert select_shown(TABLE, runs, "honest") == steady
    assert choose_by_validation(lucky + rest) == lucky
    for count, finalists in ((1, lucky), (2, lucky + steady), (9, lucky + steady + rest)):
        table = dataclasses.replace(TABLE, finalists=count)
        assert honest_finalists(table, runs) == finalists


def test_among_equals_the_loss_decides_unless_the_table_takes_the_first() -> None:
    first, second = (
        dataclasses.replace(one, metrics=one.metrics | {"valid/loss": loss})
        for one, loss in (
            (record(0.1, config_digest="a"), 2.0),
            (record(0.2, config_digest="b"), 1.0),
        )
    )
    assert choose_by_validation([first, second]) == [second]
    assert select_shown(TABLE, [first, second], "honest") == [first]


def test_the_choice_stays_whatever_the_test_data_says() -> None:
    draw = random.Random(0)
    records = [
        record(draw.random(), draw.random(), config_digest=digest, split=split, seed=seed)
        for digest in "abcd"
        for split in range(4)
        for seed in range(2)
    ]
    tests = [r.metrics["test/accuracy"] for r in records]
    choice = [(r.config_digest, r.split, r.seed) for r in choose_by_validation(records)]
    assert len({digest for digest, _, _ in choice}) > 1
    for _ in range(10):
        draw.shuffle(tests)
        other = [
            dataclasses.replace(r, metrics=r.metrics | {"test/accuracy": test})
            for r, test in zip(records, tests, strict=True)
        ]
        again = [(r.config_digest, r.split, r.seed) for r in choose_by_validation(other)]
        assert again == choice


@pytest.mark.parametrize(
    ("only", "cells"),
    [
        ([], [(d, m) for d in ("cora", "karate") for m in ("qgnn", "gcn", "hgcn")]),
        (["karate"], [("karate", "qgnn"), ("karate", "gcn"), ("karate", "hgcn")]),
        (["gcn"], [("cora", "gcn"), ("karate", "gcn")]),
        (["hgcn", "qgnn"], [(d, m) for d in ("cora", "karate") for m in ("qgnn", "hgcn")]),
        (["gcn", "cora"], [("cora", "gcn")]),
        (["karate", "cora", "gcn"], [("cora", "gcn"), ("karate", "gcn")]),
    ],
)
def test_only_is_a_union_within_a_kind_and_an_intersection_across(
    only: list[str], cells: list[tuple[str, str]]
) -> None:
    assert list(TABLE.cells(only)) == cells


def test_an_unknown_name_in_only_is_a_mistake() -> None:
    with pytest.raises(UserError, match="table 'tiny' has no 'cara'; did you mean 'cora'"):
        TABLE.cells(["cara"])
    with pytest.raises(UserError, match="has no 'zzz'; choose from cora, karate, qgnn"):
        TABLE.cells(["zzz"])


def test_a_method_without_a_preset_is_not_run() -> None:
    assert TABLE.preset_of("cora", "qgnn") == "node/cora-qgnn"
    assert TABLE.preset_of("karate", "hgcn") is None


def test_table_2_holds_published_numbers() -> None:
    table = load_table("node")
    assert table.rows == ["cora", "citeseer", "pubmed"]
    assert table.paper["cora"] == pytest.approx(
        {"qgnn": 0.8748, "gcn": 0.8577, "gcnii": 0.8849, "gat": 0.8637, "hgcn": 0.8609}
    )
    assert table.paper["pubmed"]["qgnn"] == pytest.approx(0.8765)
    assert (table.splits, table.seeds) == (10, 10)
    assert set(table.methods) == set(table.columns)
    assert all(set(row) <= set(table.columns) for row in table.paper.values())
    assert all(table.preset_of(d, m) for d in table.rows for m in table.columns)


def test_table_1_holds_the_numbers_of_the_paper_with_their_spread() -> None:
    table = load_table("graph")
    assert table.rows == ["collab", "imdb-b", "imdb-m", "dd", "proteins", "mutag", "ptc"]
    assert list(table.methods) == table.columns
    qgnn = [table.paper[dataset]["qgnn"] for dataset in table.rows]
    assert qgnn == pytest.approx([0.8136, 0.7756, 0.5378, 0.7992, 0.7847, 0.9259, 0.6992])
    spread = [table.paper_std[dataset]["qgnn"] for dataset in table.rows]
    assert spread == pytest.approx([0.0131, 0.0245, 0.0383, 0.0354, 0.0330, 0.0359, 0.0259])
    iegn = table.paper["mutag"]["iegn"], table.paper_std["mutag"]["iegn"]
    assert iegn == pytest.approx((0.8461, 0.1))
    # Twelve methods on seven sets, less nine dashes.
    for numbers in (table.paper, table.paper_std):
        assert sum(map(len, numbers.values())) == 12 * 7 - 9
    assert table.nested["dd"]["structure-free"] == pytest.approx((0.784, 0.045))
    assert sum(map(len, table.nested.values())) == 5 * 4
    assert (table.splits, table.seeds) == (10, 1)


def test_what_table_1_runs_has_a_preset_for_every_dataset_within_reach() -> None:
    table = load_table("graph")
    ran = ["gcn", "sage", "gat", "gcaps", "dgcnn", "topk", "sagpool", "diffpool", "ugformer", "gin"]
    ran += ["ugformer1", "pscn", "capsgnn", "iegn", "ppgn", "gfn", "structure-free"]
    ran += ["qgnn", "qgnn-symmetric", "qgnn-norm"]
    for dataset, method in table.cells():
        reachable = (dataset, method) not in {("dd", "iegn"), ("dd", "ppgn")}
        assert bool(table.preset_of(dataset, method)) == (method in ran and reachable)
        assert table.reason(dataset, method)
    assert table.reason("dd", "ppgn") == "34 GB per tensor"
    assert table.reason("dd", "gin") == table.waiting


def test_table_3_holds_the_numbers_of_the_paper_for_both_metrics() -> None:
    table = load_table("link")
    assert table.metrics == ["test/mrr", "test/hits@10"]
    assert table.rows == ["codex-s", "codex-m", "codex-l"]
    assert list(table.methods) == table.columns
    published = [
        [table.published(dataset, "simqgnn", metric) for dataset in table.rows]
        for metric in table.metrics
    ]
    assert published[0] == pytest.approx([0.435, 0.323, 0.310])
    assert published[1] == pytest.approx([0.652, 0.477, 0.437])
    assert table.published("codex-l", "sacn", "test/mrr") is None
    # The paper's ten methods and RESCAL on three sets, less SACN on the largest.
    for numbers in (table.paper, table.extra_metrics["test/hits@10"]):
        assert sum(map(len, numbers.values())) == 11 * 3 - 1
    assert table.paper_std == {}
    assert (table.splits, table.seeds) == (1, 3)


def test_every_method_of_table_3_has_a_preset_for_every_dataset() -> None:
    table = load_table("link")
    assert all(table.preset_of(dataset, method) for dataset, method in table.cells())


def test_the_table_of_fb15k_237_has_a_preset_for_every_method_and_published_numbers() -> None:
    table = load_table("fb15k-237")
    assert list(table.methods) == table.columns
    assert all(table.preset_of(dataset, method) for dataset, method in table.cells())
    published = [table.published("fb15k-237", "complex-n3", metric) for metric in table.metrics]
    assert published == pytest.approx([0.366, 0.557])
    assert table.published("fb15k-237", "simqgnn", "test/mrr") is None


def test_table_4_holds_the_numbers_of_the_paper() -> None:
    table = load_table("text")
    assert table.rows == ["mr", "r8", "r52", "ohsumed"]
    assert list(table.methods) == table.columns
    ours = [table.published(dataset, "textqgnn", table.metric) for dataset in table.rows]
    assert ours == pytest.approx([0.7893, 0.9702, 0.9445, 0.6993])
    spreads = [table.paper_std[dataset]["textqgnn"] for dataset in table.rows]
    assert spreads == pytest.approx([0.0029, 0.0028, 0.0035, 0.0031])
    row = [table.published("ohsumed", method, table.metric) for method in table.columns[:4]]
    assert row == pytest.approx([0.4927, 0.5770, 0.6836, 0.6972])
    assert table.paper_std["r52"]["bilstm"] == pytest.approx(0.0091)
    for numbers in (table.paper, table.paper_std):
        assert sum(map(len, numbers.values())) == 5 * 4
    assert (table.splits, table.seeds) == (1, 10)
    assert "GloVe of 100" in table.note


def test_every_method_of_table_4_has_a_preset_for_every_dataset() -> None:
    table = load_table("text")
    assert all(table.preset_of(dataset, method) for dataset, method in table.cells())


def test_rows_of_transductive_methods_say_so() -> None:
    table, models = load_table("text"), TASKS["text"].models
    for dataset, method in table.cells():
        name = table.preset_of(dataset, method)
        assert name is not None
        transductive = models[preset(name)["model"]["name"]].transductive
        assert table.methods[method].endswith(" (transductive)") == transductive
    assert "TextGCN and TextSGC are transductive: the test texts" in table.note


def test_an_unknown_table_is_a_mistake() -> None:
    with pytest.raises(UserError, match="no table 'nodes'; did you mean 'node'"):
        load_table("nodes")
    with pytest.raises(UserError, match="no table 'zzz'; choose from fb15k-237, graph, link, node"):
        load_table("zzz")


def test_a_run_that_is_on_record_twice_counts_once():
    twice = [record(0.5), record(0.5), record(0.7, split=1)]
    assert cell(TABLE, twice, "cora", "qgnn", "honest").runs == 2
