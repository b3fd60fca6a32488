"""What decides a number of text classification."""

from typing import Any

import pytest
import settings

from quatgraph.errors import UserError
from quatgraph.tasks.ensembles import group_by_shape
from quatgraph.tasks.task import Member
from quatgraph.tasks.text import TEXT
from quatgraph.tasks.text.config import TextConfig, TrainConfig


def built(**values: Any) -> TextConfig:
    return settings.built(TextConfig, values)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("data.window", 0, "data.window must be at least 1, got 0"),
        ("data.dimensions", 0, "data.dimensions must be at least 1"),
        ("data.min_count", 0, "data.min_count must be at least 1"),
        ("data.validation", 0, "data.validation must be between 0 and 1, got 0"),
        ("data.draw_seed", -1, "data.draw_seed must be from 0"),
        ("model.name", "bert", "model.name"),
        ("model.steps", 0, "model.steps must be at least 1"),
        ("model.dropout", 1, r"model.dropout must be in \[0, 1\)"),
        ("train.lr", 0, "train.lr must be positive"),
        ("train.patience", 0, "train.patience must be positive"),
        ("train.weight_decay", -1, "train.weight_decay must not be negative"),
        ("seeds", 0, "seeds must be at least 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(key: str, value: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        built(**{key: value})


def test_where_data_is_does_not_tell_configurations_apart() -> None:
    columns = {"data.text": "body", "data.label": "topic"}
    files = {"data.path": "/here/a.tsv", "data.vectors": "/here/v.txt"}
    here = built(**files, **columns, seeds=2)
    there = built(**{"data.path": "/there/b.tsv", "data.vectors": "/there/v.txt"})
    assert here.identity() == there.identity()
    assert here.identity() != built(**{"data.vectors": "none"}).identity()


def test_members_differ_in_seed_rates_and_weight_decay_alone() -> None:
    varied = {
        "train.lr": 0.1,
        "train.weight_decay": 0.1,
        "model.dropout": 0.1,
        "model.pooled_dropout": 0.1,
    }
    alike = [built(), *(built(**{key: value}) for key, value in varied.items())]
    assert (
        len(group_by_shape(TEXT, [Member(config, 0, seed) for config in alike for seed in (0, 1)]))
        == 1
    )
    others = [built(), built(**{"model.steps": 1}), built(**{"data.window": 2})]
    assert len(group_by_shape(TEXT, [Member(config, 0, 0) for config in others])) == 3


def test_a_setting_that_a_model_does_not_read_is_refused() -> None:
    with pytest.raises(UserError, match=r"'model.dropout'; the model 'fasttext' reads model.name"):
        built(**{"model.name": "fasttext", "model.dropout": 0.1})
    with pytest.raises(UserError, match=r"'model.steps'; the model 'bilstm' reads model.name"):
        built(**{"model.name": "bilstm", "model.steps": 1})
    with pytest.raises(UserError, match=r"model\.bigrams must not be negative"):
        built(**{"model.name": "fasttext", "model.bigrams": -1})


def test_nesterovs_method_takes_all_documents_at_once() -> None:
    TrainConfig(optimizer="nesterov", batch_size=None)
    with pytest.raises(ValueError, match=r"set train\.batch_size=none, or train\.optimizer=adam"):
        TrainConfig(optimizer="nesterov")
