"""What graph classification comes to: what its models learn, what is chosen, what a bundle says."""

import dataclasses
from pathlib import Path

import pytest
import torch
from on_cpu import train_in_folder
from rings import collection, config_of, lines, outcome_of, without

from quatgraph import config as configs
from quatgraph.data.graph import Graphs, load
from quatgraph.errors import UserError
from quatgraph.models.graph import MODELS
from quatgraph.presets import preset
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph import task as running
from quatgraph.tasks.graph.config import GraphConfig
from quatgraph.tasks.runs import bundle_of
from quatgraph.training.bundle import load_bundle

CPU = torch.device("cpu")


@pytest.fixture
def graphs(tmp_path: Path) -> Graphs:
    return collection(tmp_path)


def test_the_card_says_how_graphs_are_read(tmp_path: Path) -> None:
    unknown = [g | {"label": None} if place < 2 else g for place, g in enumerate(lines())]
    graphs = collection(tmp_path, [*unknown, lines(32)[31]])
    outcome = outcome_of(GRAPH.members(config_of(), graphs), graphs)
    card = bundle_of(GRAPH, [(outcome, 1, 1)], graphs).card
    assert card["labels"] == ["chain", "ring"]
    assert [member["split"] for member in card["members"]] == [1]
    assert card["features"] == {"kind": "tags", "names": ["C", "N", "O"], "scaling": None}
    assert card["num_features"] == 3
    assert card["data"] == {
        "name": "rings",
        "digest": graphs.digest,
        "num_graphs": 31,
        "class_sizes": [15, 14],
    }
    assert GRAPH.summarize(card) == [
        "graphs: 29 in 2 classes, 51.7 % in the largest; 2 more without a label took no part",
        "features: the tag of each node among 3",
    ]


def test_what_a_bundle_says_follows_its_features(tmp_path: Path) -> None:
    plain = collection(tmp_path, without(lines(), "node_labels"))
    numbered = dataclasses.replace(plain, attributes=torch.rand(plain.num_nodes, 2))
    reported = [
        GRAPH.summarize(
            bundle_of(
                GRAPH, [(outcome_of(GRAPH.members(config_of(), data), data), 0, 1)], data
            ).card
        )
        for data in (plain, numbered)
    ]
    assert reported[0][1] == "features: the degree of each node among 2"
    assert reported[1][1] == reported[0][1] + ", and its attributes, standardised"
    assert reported[0][0] == "graphs: 30 in 2 classes, 50.0 % in the largest"


@pytest.mark.parametrize("name", MODELS)
def test_graphs_without_any_edge_are_learned_from_too(name: str, tmp_path: Path) -> None:
    # Single atoms, each of a class of its own.
    atoms = [{"edges": [], "node_labels": ["CN"[k % 2]], "label": "ab"[k % 2]} for k in range(18)]
    data = collection(tmp_path, atoms)
    values = {"model.name": name, "train.epochs": 40, "train.select": "last"}
    if name == "capsgnn":  # short capsules have small gradients
        values |= {"model.hidden_quats": 4, "train.epochs": 250}
    config = config_of(**values)
    records = outcome_of(GRAPH.members(config, data), data).records
    assert [r.metrics["test/accuracy"] for r in records] == [1.0] * 3


def test_the_preset_of_the_sample_tells_cycles_from_trees() -> None:
    config = configs.build(GraphConfig, preset("graph/cycles-qgnn", "honest"))
    data = load("cycles")
    records = outcome_of(GRAPH.members(config, data), data).records
    assert sum(r.metrics["test/accuracy"] for r in records) / 10 > 0.95


@pytest.mark.parametrize(("name", "sees"), [("gin", True), ("structure-free", False)])
def test_where_all_nodes_are_alike_only_a_model_that_sees_edges_tells_cycles_from_trees(
    name: str, sees: bool
) -> None:
    # Degrees would give cycles away; tags are all the same.
    alike = {"data.name": "cycles", "data.features": "tags", "train.epochs": 10}
    config = config_of(**alike, **{"model.name": name, "model.hidden_quats": 4})
    data = load("cycles")
    records = outcome_of(GRAPH.members(config, data), data).records
    reached = sum(r.metrics["test/accuracy"] for r in records) / 3
    assert (reached > 0.9) if sees else (reached < 0.7)


@pytest.mark.realdata
def test_qgnn_learns_mutag_in_a_few_epochs() -> None:
    values = configs.override(
        preset("graph/mutag-qgnn", "paper"),
        ["train.epochs=8", "train.lr=0.005", "model.hidden_quats=8", "model.dropout=0"],
    )
    config = configs.build(GraphConfig, values)
    data = load("mutag")
    records = outcome_of(GRAPH.members(config, data), data).records
    # As the paper's tables do: the best epoch of each fold.
    assert sum(max(r.curves["test/accuracy"]) for r in records) / 10 > 0.8


def test_the_folds_of_a_configuration_stay_together(
    graphs: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "CPU_NUMBERS", 1)  # no two members train well together
    tried = [config_of(**{"train.lr": lr, "train.epochs": 1}) for lr in (0.01, 0.02)]
    job = train_in_folder(GRAPH, tried, tmp_path / "model", data=graphs)
    assert len({record.ensemble for record in job.records}) == 2
    assert job.num_bundled == 3
    members = load_bundle(tmp_path / "model").card["members"]
    assert [member["split"] for member in members] == [0, 1, 2]
    own = [r for r in job.records if r.config_digest == job.chosen.config_digest]
    for name, mean in job.metrics.items():
        assert mean == pytest.approx(sum(r.metrics[name] for r in own) / 3)


def test_without_validation_data_nothing_is_chosen(graphs: Graphs, tmp_path: Path) -> None:
    blind = {"data.validation": 0.0, "train.select": "last"}
    tried = [config_of(**blind | {"train.lr": lr}) for lr in (0.01, 0.02)]
    with pytest.raises(UserError, match=r"no validation data to choose by: set train\.lr"):
        train_in_folder(GRAPH, tried, tmp_path / "model", data=graphs)
    assert not (tmp_path / "model").exists()
