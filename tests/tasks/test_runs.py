"""Runs as ensembles: grouping, complete records, bundles; by the task of nodes."""

import dataclasses
import math
import re
import weakref
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import settings
import torch
from clocks import set_clock
from karate import CPU, config_of, outcome_of
from on_cpu import changed, run
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.tasks import runs
from quatgraph.tasks.ensembles import group_by_shape
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig
from quatgraph.tasks.node.problem import Problem
from quatgraph.tasks.runs import _report_eta, bundle_of
from quatgraph.tasks.task import Member
from quatgraph.training import runtime
from quatgraph.training.context import Context
from quatgraph.training.loop import Fit, Paused, Plan
from quatgraph.training.record import RunRecord, read_records
from quatgraph.training.runtime import Deadline

RECORDS = Path(__file__).parents[2] / "results" / "records" / "node-cora.jsonl"


def members_in(record: RunRecord) -> list[Member]:
    """The runs a record names, out of nothing but the record."""
    (form, lists), *_ = record.members.items()
    rows = product(*lists.values()) if form == "product" else zip(*lists.values(), strict=True)
    made = []
    for row in rows:
        values = dict(zip(lists, row, strict=True))
        seed, split = values.pop("seed"), values.pop("split")
        flat = configs.flatten(record.config) | values
        made.append(Member(settings.built(NodeConfig, flat), split, seed))
    return made


def test_runs_that_differ_only_in_what_may_vary_are_one_ensemble() -> None:
    base = config_of()
    members = [
        Member(base, 0, 0),
        Member(base, 1, 7),
        Member(config_of(**{"train.lr": 0.2}), 0, 0),
        Member(config_of(**{"train.weight_decay": 0.0}), 0, 0),
        Member(config_of(**{"model.dropout": 0.9}), 0, 0),
        Member(config_of(seeds=5), 0, 0),
    ]
    assert group_by_shape(NODE, members) == [members]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model.hidden_quats", 3),
        ("model.num_layers", 2),
        ("model.name", "gcn"),
        ("model.skip", True),
        ("model.normalization", "row"),
        ("train.epochs", 13),
        ("train.select", "last"),
        ("train.clip", 1.0),
        ("protocol", "paper"),
        ("data.scaling", "none"),
    ],
)
def test_runs_that_differ_in_anything_else_are_apart(key: str, value: Any) -> None:
    one, other = Member(config_of(), 0, 0), Member(config_of(**{key: value}), 0, 0)
    assert group_by_shape(NODE, [one, other, one]) == [[one, one], [other]]


def test_protocols_may_share_an_ensemble_where_a_task_says_so(karate: Data) -> None:
    mixed = changed(NODE, varying=(*NODE.varying, "protocol", "train.select"))
    paper = config_of(**{"protocol": "paper", "train.select": "last"})
    members = [Member(config, 0, 3) for config in (config_of(), paper)]
    (outcome,) = run(mixed, members, karate)
    honest, published = outcome.records
    assert honest.ensemble == published.ensemble
    assert [r.protocol for r in outcome.records] == ["honest", "paper"]
    assert published.config_digest == configs.digest(paper.identity())
    assert honest.members["columns"]["protocol"] == ["honest", "paper"]


def test_committed_records_are_of_configurations_as_they_are_now() -> None:
    records = read_records(RECORDS)
    members = members_in(records[0])
    ran = [r for r in records if r.ensemble == records[0].ensemble]
    assert [r.config for r in ran] == [m.config.identity() for m in members]


