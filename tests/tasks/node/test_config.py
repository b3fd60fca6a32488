"""What decides a node-classification number: wrong values are refused, equal ones are equal."""

from typing import Any

import pytest
import settings

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.tasks.node import NODE
from quatgraph.tasks.node.config import NodeConfig


def built(**values: Any) -> NodeConfig:
    return settings.built(NodeConfig, values)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("seeds", 0, "seeds must be at least 1, got 0"),
        ("seeds", 1.5, "seeds must be a whole number"),
        ("protocol", "fair", "protocol must be one of 'paper', 'honest'"),
        ("model.name", "gin", "model.name must be one of 'qgnn', 'deep-qgnn', 'gcn', 'gcnii'"),
        ("model.hidden_quats", 0, r"model\.hidden_quats must be at least 1, got 0"),
        ("model.num_layers", 0, r"model\.num_layers must be at least 1"),
        ("model.dropout", 1.0, r"model\.dropout must be in \[0, 1\), got 1\.0"),
        ("model.dropout", -0.1, r"model\.dropout must be in"),
        ("model.skip", 1, r"model\.skip must be true or false"),
        ("model.masks", "none", r"model\.masks must be one of"),
        ("model.normalization", "col", r"model\.normalization must be one of"),
        ("train.epochs", 0, r"train\.epochs must be positive, got 0"),
        ("train.lr", 0.0, r"train\.lr must be positive"),
        ("train.lr", "fast", r"train\.lr must be a number, got 'fast'"),
        ("train.patience", 0, r"train\.patience must be positive"),
        ("train.clip", -1.0, r"train\.clip must be positive"),
        ("train.weight_decay", -1e-9, r"train\.weight_decay must not be negative"),
        ("train.select", "best", r"train\.select must be one of 'last', 'best-valid'"),
        ("data.scaling", "max", r"data\.scaling must be one of"),
        ("data.folder", "x", r"unknown key 'data\.folder'"),
        ("lr", 0.1, r"unknown key 'lr'; did you mean 'train\.lr'\?"),
    ],
)
def test_a_wrong_value_is_a_mistake(key: str, value: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        built(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("train.patience", "none"),
        ("train.clip", "none"),
        ("train.weight_decay", 0),
        ("model.dropout", 0),
        ("train.lr", 1),
    ],
)
def test_values_at_the_edge_are_taken(key: str, value: Any) -> None:
    found = configs.flatten(configs.to_dict(built(**{key: value})))[key]
    assert found == (None if value == "none" else value)


def test_a_config_can_be_written_down_and_read_back() -> None:
    config = built(**{"seeds": 3, "data.name": "cora", "train.clip": 2.0, "model.skip": True})
    assert configs.build(NodeConfig, configs.to_dict(config)) == config


def test_where_the_data_lies_is_no_part_of_the_identity() -> None:
    here, there = built(**{"data.path": "here"}), built(**{"data.path": "there"})
    assert here.identity() == there.identity()


def test_columns_that_are_not_set_are_no_part_of_the_identity() -> None:
    assert set(built().identity()["data"]) == {"name", "path", "directed", "split_seed", "scaling"}
    assert built(**{"data.label": "topic"}).identity()["data"]["label"] == "topic"


def test_the_identity_is_all_but_the_number_of_seeds() -> None:
    one, many = built(seeds=1), built(seeds=10)
    assert one.identity() == many.identity()
    assert configs.build(NodeConfig, one.identity()) == one
    flat = configs.flatten(configs.to_dict(one))
    changed = {
        key: built(**{key: value})
        for key, value in {
            "protocol": "paper",
            "data.name": "cora",
            "data.split_seed": 1,
            "data.label": "topic",
            "model.name": "gcn",
            "model.dropout": 0.1,
            "train.lr": 0.5,
            "train.patience": "none",
        }.items()
    }
    digests = {configs.digest(config.identity()) for config in changed.values()}
    assert len(digests | {configs.digest(one.identity())}) == len(changed) + 1
    assert changed.keys() <= flat.keys()


def test_what_may_vary_within_an_ensemble_are_numbers_of_the_config() -> None:
    flat = configs.flatten(configs.to_dict(NodeConfig()))
    assert set(NODE.varying) <= flat.keys()
    assert all(isinstance(flat[key], float | None) for key in NODE.varying)


def test_the_default_protocol_is_honest_and_chooses_on_validation_data() -> None:
    assert NodeConfig().protocol == "honest"
    assert NodeConfig().train.select == "best-valid"
