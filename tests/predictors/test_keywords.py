"""Hyperparameters by their short names."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reviews
import torch
from torch_geometric.data import Data

import quatgraph
from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.predictors.keywords import apply_settings, split_keywords
from quatgraph.tasks import TASKS
from quatgraph.tasks.node import NODE
from quatgraph.tasks.text import TEXT
from quatgraph.training.record import read_records

INTERNAL = ("protocol", "data.name", "data.path", "train.labels")


@pytest.mark.parametrize("task", TASKS)
def test_short_names_are_unambiguous_and_reach_every_setting(task: str) -> None:
    hooks = TASKS[task]
    for name in hooks.models:
        values = configs.to_dict(apply_settings(hooks, None, {"model": {"name": name}}))
        flat = configs.flatten(values)
        keys = [key for key in flat if key not in INTERNAL]
        short = {key: key.removesuffix(".name").rpartition(".")[2] for key in keys}
        assert not [one for one, count in Counter(short.values()).items() if count > 1]
        for key in keys:
            for spelling in (short[key], key):
                given = {"model": name, spelling: flat[key]}
                _, settings = split_keywords(hooks, given)
                assert configs.flatten(settings)[key] == flat[key]


def test_settings_change_a_configuration_and_keep_the_rest() -> None:
    config = apply_settings(NODE, None, {"train": {"lr": 0.5}, "seeds": 3})
    assert (config.train.lr, config.seeds) == (0.5, 3)
    gcn = apply_settings(NODE, config, {"model": {"name": "gcn", "hidden_quats": 7}})
    assert gcn.model == NODE.models["gcn"].Options(hidden_quats=7)
    assert gcn.train == config.train


def test_numbers_may_be_of_numpys_types() -> None:
    _, settings = split_keywords(NODE, {"lr": np.float32(0.5), "epochs": np.int64(3)})
    assert settings == {"train": {"lr": 0.5, "epochs": 3}}
    assert type(settings["train"]["epochs"]) is int


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"hiden_quats": 3}, "unknown option 'hiden_quats'; did you mean 'hidden_quats'?"),
        ({"devise": "cpu"}, "unknown option 'devise'; did you mean 'device'?"),
        ({"heads": 2}, "'heads' is an option of the model 'gat': set model too"),
        ({"model": "gan"}, "model.name must be one of 'qgnn', "),
        ({"lr": "fast"}, "train.lr must be a number, got 'fast'"),
        ({"lr": -1.0}, "train.lr must be positive"),
        ({"path": "x"}, "unknown option 'path'"),
        ({"name": "gcn"}, "unknown option 'name'"),
        ({"labels": "all"}, "unknown option 'labels'"),
        ({"label": 2020}, "data.label must be text, got 2020; put it in quotes"),
        ({"class_weight": {}}, "unknown option 'class_weight'; did you mean 'class_weights'?"),
        ({"class_weights": {"a": -1}}, "class_weights['a'] must be a positive number, got -1"),
        ({"class_weights": {"a": "3"}}, "class_weights['a'] must be a positive number, got '3'"),
        ({"class_weights": {"a:2,b": 1}}, "class_weights cannot name the class 'a:2,b'"),
        ({"class_weights": [1, 2]}, "class_weights must be 'balanced', None, or a dictionary"),
        ({"class_weights": {}}, "class_weights is empty"),
        ({"callback": 3}, "callback must be a function of an event, got 3"),
        ({"device": 0}, "unknown device '0'"),
        ({"learning_rate": 0.1}, "unknown option 'learning_rate'; did you mean 'lr'?"),
        ({"refit": "yes"}, "refit must be True or False, got 'yes'"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(
    keywords: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as error:
        quatgraph.train_nodes(Data(), tmp_path / "model", **keywords)
    assert str(error.value).startswith(message)
    assert not list(tmp_path.iterdir())


def test_settings_are_fixed_in_all_candidates(tmp_path: Path) -> None:
    y = torch.arange(20) % 2
    ring = torch.stack((torch.arange(20), (torch.arange(20) + 2) % 20))
    data = Data(x=torch.rand(20, 3) + y[:, None], y=y, edge_index=ring)
    quatgraph.train_nodes(data, tmp_path / "m", device="cpu", epochs=2, lr=0.02, num_layers=1)
    records = read_records(tmp_path / "m" / "records.jsonl")
    assert {record.config["train"]["lr"] for record in records} == {0.02}
    assert {record.config["model"]["num_layers"] for record in records} == {1}


def test_settings_change_a_configuration_that_is_given(tmp_path: Path) -> None:
    config = reviews.config_of()
    model = quatgraph.train_texts(
        reviews.TEXTS, reviews.LABELS, tmp_path / "m", config=config, device="cpu", epochs=1
    )
    assert model.config == apply_settings(TEXT, config, {"train": {"epochs": 1}})
