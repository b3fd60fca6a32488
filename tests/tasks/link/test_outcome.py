"""What a training of knowledge-graph completion keeps, what memory it takes, its bundle."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from cities import CPU, bits, cities, config_of, outcome_of, problem_of, varied, with_negatives
from torch import nn

from quatgraph.data.link import Triples
from quatgraph.errors import Mistake
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link import run as running
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.evaluation import ranks_of, told
from quatgraph.tasks.link.problem import Problem, build_model
from quatgraph.tasks.link.run import members_at_once, plan_of, train
from quatgraph.tasks.runs import bundle_of
from quatgraph.tasks.task import Member
from quatgraph.training.loop import Fit


@pytest.fixture(scope="module")
def triples() -> Triples:
    return cities()


def kept_model(fitted: Fit, config: LinkConfig, problem: Problem, member: int) -> nn.Module:
    model = build_model(config, problem).eval()
    model.load_state_dict({name: fitted.weights[name][member] for name in model.state_dict()})
    return model


@pytest.mark.parametrize("monitor", ["hits@10", "mrr"])
def test_the_first_epoch_that_is_best_on_validation_data_is_kept(
    triples: Triples, monitor: str
) -> None:
    values = {"train.monitor": monitor, "train.epochs": 12, "model.name": "embeddings"}
    members, problem = varied(**values), problem_of(triples)
    fitted = train(members, problem, plan_of(members))
    curve = fitted.curves[f"valid/{monitor}"]
    assert torch.equal(fitted.curves["valid/merit"], curve)
    for index, member in enumerate(members):
        measured = curve[:, index].tolist()
        assert fitted.best_epoch[index] == 1 + measured.index(max(measured))
        assert fitted.metrics["valid/merit"][index] == max(measured)
        model = kept_model(fitted, member.config, problem, index)
        for part in ("valid", "test"):
            found = told(ranks_of(model, problem, part), part)
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
        return train(members, problem_of(triples), plan_of(members))

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
    assert plan_of([Member(config, 0, 0)]).patience is None
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
    plenty = members_at_once(problem, config, CPU)
    wide = config_of(**{"model.dim_quats": 64, "model.num_layers": 3})
    assert 1 <= members_at_once(problem, wide, CPU) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 3_000_000)
    assert 1 <= members_at_once(problem, config, CPU) < plenty
    monkeypatch.setattr(running, "total_memory", lambda device: 1000)
    with pytest.raises(Mistake, match=r"30 entities of 2 quaternions .* lower model\.dim_quats"):
        members_at_once(problem, config, CPU)


def test_smaller_pieces_are_tried_where_memory_runs_out(
    triples: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def short(members: Any, problem: Problem, plan: Any, progress: Any, room: int) -> Fit:
        tried.append(room)
        if room < 16:
            raise torch.OutOfMemoryError("no room")
        return whole(members, problem, plan, progress, room)

    whole = running._train
    monkeypatch.setattr(running, "_train", short)
    members, problem = varied(), problem_of(triples)
    small = train(members, problem, plan_of(members))
    assert tried == [1, 4, 16]
    monkeypatch.setattr(running, "_train", whole)
    usual = train(members, problem, plan_of(members))
    for name, value in usual.metrics.items():
        torch.testing.assert_close(small.metrics[name], value)


def test_a_device_that_is_too_small_for_the_smallest_pieces_is_named(
    triples: Triples, monkeypatch: pytest.MonkeyPatch
) -> None:
    def short(*_: Any) -> Fit:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(running, "_train", short)
    with pytest.raises(Mistake, match=r"out of memory .* lower model\.dim_quats"):
        train(varied(), problem_of(triples), plan_of(varied()))


def test_a_bundle_holds_names_and_triples(triples: Triples) -> None:
    data = dataclasses.replace(with_negatives(triples), notes=["Two lines were empty."])
    bundle = bundle_of(LINK, [(outcome_of([Member(config_of(), 0, 0)], data), 0, 1)], data)
    assert bundle.card["entities"] == data.entities
    assert bundle.card["relation_labels"] == data.relation_labels
    assert bundle.card["notes"] == ["Two lines were empty."]
    for part in ("train", "valid", "test", "valid_negatives", "test_negatives"):
        assert torch.equal(bundle.tensors[f"data.{part}"], getattr(data, part).int())
    weights = bundle.select_tensors("members.0")
    build_model(config_of(), problem_of(data)).load_state_dict(weights)
