"""Models of Weisfeiler-Lehman colours predict by the colours that they were trained on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from on_cpu import train_in_folder
from portfolios import bundled
from rings import config_of, lines, without, written

from quatgraph.data.graph import read
from quatgraph.predictors import load
from quatgraph.tasks.graph import GRAPH
from quatgraph.training.bundle import load_bundle


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return written(tmp_path / "rings.jsonl", lines())


@pytest.mark.parametrize("features", ["tags", "degrees"])
def test_a_model_of_colours_predicts_new_graphs_by_the_colours_it_was_trained_on(
    features: str, place: Path, tmp_path: Path
) -> None:
    settings = {"model.name": "wl", "train.lr": 0.1, "data.features": features}
    config = config_of(**{"data.path": str(place)} | settings)
    folder = train_in_folder(GRAPH, [config], tmp_path / "model").folder
    predictor, known = load(folder, device="cpu"), load(folder, device="cpu").predict()
    new = without(lines()[4:9], "label", "id")
    kept = [{"edges": [[2, 1], [1, 0]], "node_labels": ["C", "N", "O"]}]  # of a shape of its own
    strange = [{"edges": [[0, node] for node in range(1, 6)], "node_labels": ["Xe"] * 6}]
    found = predictor.predict(written(tmp_path / "new.jsonl", [*new, *kept, *strange]))
    torch.testing.assert_close(found.probabilities[:5], known.probabilities[4:9])
    what = "the tag 'Xe'" if features == "tags" else "a node of degree 5"
    assert found.notes == [f"training never saw {what}: colours with it count for nothing"]
    if features == "tags":  # only the bias is left
        tensors = load_bundle(folder).tensors
        biases = torch.stack([tensors[f"members.{fold}.bias"] for fold in range(3)])
        torch.testing.assert_close(found.probabilities[-1], biases.softmax(dim=1).mean(dim=0))


def test_models_of_colours_of_several_kinds_share_a_bundle(place: Path, tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [
        {"model.name": "wl", "model.rounds": 0},
        {"model.name": "wl", "model.rounds": 2},
        {"model.name": "wl", "model.rounds": 2, "data.features": "degrees"},
        {},
    ]
    members = [(config_of(**{"data.path": str(place)} | way), 1) for way in ways]
    whole, *alone = bundled("graph", members, read(place), tmp_path)
    each = [load(one, device="cpu").predict().probabilities for one in alone]
    found = load(whole, device="cpu").predict().probabilities
    torch.testing.assert_close(found, torch.stack(each).mean(dim=0))
    assert sorted(n for n in load_bundle(whole).tensors if n.startswith("data.")) == [
        "data.colours-degrees-2",
        "data.colours-tags-0",
        "data.colours-tags-2",
    ]
