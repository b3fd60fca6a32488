"""What decides a graph-classification number: wrong values are refused, equal ones are equal."""

from typing import Any

import pytest
import settings

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.tasks.graph import GRAPH
from quatgraph.tasks.graph.config import GraphConfig


def built(**values: Any) -> GraphConfig:
    return settings.built(GraphConfig, values)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("seeds", 0, "seeds must be at least 1, got 0"),
        ("protocol", "fair", "protocol must be one of 'paper', 'honest'"),
        ("data.features", "none", r"data\.features must be one of 'auto', 'tags', 'degrees'"),
        ("data.folds", "mine", r"data\.folds must be one of 'stratified', 'fixed'"),
        ("data.num_folds", 1, r"data\.num_folds must be at least 2, got 1"),
        ("data.validation", 1.0, r"data\.validation must be in \[0, 1\), got 1\.0"),
        ("data.validation", -0.1, r"data\.validation must be in"),
        ("model.name", "mlp", r"model\.name must be one of 'qgnn', 'gcn', 'sage', 'gat'"),
        ("model.hidden_quats", 0, r"model\.hidden_quats must be at least 1, got 0"),
        ("model.num_layers", 0, r"model\.num_layers must be at least 1"),
        ("model.dropout", 1.0, r"model\.dropout must be in \[0, 1\), got 1\.0"),
        ("model.pooled_dropout", -0.1, r"model\.pooled_dropout must be in"),
        ("model.normalization", "col", r"model\.normalization must be one of"),
        ("train.epochs", 0, r"train\.epochs must be positive, got 0"),
        ("train.lr", 0.0, r"train\.lr must be positive"),
        ("train.batch_size", 0, r"train\.batch_size must be positive"),
        ("train.clip", 0.0, r"train\.clip must be positive"),
        ("train.weight_decay", -1e-3, r"train\.weight_decay must not be negative"),
        ("train.smoothing", 1.0, r"train\.smoothing must be in \[0, 1\)"),
        ("train.select", "best-test", r"train\.select must be one of 'last', 'best-valid'"),
        ("train.patience", 3, r"unknown key 'train\.patience'"),
        ("lr", 3, r"unknown key 'lr'; did you mean 'train\.lr'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        built(**{key: value})


def test_the_best_epoch_on_validation_data_needs_validation_data() -> None:
    with pytest.raises(UserError, match=r"select=best-valid needs data\.validation above 0"):
        built(**{"data.validation": 0})
    assert built(**{"data.validation": 0, "train.select": "last"}).data.validation == 0


def test_attention_heads_must_share_the_width() -> None:
    with pytest.raises(UserError, match="width of 12 reals cannot be shared among 8 heads"):
        built(**{"model.name": "gat", "model.hidden_quats": 3, "model.heads": 8})
    with pytest.raises(UserError, match=r"model\.heads must be at least 1"):
        built(**{"model.name": "gat", "model.heads": 0})


def test_a_setting_that_a_model_does_not_read_is_refused() -> None:
    with pytest.raises(UserError, match=r"'model\.ratio'; the model 'qgnn' reads model\.name, "):
        built(**{"model.ratio": 8})
    with pytest.raises(UserError, match=r"unknown key 'model\.dropout'; did you mean"):
        built(**{"model.name": "gin", "model.dropout": 0.1})
    with pytest.raises(UserError, match=r"unknown key 'model\.pooled_dropuot'; did you mean"):
        built(**{"model.pooled_dropuot": 0.1})


def test_gradients_may_be_left_as_they_are() -> None:
    assert built(**{"train.clip": "none"}).train.clip is None


def test_seeds_and_the_place_of_the_files_are_no_part_of_a_configuration() -> None:
    identity = built(**{"data.path": "here"}).identity()
    assert identity == built(**{"data.path": "there", "seeds": 3}).identity()
    assert identity != built(**{"data.name": "cycles"}).identity()
    assert identity != built(**{"data.num_folds": 9}).identity()


def test_members_may_differ_in_what_leaves_the_shape_of_a_batch_alone() -> None:
    settings = configs.flatten(configs.to_dict(GraphConfig()))
    assert set(GRAPH.varying) < settings.keys()
    shapes = {"model.hidden_quats", "model.num_layers", "train.batch_size", "train.epochs"}
    assert not shapes & set(GRAPH.varying)