@pytest.mark.parametrize("masks", ["real", "quaternion"])
def test_a_record_is_enough_to_run_it_again(karate: Data, masks: str) -> None:
    varied = [config_of(**{"model.masks": masks, "train.lr": lr, "seeds": 2}) for lr in (0.1, 0.02)]
    members = [member for config in varied for member in NODE.members(config, karate)]
    first = outcome_of(members, karate)
    assert first.records[3].members == {
        "product": {
            "train.lr": [0.1, 0.02],
            "train.weight_decay": [5e-4],
            "model.dropout": [0.5],
            "model.input_dropout": [None],
            "seed": [0, 1],
            "split": [0],
        }
    }
    rebuilt = members_in(first.records[3])
    assert [(m.split, m.seed, m.config.identity()) for m in rebuilt] == [
        (m.split, m.seed, m.config.identity()) for m in members
    ]
    again = outcome_of(rebuilt, karate)
    for old, new in zip(first.records, again.records, strict=True):
        assert (old.metrics, old.best_epoch) == (new.metrics, new.best_epoch)
        assert (old.ensemble, old.config_digest) == (new.ensemble, new.config_digest)
    assert len({r.metrics["valid/loss"] for r in first.records}) == 4


def test_a_record_says_what_was_run_and_what_came_out(karate: Data) -> None:
    config = config_of(**{"train.patience": "none"})
    outcome = outcome_of([Member(config, 0, 5)], karate, method="ours").with_curves()
    (record,) = outcome.records
    assert (record.task, record.dataset, record.method) == ("node", "karate", "ours")
    assert (record.split, record.seed, record.protocol) == (0, 5, "honest")
    assert (
        record.config_digest == configs.digest(record.config) == configs.digest(config.identity())
    )
    assert record.data_digest == karate.digest
    assert record.metrics.keys() == {
        "train/accuracy",
        "valid/accuracy",
        "test/accuracy",
        "valid/loss",
    }
    assert record.epochs_run == 12
    assert record.seconds > 0
    assert {"torch", "device", "commit"} <= record.environment.keys()
    curve = record.curves["valid/accuracy"]
    assert len(curve) == 12
    assert record.curve_epochs == list(range(1, 13))
    # The first epoch with the best validation accuracy.
    assert record.best_epoch == curve.index(max(curve)) + 1
    assert math.isclose(record.metrics["valid/accuracy"], max(curve), rel_tol=1e-3)
    # 34 features, four copies of one: a quaternion matrix of 2 x 34, then 8 reals to 2 classes.
    assert record.parameters == 4 * 2 * 34 + 8 * 2


def test_curves_are_kept_only_when_asked_for(karate: Data) -> None:
    assert outcome_of([Member(config_of(), 0, 0)], karate).records[0].curves == {}


def test_a_bundle_holds_one_member_and_what_predicting_needs(graph: Data) -> None:
    config = config_of(**{"data.name": "", "data.path": "here", "seeds": 2})
    outcome = outcome_of(NODE.members(config, graph), graph)
    bundle = bundle_of(NODE, [(outcome, 4, 1)], graph)
    member, record = outcome.members[4], outcome.records[4]
    (entry,) = bundle.card["members"]
    assert (entry["split"], entry["seed"]) == (member.split, member.seed) == (1, 1)
    assert (entry["epoch"], entry["weight"]) == (record.best_epoch, 1)
    assert entry["metrics"] == bundle.card["metrics"] == record.metrics
    assert configs.build(NodeConfig, entry["config"]) == member.config
    assert bundle.card["labels"] == ["0", "1"]
    assert bundle.card["features"] == ["x0", "x1", "x2", "x3"]
    assert bundle.card["num_features"] == 4
    assert bundle.card["data"]["digest"] == graph.digest
    tensors = bundle.select_tensors("members.0")
    assert len(tensors) == len(bundle.tensors)
    for name, tensor in tensors.items():
        assert torch.equal(tensor, outcome.fit.weights[name][4])
    counted = sum(t.numel() for name, t in tensors.items() if "rate" not in name)
    assert entry["parameters"] == counted


