"""How node classification trains: independence of members, selection, what its models learn."""

import pytest
import torch
from karate import CPU, N, config_of, outcome_of
from torch_geometric.data import Data

from quatgraph.models.node import MODELS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node import task as running
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.task import Member


def test_a_config_is_run_on_every_split_with_every_seed(graph: Data) -> None:
    config = config_of(seeds=2)
    pairs = [(member.split, member.seed) for member in NODE.members(config, graph)]
    assert pairs == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]


@pytest.mark.parametrize("name", MODELS)
def test_a_member_among_others_equals_the_same_member_alone(graph: Data, name: str) -> None:
    same = {"model.name": name, "model.dropout": 0.0, "data.name": "", "data.path": "here"}
    configurations = [config_of(**same), config_of(**same, **{"train.lr": 0.01})]
    members = [Member(c, split, seed) for c in configurations for split, seed in ((0, 3), (2, 4))]
    problem = NODE.prepare(graph, configurations[0], CPU)
    ensemble = NODE.train(members, problem, NODE.plan(members))
    for index, member in enumerate(members):
        alone = NODE.train([member], problem, NODE.plan([member]))
        for key, curve in alone.curves.items():
            torch.testing.assert_close(
                ensemble.curves[key][:, index], curve[:, 0], rtol=1e-3, atol=1e-4
            )
        for key, weight in alone.weights.items():
            torch.testing.assert_close(
                ensemble.weights[key][index], weight[0], rtol=1e-3, atol=1e-4
            )
    assert not torch.equal(ensemble.curves["valid/loss"][:, 0], ensemble.curves["valid/loss"][:, 1])


@pytest.mark.parametrize(("weights", "by_class"), [("none", [1.0, 1.0]), ("0:3,1:0.5", [3.0, 0.5])])
def test_a_member_learns_from_the_training_nodes_of_its_split_and_is_measured_on_its_others(
    graph: Data, weights: str, by_class: list[float]
) -> None:
    here = {"data.name": "", "data.path": "here", "model.dropout": 0.0, "train.select": "last"}
    here |= {"train.class_weights": weights}
    config = config_of(**here, **{"train.epochs": 3, "model.name": "gcn"})
    outcome = outcome_of([Member(config, split, 7) for split in range(3)], graph)
    problem = outcome.problem
    for index, member in enumerate(outcome.members):
        # The same by hand: torch's own Adam and loss on the nodes that the mask picks.
        torch.manual_seed(7)
        model = NODE.build(config, problem)
        adam = torch.optim.Adam(
            model.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay
        )
        picked = graph.train_mask[:, member.split]
        for _ in range(3):
            logits = model(problem.features, problem.adjacency)
            loss = torch.nn.functional.cross_entropy(
                logits[picked], graph.y[picked], weight=torch.tensor(by_class)
            )
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


def test_the_protocol_that_keeps_the_last_epoch_is_evaluated_there_only(karate: Data) -> None:
    config = config_of(**{"protocol": "paper", "train.select": "last", "train.patience": 3})
    assert NODE.plan([Member(config, 0, 0)]).patience is None
    outcome = outcome_of([Member(config, 0, 0)], karate).with_curves()
    assert outcome.fit.curve_epochs == [12]
    (record,) = outcome.records
    assert record.best_epoch == record.epochs_run == 12
    assert {len(curve) for curve in record.curves.values()} == {1}


def test_the_protocol_that_selects_is_evaluated_after_every_epoch(karate: Data) -> None:
    outcome = outcome_of([Member(config_of(), 0, 0)], karate)
    assert outcome.fit.curve_epochs == list(range(1, 13))


def test_of_equal_accuracies_the_first_epoch_or_the_lowest_loss_is_selected(karate: Data) -> None:
    epochs = {}
    for ties in ("first", "loss"):
        config = config_of(**{"train.ties": ties, "train.epochs": 40})
        outcome = outcome_of([Member(config, 0, 0)], karate).with_curves()
        (record,) = outcome.records
        accuracy, loss = (record.curves[f"valid/{name}"] for name in ("accuracy", "loss"))
        best = [place for place, value in enumerate(accuracy) if value == max(accuracy)]
        assert len(best) > 1
        chosen = best[0] if ties == "first" else min(best, key=loss.__getitem__)
        assert record.best_epoch == chosen + 1
        epochs[ties] = record.best_epoch
    assert epochs["first"] < epochs["loss"]


