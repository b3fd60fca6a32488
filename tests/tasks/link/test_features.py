"""Training with features of entities."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from cities import (
    CPU,
    PEOPLE,
    bits,
    cities,
    config_of,
    varied,
    with_features,
    without_first_city,
)
from on_cpu import train_in_folder

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.models.link import MODELS, GraphModel
from quatgraph.predictors import load
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.problem import with_all_triples
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.refit import refit
from quatgraph.tasks.task import Member
from quatgraph.training.context import Context
from quatgraph.training.loop import Paused
from quatgraph.training.runtime import Deadline

NAMES = [name for name, model in MODELS.items() if issubclass(model, GraphModel)]


def trained(members: list[Member], triples: Triples) -> dict[str, list[Any]]:
    problem = LINK.prepare(triples, members[0].config, CPU)
    return bits(LINK.train(members, problem, LINK.plan(members)))


@pytest.mark.parametrize("name", NAMES)
def test_the_map_of_features_is_learned_and_repeats_bit_for_bit(name: str) -> None:
    members = [Member(config_of(**{"model.name": name}), 0, 0)]
    triples = with_features(cities())
    first = trained(members, triples)
    assert torch.tensor(first["feature_map.weight"])[..., :2].abs().amin() > 0
    assert first == trained(members, triples)


@pytest.mark.parametrize("sparse", [True, False])
def test_a_member_learns_the_same_alone(sparse: bool) -> None:
    members, triples = varied(), with_features(cities(), sparse=sparse)
    together = trained(members, triples)
    for place, member in enumerate(members):
        alone = trained([member], triples)
        weights = (torch.tensor(found["feature_map.weight"]) for found in (together, alone))
        mine, theirs = weights
        torch.testing.assert_close(mine[place], theirs[0], atol=1e-5, rtol=1e-4)


def test_bfloat16_is_trained_with_features() -> None:
    members = [Member(config_of(**{"train.precision": "bfloat16"}), 0, 0)]
    assert trained(members, with_features(cities()))["valid/mrr"][0] > 0


def test_features_place_a_city_that_no_training_triple_has() -> None:
    """Where its people live and work is asked for: a city is told from people by its features."""
    config = config_of(**{"model.name": "relqgnn", "train.epochs": 12, "train.lr": 0.02})
    plain = without_first_city(cities())
    moved = cities().train[(cities().train == PEOPLE)[:, [0, 2]].any(dim=1)]
    plain = dataclasses.replace(plain, test=moved)
    found = [
        trained([Member(config, 0, 0)], triples)["test-tails/mrr"][0]
        for triples in (plain, with_features(plain))
    ]
    assert found[1] > max(0.2, 2 * found[0])


def test_a_refit_learns_the_vectors_of_all_entities_of_triples() -> None:
    triples = without_first_city(with_features(cities()))
    problem = LINK.prepare(triples, config_of(), CPU)
    assert problem.graph.trained[PEOPLE] == 0
    assert with_all_triples(problem).graph.trained.all()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("refitted", [True, False])
def test_a_bundle_holds_the_features_and_predicts_as_it_was_trained(
    sparse: bool, refitted: bool, tmp_path: Path
) -> None:
    triples = without_first_city(with_features(cities(), sparse=sparse))
    job = train_in_folder(LINK, [config_of()], tmp_path / "m", data=triples)
    if refitted:
        refit(LINK, tmp_path / "m", Context(CPU), triples)
    predictor = load(tmp_path / "m", device="cpu")
    assert predictor.triples.digest == triples.digest
    assert predictor.triples.feature_names == triples.feature_names
    (member,) = predictor.members
    graph = LINK.prepare(triples, member.config, CPU).graph
    assert torch.equal(predictor.model.encode(member), member.model.encode(graph))
    if not refitted:
        found = predictor.evaluate()
        assert found == pytest.approx({name: job.metrics[name] for name in found}, rel=1e-4)
        assert len(predictor.predict_missing("works in", top=3).triples) == 3
    predicted = predictor.predict(head="city 0", relation="works in", top=2)
    assert predicted.notes == [
        "no training triple has 'city 0': predictions for it rest on its features"
    ]
    assert len(predictor.explain(predicted).support) == 2


def test_a_resumed_training_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    def run(name: str, **others: Any) -> list[Any]:
        job = train_in_folder(
            LINK, [config_of()], tmp_path / name, data=with_features(cities()), **others
        )
        return [(r.metrics, r.curves) for r in job.records]

    whole = run("whole")
    with pytest.raises(Paused):
        run("parts", deadline=Deadline(0))
    with pytest.raises(UserError, match="other settings or data"):
        train_in_folder(LINK, [config_of()], tmp_path / "whole", data=cities(), resume=True)
    assert run("parts", resume=True) == whole


@pytest.mark.parametrize("name", [name for name in MODELS if name not in NAMES])
def test_a_model_without_layers_refuses_features(name: str, tmp_path: Path) -> None:
    candidates = [config_of(**{"model.name": name, "model.dim_quats": 5})]
    with pytest.raises(UserError, match=f"the model {name} takes no features .*=none"):
        train_in_folder(LINK, candidates, tmp_path / "m", data=with_features(cities()))
    assert train_in_folder(LINK, candidates, tmp_path / "m", data=cities()).records


def test_several_such_models_are_refused_together() -> None:
    candidates = [config_of(**{"model.name": name}) for name in ("embeddings", "tucker")]
    with pytest.raises(UserError, match=r"the models embeddings, tucker take no features"):
        LINK.check_candidates(candidates, with_features(cities()))


def test_the_portfolio_trains_such_models_without(tmp_path: Path) -> None:
    candidates = default_candidates(LINK, {"train": {"epochs": 1}, "model": {"dim_quats": 1}})
    job = train_in_folder(LINK, candidates, tmp_path, data=with_features(cities()), combine=True)
    assert job.notes == [
        "trained without the features of entities, which they do not take: embeddings"
    ]
    assert load(tmp_path, device="cpu").evaluate()


CUDA = torch.device("cuda")


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sparse", [True, False])
def test_captured_steps_with_features_equal_eager_ones_bit_for_bit(name: str, sparse: bool) -> None:
    members = varied(**{"model.name": name, "train.epochs": 6})
    problem = LINK.prepare(with_features(cities(), sparse=sparse), members[0].config, CUDA)
    captured, again, eager = (
        LINK.train(members, problem, dataclasses.replace(LINK.plan(members), capture=capture))
        for capture in (True, True, False)
    )
    assert bits(captured) == bits(again) == bits(eager)