def test_a_bundle_holds_members_of_several_outcomes(graph: Data) -> None:
    here = {"data.name": "", "data.path": "here"}
    ways = ({"data.scaling": "standard"}, {"model.name": "gcn", "data.scaling": "none"})
    wide, gcn = (outcome_of(NODE.members(config_of(**here, **way), graph), graph) for way in ways)
    bundle = bundle_of(NODE, [(wide, 2, 3), (gcn, 0, 1), (wide, 0, 2)], graph)
    entries = bundle.card["members"]
    assert [(entry["split"], entry["weight"]) for entry in entries] == [(2, 3), (0, 1), (0, 2)]
    assert [entry["config"]["model"]["name"] for entry in entries] == ["qgnn", "gcn", "qgnn"]
    # What the members share is on the card; what differs is on the member.
    assert bundle.card["scaling"]["kind"] == "standard"
    assert [entry.get("scaling", {}).get("kind") for entry in entries] == [None, "none", None]
    assert "labels" not in entries[1]
    losses = [entry["metrics"]["valid/loss"] for entry in entries]
    mean = (3 * losses[0] + losses[1] + 2 * losses[2]) / 6
    assert bundle.card["metrics"]["valid/loss"] == pytest.approx(mean)
    for number, (outcome, index) in enumerate(((wide, 2), (gcn, 0), (wide, 0))):
        for name, tensor in bundle.select_tensors(f"members.{number}").items():
            assert torch.equal(tensor, outcome.fit.weights[name][index])


def test_training_reports_its_progress(karate: Data) -> None:
    reported: list[tuple[str, int, int]] = []
    outcome_of([Member(config_of(), 0, 0)], karate, progress=lambda *a: reported.append(a))
    assert reported[0] == ("karate qgnn, 1 run", 1, 12)
    assert reported[-1][1:] == (12, 12)


def test_progress_names_the_ensemble_that_is_trained(karate: Data) -> None:
    pairs = changed(NODE, max_members=lambda *_: 2)
    members = NODE.members(config_of(seeds=3), karate) + NODE.members(
        config_of(**{"model.hidden_quats": 3}), karate
    )
    reported: list[str] = []
    ensembles = run(pairs, members, karate, progress=lambda *a: reported.append(a[0]))
    assert len(list(ensembles)) == 3
    assert list(dict.fromkeys(reported)) == [
        "karate qgnn, 2 runs (1 of 3)",
        "karate qgnn, 1 run (2 of 3)",
        "karate qgnn, 1 run (3 of 3)",
    ]


@pytest.mark.parametrize(
    ("seconds", "patience", "words"),
    [
        (59.0, None, None),
        (75.0, None, "about 75 s"),
        (100.0, 5, "at most 2 min"),
        (5000.0, None, "about 83 min"),
        (9000.0, 5, "at most 2 h"),
    ],
)
def test_the_remaining_time_of_a_long_training_is_logged_with_its_memory(
    seconds: float, patience: int | None, words: str | None
) -> None:
    reported: list[str] = []
    plan = Plan(epochs=4000, patience=patience)
    context = Context(CPU, log=reported.append)
    _report_eta(context, plan, "karate qgnn, 3 runs", "; 2 more follow", seconds)
    if words is None:
        assert reported == []
        return
    found = re.fullmatch(
        rf"karate qgnn, 3 runs: {words} for the rest of 4,000 epochs, (\d+\.\d) GiB"
        "; 2 more follow",
        reported[0],
    )
    assert found
    assert 0.05 < float(found[1]) < 100  # of this process


class Watched(Problem):
    """A problem of which it can be seen whether it is still in memory."""


def test_a_problem_is_prepared_when_it_is_needed_and_freed_before_the_next(karate: Data) -> None:
    prepared: list[tuple[str, weakref.ref]] = []

    def prepare(data: Data, config: NodeConfig, device: torch.device) -> Any:
        assert all(earlier() is None for _, earlier in prepared)
        made = NODE.prepare(data, config, device)
        watched = Watched(**{f.name: getattr(made, f.name) for f in dataclasses.fields(made)})
        prepared.append((config.model.matrix, weakref.ref(watched)))
        return watched

    counting = changed(NODE, prepare=prepare, max_members=lambda *_: 2)
    shapes = [
        config_of(seeds=3, **{"model.hidden_quats": quats, "model.normalization": matrix})
        for matrix in ("row", "none")
        for quats in (2, 3)
    ]
    members = [member for config in shapes for member in NODE.members(config, karate)]
    count = 0
    for outcome in run(counting, members, karate, estimate=True):
        count += len(outcome.records)
        del outcome
    assert count == 12
    # Once to group the runs, once to estimate the time, once to train; shapes share them.
    assert [matrix for matrix, _ in prepared] == 3 * ["row", "none"]