def test_patience_ends_a_training_early(karate: Data) -> None:
    config = config_of(**{"train.patience": 2, "train.epochs": 300})
    (record,) = outcome_of([Member(config, 0, 0)], karate).records
    assert record.epochs_run < 100
    assert record.best_epoch <= record.epochs_run - 2


def test_fewer_members_fit_at_once_the_more_each_holds(
    karate: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of()
    problem = NODE.prepare(karate, config, CPU)
    plenty = NODE.max_members(problem, config)
    assert plenty > 5
    wide = config_of(**{"model.hidden_quats": 200, "model.num_layers": 3})
    assert NODE.max_members(problem, wide) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 1)
    assert NODE.max_members(problem, config) == 1


def test_the_card_says_how_a_graph_is_read(graph: Data, karate: Data) -> None:
    here = {"data.name": "", "data.path": "here", "data.scaling": "row"}
    card = bundle_of(
        NODE, [(outcome_of([Member(config_of(**here), 1, 0)], graph), 0, 1)], graph
    ).card
    assert card["labels"] == ["0", "1"]
    assert card["features"] == ["x0", "x1", "x2", "x3"]
    assert card["num_features"] == 4
    sizes = {"num_nodes": N, "num_edges": 24, "class_sizes": [12, 12]}
    assert card["data"] == {"name": "rings", "digest": graph.digest, **sizes}
    nodes = "nodes: 24 in 2 classes, 50.0 % in the largest, 24 edges"
    assert NODE.summarize(card) == [nodes, "features: each row scaled to sum 1"]
    older = card | {"data": {"num_nodes": N}}
    assert NODE.summarize(older) == ["features: each row scaled to sum 1"]
    plain = bundle_of(NODE, [(outcome_of([Member(config_of(), 0, 0)], karate), 0, 1)], karate).card
    assert (plain["scaling"], plain["num_features"]) == (None, 34)
    assert NODE.summarize(plain) == ["nodes: 34 in 2 classes, 50.0 % in the largest, 78 edges"]


LEARN = {"train.epochs": 60, "train.patience": "none", "model.dropout": 0.2, "seeds": 3}


@pytest.mark.parametrize("name", ["qgnn", "gcn", "gat"])
def test_a_model_that_sees_the_graph_learns_the_karate_club(karate: Data, name: str) -> None:
    config = config_of(**LEARN, **{"model.name": name})
    records = outcome_of(NODE.members(config, karate), karate).records
    # 18 test nodes in two classes: chance is a half.
    assert sum(r.metrics["test/accuracy"] for r in records) / 3 > 0.75


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_features(graph: Data, name: str) -> None:
    here = {"data.name": "", "data.path": "here", "data.scaling": "standard"}
    here["train.select"] = "last"  # many epochs are perfect on the few validation nodes
    config = config_of(**LEARN, **here, **{"model.name": name, "model.num_layers": 2})
    records = outcome_of(NODE.members(config, graph), graph).records
    assert sum(r.metrics["test/accuracy"] for r in records) / 9 > 0.8


def test_a_perceptron_learns_nothing_about_unseen_nodes_without_features(karate: Data) -> None:
    config = config_of(**LEARN, **{"model.name": "mlp", "train.select": "last"})
    records = outcome_of(NODE.members(config, karate), karate).records
    assert all(r.metrics["train/accuracy"] == 1.0 for r in records)
    assert sum(r.metrics["test/accuracy"] for r in records) / 3 < 0.7


@pytest.mark.realdata
def test_qgnn_learns_cora_in_a_few_epochs() -> None:
    config = config_of(
        **{"data.name": "cora", "data.scaling": "row", "train.epochs": 30, "model.hidden_quats": 4}
    )
    data = NODE.load(config)
    (record,) = outcome_of([Member(config, 0, 0)], data).records
    assert record.metrics["test/accuracy"] > 0.8
