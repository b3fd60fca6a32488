"""A bundle whose card has settings of smoothing smooths the predictions of its training graph."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import karate
import portfolios
import pytest
import torch
from karate import config_of, outcome_of
from torch_geometric.data import Data

from quatgraph.errors import UserError
from quatgraph.predictors import NodePredictor, load
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.smoothing import Smoothing, correct_and_smooth, smoothing_matrix
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.task import Member
from quatgraph.training.bundle import load_bundle, save_bundle

SETTINGS = Smoothing(correct_steps=3, smooth_steps=4)
graph = karate.graph


def with_card(folder: Path, out: Path, **values: Any) -> NodePredictor:
    bundle = load_bundle(folder)
    save_bundle(out, replace(bundle, card=bundle.card | values))
    return load(out, device="cpu")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of two members of one split, beside its data."""
    (whole, *_), _ = portfolios.node(tmp_path_factory.mktemp("data"))
    return whole


@pytest.fixture
def smoothed(folder: Path, tmp_path: Path) -> NodePredictor:
    return with_card(folder, tmp_path / "smoothed", smoothing=asdict(SETTINGS))


def test_the_combined_predictions_of_the_training_graph_are_smoothed(
    folder: Path, smoothed: NodePredictor
) -> None:
    plain = load(folder, device="cpu").predict().probabilities
    data = NODE.load(smoothed.config)
    train, matrix = data.train_mask[:, 0], smoothing_matrix(data)
    expected = correct_and_smooth(plain, data.y, train, matrix, settings=SETTINGS)
    found = smoothed.predict()
    assert found.notes == []
    torch.testing.assert_close(found.probabilities, expected)
    assert (expected - plain).abs().max() > 0.01
    some = smoothed.predict(nodes=["n7", "n3"]).probabilities
    assert torch.equal(some, found.probabilities[[7, 3]])


def test_evaluating_measures_the_smoothed_predictions(smoothed: NodePredictor) -> None:
    data, found = NODE.load(smoothed.config), smoothed.predict().probabilities
    right = (found.argmax(dim=1) == data.y)[data.test_mask[:, 0]].double().mean()
    metrics = smoothed.evaluate()
    assert metrics["test/accuracy"] == pytest.approx(float(right))
    assert all(value >= 0 for value in metrics.values())


def test_the_training_graph_is_smoothed_wherever_it_lies(
    folder: Path, smoothed: NodePredictor, tmp_path: Path
) -> None:
    here = smoothed.predict()
    again = smoothed.predict(shutil.copytree(folder.parent, tmp_path / "elsewhere"))
    torch.testing.assert_close(again.probabilities, here.probabilities)
    assert not any("smoothed" in note for note in again.notes)


def test_a_new_graph_is_not_smoothed_and_a_note_says_so(
    folder: Path, smoothed: NodePredictor, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "nodes.csv").write_text("id,u,v,w\na,1,2,3\nb,0,1,0\n")
    (new / "edges.csv").write_text("source,target\na,b\n")
    found, plain = smoothed.predict(new), load(folder, device="cpu").predict(new)
    assert torch.equal(found.probabilities, plain.probabilities)
    (note,) = set(found.notes) - set(plain.notes)
    assert note == "no labels of a new graph are known, so its predictions are not smoothed"


@pytest.mark.parametrize("values", [{}, {"smoothing": None}])
def test_a_card_without_settings_smooths_nothing(
    folder: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    found = with_card(folder, tmp_path / "other", **values).predict()
    assert torch.equal(found.probabilities, load(folder, device="cpu").predict().probabilities)


def test_each_member_is_smoothed_with_the_training_labels_of_its_split(
    graph: Data, tmp_path: Path
) -> None:
    config = config_of(**{"data.name": "", "data.path": "here"})
    outcome = outcome_of([Member(config, split, 0) for split in (0, 1)], graph)
    picks = [(outcome, 0, 3), (outcome, 1, 1)]
    save_bundle(tmp_path / "plain", bundle_of(NODE, picks, graph))
    predictor = with_card(tmp_path / "plain", tmp_path / "both", smoothing=asdict(SETTINGS))
    expected = torch.zeros(())
    for split, weight in ((0, 0.75), (1, 0.25)):
        save_bundle(tmp_path / f"{split}", bundle_of(NODE, [picks[split]], graph))
        alone = load(tmp_path / f"{split}", device="cpu").predict(graph).probabilities
        train, matrix = graph.train_mask[:, split], smoothing_matrix(graph)
        own = correct_and_smooth(alone, graph.y, train, matrix, settings=SETTINGS)
        expected = expected + weight * own
    torch.testing.assert_close(predictor.predict(graph).probabilities, expected)


def test_a_setting_that_does_not_exist_is_a_mistake(folder: Path, tmp_path: Path) -> None:
    predictor = with_card(folder, tmp_path / "odd", smoothing={"steps": 3})
    with pytest.raises(UserError, match=r"unknown key 'smoothing\.steps'"):
        predictor.predict()
