"""The learning curves of a model are those of its members, out of the records beside it."""

from pathlib import Path

import cities
from commands import call

import quatgraph
from quatgraph.serve.cards import describe_bundle

SHORT = {
    "model.name": "simqgnn",
    "model.dim_quats": 2,
    "train.epochs": 2,
    "train.evaluate_every": 1,
}


def test_a_trained_model_shows_the_curves_of_its_members(tmp_path: Path) -> None:
    data, folder = cities.write_cities(tmp_path / "data"), tmp_path / "model"
    settings = [f"--set={key}={value}" for key, value in SHORT.items()]
    result = call("train", "link", "--data", str(data), "--out", str(folder), *settings)
    assert result.exit_code == 0, result.output
    card = describe_bundle(quatgraph.load(folder, device="cpu"), folder)
    members = {(one["method"], one["split"], one["seed"]) for one in card["members"]}
    assert card["curves"]
    for curve in card["curves"]:
        assert (curve["method"], curve["split"], curve["seed"]) in members
        assert curve["selected"] in curve["epochs"]
        assert len(curve["values"]["valid/mrr"]) == len(curve["epochs"])
