"""What a training of knowledge-graph completion keeps, what memory it takes, its bundle."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from cities import bits, cities, config_of, outcome_of, problem_of, varied, with_negatives
from torch import nn

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link import task as running
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import rank_part, summarize_ranks
from quatgraph.tasks.link.problem import Problem
from quatgraph.tasks.link.task import LinkTask
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit


@pytest.fixture(scope="module")
def triples() -> Triples:
    return cities()


def kept_model(fitted: Fit, config: LinkConfig, problem: Problem, member: int) -> nn.Module:
    model = LINK.build(config, problem).eval()
    model.load_state_dict({name: fitted.weights[name][member] for name in model.state_dict()})
    return model


@pytest.mark.parametrize("monitor", ["hits@10", "mrr"])
def test_the_first_epoch_that_is_best_on_validation_data_is_kept(
    triples: Triples, monitor: str
) -> None:
    values = {"train.monitor": monitor, "train.epochs": 12, "model.name": "embeddings"}
    members, problem = varied(**values), problem_of(triples)
    fitted = LINK.train(members, problem, LINK.plan(members))
    curve = fitted.curves[f"valid/{monitor}"]
    assert torch.equal(fitted.curves["valid/merit"], curve)
    for index, member in enumerate(members):
        measured = curve[:, index].tolist()
        assert fitted.best_epoch[index] == 1 + measured.index(max(measured))
        assert fitted.metrics["valid/merit"][index] == max(measured)
        model = kept_model(fitted, member.config, problem, index)
        for part in ("valid", "test"):
            found = summarize_ranks(rank_part(model, problem, part), part)
            for name, value in found.items():
                if name in fitted.metrics:
                    assert fitted.metrics[name][index].item() == pytest.approx(value, rel=1e-5)
    assert set(fitted.best_epoch.tolist()) != {12}
    assert set(found) < fitted.metrics.keys()


def test_what_is_kept_is_the_model_of_a_training_that_ended_there(triples: Triples) -> None:
    def trained(**values: Any) -> Fit:
        plain = {"model.name": "embeddings", "model.dropout": 0.2, "train.lr": 0.05}
        config = config_of(**plain, **values)
        members = [Member(config, 0, 0)]
        return LINK.train(members, problem_of(triples), LINK.plan(members))

    best = trained(**{"train.epochs": 15})
    epoch = int(best.best_epoch)
    assert epoch < 15
    last = trained(**{"train.epochs": epoch, "train.select": "last"})
    assert last.curve_epochs == [epoch]
    assert bits(last)["entities"] == bits(best)["entities"]
    tests = {name: value for name, value in best.metrics.items() if name.startswith("test")}
    assert tests == {name: last.metrics[name] for name in tests}
    assert len(tests) == 15


def test_validation_may_be_rarer_than_epochs(triples: Triples) -> None:
    config = config_of(**{"train.epochs": 5, "train.evaluate_every": 2})
    outcome = outcome_of([Member(config, 0, 0)], triples)
    assert outcome.fit.curve_epochs == [2, 4, 5]
    assert outcome.records[0].best_epoch in (2, 4, 5)


def test_patience_ends_a_training_early(triples: Triples) -> None:
    short = {"train.patience": 3, "train.epochs": 300, "train.lr": 0.05}
    config = config_of(**short, **{"model.name": "embeddings"})
    (record,) = outcome_of([Member(config, 0, 0)], triples).records
    assert record.epochs_run < 100
    assert record.best_epoch == record.epochs_run - 3


def test_a_training_that_keeps_the_last_epoch_is_validated_there_only(triples: Triples) -> None:
    config = config_of(**{"train.select": "last", "train.patience": 1})
    assert LINK.plan([Member(config, 0, 0)]).patience is None
    outcome = outcome_of([Member(config, 0, 0)], triples)
    assert outcome.fit.curve_epochs == [4]
    (record,) = outcome.records
    assert record.best_epoch == record.epochs_run == 4


def test_without_validation_triples_the_last_epoch_is_kept(triples: Triples) -> None:
    blind = dataclasses.replace(triples, valid=triples.valid[:0])
    (record,) = outcome_of([Member(config_of(**{"train.select": "last"}), 0, 0)], blind).records
    assert math.isnan(record.metrics["valid/mrr"])
    assert 0 < record.metrics["test/mrr"] <= 1


def test_fewer_members_fit_at_once_the_more_each_holds(
    triples: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, problem = config_of(), problem_of(triples)
    plenty = LINK.max_members(problem, config)
    wide = config_of(**{"model.dim_quats": 64, "model.num_layers": 3})
    assert 1 <= LINK.max_members(problem, wide) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 3_000_000)
    assert 1 <= LINK.max_members(problem, config) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 1000)
    with pytest.raises(UserError, match=r"30 entities of 2 quaternions .* lower model\.dim_quats"):
        LINK.max_members(problem, config)


def test_smaller_pieces_are_tried_where_memory_runs_out(
    triples: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def short(task: LinkTask, *arguments: Any) -> Fit:
        *_, divisor = arguments
        tried.append(divisor)
        if divisor < 16:
            raise torch.OutOfMemoryError("too little memory")
        return whole(task, *arguments)

    whole = LinkTask._fit
    monkeypatch.setattr(LinkTask, "_fit", short)
    members, problem = varied(), problem_of(triples)
    small = LINK.train(members, problem, LINK.plan(members))
    assert tried == [1, 4, 16]
    monkeypatch.setattr(LinkTask, "_fit", whole)
    usual = LINK.train(members, problem, LINK.plan(members))
    for name, value in usual.metrics.items():
        torch.testing.assert_close(small.metrics[name], value)


def test_a_device_that_is_too_small_for_the_smallest_pieces_is_named(
    triples: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> Fit:
        raise torch.OutOfMemoryError("too little memory")

    monkeypatch.setattr(LinkTask, "_fit", short)
    with pytest.raises(UserError, match=r"out of memory .* lower model\.dim_quats"):
        LINK.train(varied(), problem_of(triples), LINK.plan(varied()))


def test_a_bundle_holds_names_and_triples(triples: Triples) -> None:
    data = dataclasses.replace(with_negatives(triples), notes=["Two lines were empty."])
    bundle = bundle_of(LINK, [(outcome_of([Member(config_of(), 0, 0)], data), 0, 1)], data)
    assert bundle.card["entities"] == data.entities
    assert bundle.card["relation_labels"] == data.relation_labels
    assert bundle.card["notes"] == ["Two lines were empty."]
    for part in ("train", "valid", "test", "valid_negatives", "test_negatives"):
        assert torch.equal(bundle.tensors[f"data.{part}"], getattr(data, part).int())
    weights = bundle.select_tensors("members.0")
    LINK.build(config_of(), problem_of(data)).load_state_dict(weights)
