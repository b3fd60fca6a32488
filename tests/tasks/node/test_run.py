"""Runs as ensembles: grouping, independence of members, complete records, bundles."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from quatgraph import config as configs
from quatgraph.data.node import from_data
from quatgraph.tasks.node import run as running
from quatgraph.tasks.node.config import DataConfig, NodeConfig
from quatgraph.tasks.node.problem import MODELS, build_model, load_data, prepare
from quatgraph.tasks.node.run import (
    Member,
    Outcome,
    bundle_of,
    members_at_once,
    members_of,
    plan_of,
    run,
    together,
    train,
)
from quatgraph.training.record import RunRecord

CPU = torch.device("cpu")
SMALL = {"data.name": "karate", "train.epochs": 12, "train.lr": 0.05, "model.hidden_quats": 2}
SMALL |= {"model.num_layers": 1, "model.skip": False}
N = 24


def config_of(**values: Any) -> NodeConfig:
    return configs.build(NodeConfig, configs.unflatten(SMALL | values))


@pytest.fixture(scope="module")
def karate() -> Data:
    return load_data(DataConfig(name="karate"))


@pytest.fixture(scope="module")
def graph() -> Data:
    """Two classes that both features and edges tell apart; three splits."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 2
    x = torch.rand(N, 4, generator=draw)
    x[:, 0] += 2.0 * y
    ring = torch.stack((torch.arange(N), (torch.arange(N) + 2) % N))
    part = torch.stack([(torch.arange(N) // 2 + shift) % 4 for shift in range(3)], dim=1)
    return from_data(
        Data(
            x=x,
            y=y,
            edge_index=torch.cat((ring, ring.flip(0)), dim=1),
            train_mask=part < 2,
            val_mask=part == 2,
            test_mask=part == 3,
            name="rings",
        )
    )


def outcome_of(members: list[Member], data: Data, **others: Any) -> Outcome:
    (outcome,) = run(members, data, device=CPU, **others)
    return outcome


def members_in(record: RunRecord) -> list[Member]:
    """The runs a record names, out of nothing but the record."""
    (form, lists), *_ = record.members.items()
    rows = product(*lists.values()) if form == "product" else zip(*lists.values(), strict=True)
    made = []
    for row in rows:
        values = dict(zip(lists, row, strict=True))
        seed, split = values.pop("seed"), values.pop("split")
        flat = configs.flatten(record.config) | values
        made.append(Member(configs.build(NodeConfig, configs.unflatten(flat)), split, seed))
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
    assert together(members) == [members]


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
    assert together([one, other, one]) == [[one, one], [other]]


def test_a_config_is_run_on_every_split_with_every_seed(graph: Data) -> None:
    config = config_of(seeds=2)
    pairs = [(member.split, member.seed) for member in members_of(config, graph)]
    assert pairs == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("name", MODELS)
def test_a_member_among_others_equals_the_same_member_alone(graph: Data, name: str) -> None:
    same = {"model.name": name, "model.dropout": 0.0, "data.name": "", "data.path": "here"}
    configurations = [config_of(**same), config_of(**same, **{"train.lr": 0.01})]
    members = [Member(c, split, seed) for c in configurations for split, seed in ((0, 3), (2, 4))]
    problem, plan = prepare(graph, configurations[0], CPU), plan_of(configurations[0])
    ensemble = train(members, problem, plan)
    for index, member in enumerate(members):
        alone = train([member], problem, plan)
        for key, curve in alone.curves.items():
            torch.testing.assert_close(
                ensemble.curves[key][:, index], curve[:, 0], rtol=1e-3, atol=1e-4
            )
        for key, weight in alone.weights.items():
            torch.testing.assert_close(
                ensemble.weights[key][index], weight[0], rtol=1e-3, atol=1e-4
            )
    assert not torch.equal(ensemble.curves["valid/loss"][:, 0], ensemble.curves["valid/loss"][:, 1])


def test_a_member_learns_from_the_training_nodes_of_its_split_and_is_measured_on_its_others(
    graph: Data,
) -> None:
    here = {"data.name": "", "data.path": "here", "model.dropout": 0.0, "train.select": "last"}
    config = config_of(**here, **{"train.epochs": 3, "model.name": "gcn"})
    outcome = outcome_of([Member(config, split, 7) for split in range(3)], graph)
    problem = outcome.problem
    for index, member in enumerate(outcome.members):
        # The same by hand: torch's own Adam and loss on the nodes that the mask picks.
        torch.manual_seed(7)
        model = build_model(config, problem)
        adam = torch.optim.Adam(
            model.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay
        )
        picked = graph.train_mask[:, member.split]
        for _ in range(3):
            logits = model(problem.features, problem.adjacency)
            loss = torch.nn.functional.cross_entropy(logits[picked], graph.y[picked])
            adam.zero_grad()
            loss.backward()
            adam.step()
        for name, weight in model.named_parameters():
            kept = outcome.fit.weights[name][index]
            torch.testing.assert_close(kept, weight.detach(), rtol=1e-3, atol=1e-4)
        right = model(problem.features, problem.adjacency).argmax(dim=1) == graph.y
        for part, mask in (("valid", graph.val_mask), ("test", graph.test_mask)):
            found = outcome.records[index].metrics[f"{part}/accuracy"]
            assert found == pytest.approx(float(right[mask[:, member.split]].float().mean()))


@pytest.mark.parametrize("masks", ["real", "quaternion"])
def test_a_record_is_enough_to_run_it_again(karate: Data, masks: str) -> None:
    varied = [config_of(**{"model.masks": masks, "train.lr": lr, "seeds": 2}) for lr in (0.1, 0.02)]
    members = [member for config in varied for member in members_of(config, karate)]
    first = outcome_of(members, karate)
    assert first.records[3].members == {
        "product": {
            "train.lr": [0.1, 0.02],
            "train.weight_decay": [5e-4],
            "model.dropout": [0.5],
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
    outcome = outcome_of([Member(config, 0, 5)], karate, method="ours", keep_curves=True)
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
    assert record.selected == {"best-valid": {"epoch": record.best_epoch}}
    assert record.epochs_run == 12
    assert record.seconds > 0
    assert {"torch", "device", "commit"} <= record.environment.keys()
    curve = record.curves["valid/accuracy"]
    assert len(curve) == 12
    # The first epoch with the best validation accuracy.
    assert record.best_epoch == curve.index(max(curve)) + 1
    assert math.isclose(record.metrics["valid/accuracy"], max(curve), rel_tol=1e-3)
    # 34 features, four copies of one: a quaternion matrix of 2 x 34, then 8 reals to 2 classes.
    assert record.parameters == 4 * 2 * 34 + 8 * 2


def test_curves_are_kept_only_when_asked_for(karate: Data) -> None:
    assert outcome_of([Member(config_of(), 0, 0)], karate).records[0].curves == {}


def test_the_protocol_that_keeps_the_last_epoch_is_evaluated_there_only(karate: Data) -> None:
    config = config_of(**{"protocol": "paper", "train.select": "last", "train.patience": 3})
    assert plan_of(config).patience is None
    outcome = outcome_of([Member(config, 0, 0)], karate, keep_curves=True)
    assert outcome.fit.curve_epochs == [12]
    (record,) = outcome.records
    assert record.best_epoch == record.epochs_run == 12
    assert {len(curve) for curve in record.curves.values()} == {1}


def test_the_protocol_that_selects_is_evaluated_after_every_epoch(karate: Data) -> None:
    outcome = outcome_of([Member(config_of(), 0, 0)], karate)
    assert outcome.fit.curve_epochs == list(range(1, 13))


def test_patience_ends_a_training_early(karate: Data) -> None:
    config = config_of(**{"train.patience": 2, "train.epochs": 300})
    (record,) = outcome_of([Member(config, 0, 0)], karate).records
    assert record.epochs_run < 100
    assert record.best_epoch <= record.epochs_run - 2


def test_the_best_run_is_the_best_on_validation_data(karate: Data) -> None:
    outcome = outcome_of(members_of(config_of(seeds=6), karate), karate)
    merits = [(r.metrics["valid/accuracy"], -r.metrics["valid/loss"]) for r in outcome.records]
    assert merits[outcome.best()] == max(merits)
    # Not the best on test data, which it must not know.
    tests = [r.metrics["test/accuracy"] for r in outcome.records]
    assert len(set(tests)) > 1


def test_a_bundle_holds_one_member_and_what_predicting_needs(graph: Data) -> None:
    config = config_of(**{"data.name": "", "data.path": "here", "seeds": 2})
    outcome = outcome_of(members_of(config, graph), graph)
    bundle = bundle_of(outcome, 4, graph)
    member, record = outcome.members[4], outcome.records[4]
    assert (bundle.card["split"], bundle.card["seed"]) == (member.split, member.seed) == (1, 1)
    assert bundle.card["metrics"] == record.metrics
    assert configs.build(NodeConfig, bundle.card["config"]) == member.config
    assert bundle.card["labels"] == ["0", "1"]
    assert bundle.card["features"] == ["x0", "x1", "x2", "x3"]
    assert bundle.card["num_features"] == 4
    assert bundle.card["data"]["digest"] == graph.digest
    for name, tensor in bundle.tensors.items():
        assert torch.equal(tensor, outcome.fit.weights[name][4])
    counted = sum(t.numel() for name, t in bundle.tensors.items() if "rate" not in name)
    assert bundle.card["parameters"] == counted


def test_what_does_not_fit_into_memory_at_once_is_run_in_parts(
    karate: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(seeds=5)
    problem = prepare(karate, config, CPU)
    plenty = members_at_once(problem, config, CPU)
    assert plenty > 5
    wide = config_of(**{"model.hidden_quats": 200, "model.num_layers": 3})
    assert members_at_once(problem, wide, CPU) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 1)
    assert members_at_once(problem, config, CPU) == 1
    monkeypatch.setattr(running, "members_at_once", lambda *_: 2)
    outcomes = list(run(members_of(config, karate), karate, device=CPU))
    assert [[m.seed for m in outcome.members] for outcome in outcomes] == [[0, 1], [2, 3], [4]]
    assert len({outcome.records[0].ensemble for outcome in outcomes}) == 3


def test_training_tells_its_progress(karate: Data) -> None:
    told: list[tuple[str, int, int]] = []
    outcome_of([Member(config_of(), 0, 0)], karate, progress=lambda *a: told.append(a))
    assert told[0] == ("karate qgnn, 1 runs", 1, 12)
    assert told[-1][1:] == (12, 12)


LEARN = {"train.epochs": 60, "train.patience": "none", "model.dropout": 0.2, "seeds": 3}


@pytest.mark.parametrize("name", ["qgnn", "gcn", "gat"])
def test_a_model_that_sees_the_graph_learns_the_karate_club(karate: Data, name: str) -> None:
    config = config_of(**LEARN, **{"model.name": name})
    records = outcome_of(members_of(config, karate), karate).records
    # 18 test nodes in two classes: chance is a half.
    assert sum(r.metrics["test/accuracy"] for r in records) / 3 > 0.75


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_features(graph: Data, name: str) -> None:
    here = {"data.name": "", "data.path": "here", "data.scaling": "standard"}
    config = config_of(**LEARN, **here, **{"model.name": name, "model.num_layers": 2})
    records = outcome_of(members_of(config, graph), graph).records
    assert sum(r.metrics["test/accuracy"] for r in records) / 9 > 0.8


def test_a_perceptron_learns_nothing_about_unseen_nodes_without_features(karate: Data) -> None:
    config = config_of(**LEARN, **{"model.name": "mlp", "train.select": "last"})
    records = outcome_of(members_of(config, karate), karate).records
    assert all(r.metrics["train/accuracy"] == 1.0 for r in records)
    assert sum(r.metrics["test/accuracy"] for r in records) / 3 < 0.7


@pytest.mark.realdata
def test_qgnn_learns_cora_in_a_few_epochs() -> None:
    config = config_of(
        **{"data.name": "cora", "data.scaling": "row", "train.epochs": 30, "model.hidden_quats": 4}
    )
    data = load_data(config.data)
    (record,) = outcome_of([Member(config, 0, 0)], data).records
    assert record.metrics["test/accuracy"] > 0.8
