"""What a model says of itself."""

import json
from pathlib import Path

import pytest
from httpx import Client
from made_up import made_up
from services import ask

from quatgraph import __version__
from quatgraph.query_options import find_query
from quatgraph.serve import replies
from quatgraph.serve.cards import curve_of


def test_all_models_are_listed(client: Client) -> None:
    listed = ask(client, "/api/models")
    assert listed["version"] == __version__
    replies.ModelList.model_validate(listed, strict=True)
    assert [one["name"] for one in listed["models"]] == ["node", "graph", "link", "text"]
    assert {one["state"] for one in listed["models"]} == {"ready"}


@pytest.mark.parametrize("task", ["node", "graph", "link", "text"])
def test_a_card_has_what_its_bundle_says(
    client: Client, bundles: dict[str, Path], task: str
) -> None:
    card = json.loads((bundles[task] / "card.json").read_text())
    found = ask(client, f"/api/models/{task}")
    replies.ModelCard.model_validate(found)
    assert (found["name"], found["task"], found["state"]) == (task, task, "ready")
    assert found["metrics"] == card["metrics"]
    assert [one["weight"] for one in found["members"]] == [one["weight"] for one in card["members"]]
    assert found["members"][0]["settings"]["train.epochs"] > 0
    options = [one.name for one in find_query(task).options if one.name != "vectors"]
    assert [one["name"] for one in found["options"]] == options
    assert found["curves"] == []  # no records lie beside this bundle


def test_a_card_counts_its_data(client: Client) -> None:
    link = ask(client, "/api/models/link")
    assert link["sizes"]["entities"] == 30
    assert link["relations"] == ["knows", "lives in", "works in"]
    assert ask(client, "/api/models/text")["classes"] == ["blame", "praise"]


def test_epochs_of_a_curve_are_counted_unless_they_are_recorded() -> None:
    values = {"valid/mrr": [0.1, 0.2, 0.3]}
    record = made_up("link", "countries", "simqgnn", curves=values, best_epoch=3)
    assert curve_of(record)["epochs"] == [1, 2, 3]
    assert curve_of(record)["selected"] == 3
