"""What decides a number of a knowledge graph: wrong values are refused, equal ones are equal."""

from typing import Any

import pytest
import settings

from quatgraph import config as configs
from quatgraph.errors import UserError
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig


def built(**values: Any) -> LinkConfig:
    return settings.built(LinkConfig, values)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("seeds", 0, "seeds must be at least 1, got 0"),
        ("protocol", "fair", "protocol must be one of 'paper', 'honest'"),
        ("data.unseen", "guess", r"data\.unseen must be one of 'refuse', 'drop', 'keep'"),
        ("model.name", "gcn", r"model\.name must be one of 'simqgnn', 'simrgcn', 'relqgnn'"),
        ("model.decoder", "rotate", r"model\.decoder must be one of 'distmult', 'complex'"),
        ("model.dim_quats", 0, r"model\.dim_quats must be at least 1, got 0"),
        ("model.num_layers", 0, r"model\.num_layers must be at least 1"),
        ("model.dropout", 1.0, r"model\.dropout must be in \[0, 1\), got 1\.0"),
        ("model.normalization", "col", r"model\.normalization must be one of"),
        ("train.epochs", 0, r"train\.epochs must be positive, got 0"),
        ("train.lr", 0.0, r"train\.lr must be positive"),
        ("train.batch_size", 0, r"train\.batch_size must be positive"),
        ("train.clip", 0.0, r"train\.clip must be positive"),
        ("train.evaluate_every", 0, r"train\.evaluate_every must be positive"),
        ("train.patience", 0, r"train\.patience must be positive"),
        ("train.weight_decay", -1e-3, r"train\.weight_decay must not be negative"),
        ("train.n3", -1e-3, r"train\.n3 must not be negative"),
        ("train.smoothing", 1.0, r"train\.smoothing must be in \[0, 1\)"),
        ("train.loss", "margin", r"train\.loss must be one of 'bce', 'softmax', 'kvsall'"),
        ("train.floor", "some", r"train\.floor must be one of 'none', 'uniform'"),
        ("train.precision", "half", r"train\.precision must be one of 'float32'"),
        ("train.select", "best-test", r"train\.select must be one of 'last', 'best-valid'"),
        (
            "train.monitor",
            "mr",
            r"train\.monitor must be one of 'mrr', 'hits@1', 'hits@3', 'hits@10'",
        ),
        ("n3", 3, r"unknown key 'n3'; did you mean 'train\.n3'"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(key: str, value: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        built(**{key: value})


def test_gradients_may_be_left_as_they_are_and_patience_without_end() -> None:
    train = built(**{"train.clip": "none", "train.patience": "none"}).train
    assert train.clip is train.patience is None


def test_seeds_and_the_place_of_the_files_are_no_part_of_a_configuration() -> None:
    identity = built(**{"data.path": "here"}).identity()
    assert identity == built(**{"data.path": "there", "seeds": 3}).identity()
    assert identity != built(**{"data.name": "countries"}).identity()
    assert identity != built(**{"data.split_seed": 1}).identity()


def test_records_from_before_columns_had_names_and_unseen_names_were_kept_stay_equal() -> None:
    identity = built(**{"data.name": "countries"}).identity()
    assert identity["data"] == {
        "name": "countries",
        "path": "",
        "header": None,
        "split_seed": 0,
        "unseen": "refuse",
        "reciprocal": True,
    }
    named = {"data.head": "a", "data.relation": "b", "data.tail": "c"}
    assert identity == built(**{"data.name": "countries"}, **named).identity()
    assert identity != built(**{"data.name": "countries", "data.unseen": "drop"}).identity()


def test_members_may_differ_in_what_leaves_the_shape_of_a_step_alone() -> None:
    settings = configs.flatten(configs.to_dict(LinkConfig()))
    assert set(LINK.varying) < settings.keys()
    shapes = {"model.dim_quats", "model.num_layers", "train.batch_size", "train.epochs"}
    assert not shapes & set(LINK.varying)
