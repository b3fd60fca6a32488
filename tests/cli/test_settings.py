"""The hyperparameters of a task, listed with default, type and meaning."""

import json

import pytest
from commands import assert_user_error, call


def test_the_settings_of_a_task_are_listed_with_their_meaning() -> None:
    result = call("list", "settings", "node", "gcn")
    assert (result.exit_code, result.stderr) == (0, "")
    heading, *lines = result.stdout.splitlines()
    assert heading.startswith(
        "node with the model gcn (others: qgnn, deep-qgnn, gcnii, gat, hgcn, sgc, mlp, linear, phm)"
    )
    place = lines.index("  train.lr = 0.01  (a number, positive)")
    assert lines[place + 1] == "      The learning rate."
    assert not [line for line in lines if "model.masks" in line]  # which only QGNN reads
    assert max(map(len, lines)) <= 100


def test_the_default_model_is_listed_if_none_is_named() -> None:
    assert call("list", "settings", "link").stdout.startswith("link with the model simqgnn (")


def test_settings_are_objects_for_programs() -> None:
    lines = call("list", "settings", "text", "--json").stdout.splitlines()
    found = {setting["key"]: setting for setting in map(json.loads, lines)}
    assert found["train.batch_size"] == {
        "key": "train.batch_size",
        "type": "a whole number or none",
        "default": "64",
        "bounds": "positive",
        "meaning": "Documents of a step; none for all of them, as a transductive model takes them.",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("settings", "no task given; use `quatgraph list settings node`"),
        ("settings nodes", "there is no task 'nodes'; did you mean 'node'?"),
        ("settings node gnc", "the task node has no model 'gnc'; did you mean 'gcn'?"),
        ("models node", "models takes no further argument, got 'node'"),
        ("setting", "cannot list 'setting'; did you mean 'settings'?"),
    ],
)
def test_what_cannot_be_listed_is_a_mistake(arguments: str, words: str) -> None:
    assert_user_error(call("list", *arguments.split()), words)