def test_what_does_not_fit_into_memory_at_once_is_run_in_parts(karate: Data) -> None:
    pairs = changed(NODE, max_members=lambda *_: 2)
    outcomes = list(run(pairs, NODE.members(config_of(seeds=5), karate), karate))
    assert [[m.seed for m in outcome.members] for outcome in outcomes] == [[0, 1], [2, 3], [4]]
    assert len({outcome.records[0].ensemble for outcome in outcomes}) == 3


def test_the_time_of_a_training_is_estimated_before_it_starts(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that only epochs advance: two seconds each, after a slow first one."""
    now, said = [0.0], list[str]()
    set_clock(monkeypatch, lambda: now[0], runs, runtime)

    def train(members: Any, problem: Any, plan: Plan) -> Fit:
        def advance(done: int, epochs: int) -> None:
            now[0] += 30.0 if done == 1 else 2.0
            plan.progress(done, epochs)

        fit = NODE.train(members, problem, dataclasses.replace(plan, progress=advance))
        now[0] += 5.0  # what is done once
        return fit

    shape = {"train.epochs": 10, "train.patience": None}
    members = [Member(config_of(**shape, **{"model.hidden_quats": k}), 0, 0) for k in (1, 2)]
    list(run(changed(NODE, train=train), members, graph, estimate=True, log=said.append))
    assert said[0] == "2 runs in 2 ensembles: about 50 s"
    said.clear()
    late = {"deadline": Deadline(0)}
    with pytest.raises(Paused):
        list(run(NODE, members, graph, estimate=True, log=said.append, **late))
    assert said == []


def test_a_time_limit_is_told_where_it_comes_first(
    graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that only epochs advance, by ten seconds each."""
    now, said, begun = [0.0], list[str](), list[float]()
    set_clock(monkeypatch, lambda: now[0], runs, runtime)

    def train(members: Any, problem: Any, plan: Plan) -> Fit:
        def advance(done: int, epochs: int) -> None:
            now[0] += 10.0
            plan.progress(done, epochs)

        begun.append(now[0])
        return NODE.train(members, problem, dataclasses.replace(plan, progress=advance))

    shape = {"train.epochs": 10, "train.patience": None}
    members = [Member(config_of(**shape, **{"model.hidden_quats": k}), 0, 0) for k in (1, 2)]
    slow = changed(NODE, train=train)
    how: dict[str, Any] = {"estimate": True, "log": said.append}
    with pytest.raises(Paused):
        list(run(slow, members, graph, deadline=Deadline(2), **how))
    assert said == ["2 runs in 2 ensembles: about 3 min, but the time limit stops it in about 60 s"]
    said.clear()
    begun.clear()
    with pytest.raises(Paused):
        list(run(slow, members, graph, deadline=Deadline(0.25), **how))
    assert said == []
    # The limit ends the probe in its second epoch; then one epoch leaves a checkpoint.
    assert [begun[1] - begun[0], now[0] - begun[1]] == [20.0, 10.0]


def test_the_remaining_time_of_a_training_is_told_with_its_time_limit() -> None:
    said: list[str] = []
    context = Context(CPU, deadline=Deadline(2), log=said.append)
    _report_eta(context, Plan(epochs=400), "karate qgnn, 1 run", "", 3600.0)
    told = "about 60 min for the rest of 400 epochs, but the time limit stops it in about 2 min, "
    assert told in said[0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (80, "80 s"), (100, "2 min"), (7200, "2 h")]
)
def test_a_time_is_rounded(seconds: float, text: str) -> None:
    assert runs.format_seconds(seconds) == f"about {text}"
