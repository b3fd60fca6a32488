"""Ranks of both sides against a count of rivals one by one, and against PyKEEN's."""

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from cities import CITIES, CPU, cities, config_of, problem_of
from torch import Tensor, nn

from quatgraph.data.link import Triples, random_triples, with_inverses
from quatgraph.models.link import MODELS
from quatgraph.ops import Ranks
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.evaluation import (
    SIDES,
    by_relation,
    find_seen,
    rank_by_popularity,
    rank_candidates,
    rank_part,
    summarize_ranks,
)
from quatgraph.tasks.link.problem import Problem
from quatgraph.training.ensemble import Ensemble

E, R = 40, 4
METRICS = ["mrr", "mr", "hits@1", "hits@3", "hits@10"]


@pytest.fixture(scope="module")
def triples() -> Triples:
    return random_triples(E, R, 500)


def whole_numbers(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with small whole numbers for weights: many scores are equal, and all exact."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randint(-1, 2, weight.shape, generator=draw))
    return model.eval()


def tied(triples: Triples, **values: Any) -> tuple[nn.Module, Problem]:
    plain = {"model.name": "embeddings", "model.norm": False, "model.dim_quats": 1} | values
    problem = problem_of(triples, **plain)
    return whole_numbers(LINK.build(config_of(**plain), problem)), problem


def rivals_of(triples: Triples, part: str) -> list[tuple[int, int, int, list[int]]]:
    """Of each question its head, relation, answer, and all wrong answers: first for tails."""
    whole = torch.cat((triples.train, triples.valid, triples.test)).tolist()
    facts = {tuple(fact) for fact in whole}
    asked = getattr(triples, part).tolist()
    tails = [(h, r, t, [e for e in range(E) if (h, r, e) not in facts]) for h, r, t in asked]
    heads = [(t, r + R, h, [e for e in range(E) if (e, r, t) not in facts]) for h, r, t in asked]
    return tails + heads


def oracle(scores: Callable[[int, int], Tensor], triples: Triples, part: str) -> Ranks:
    """Counts rivals one by one; the scores of all entities are those of a head and a relation."""
    greater, equal = [], []
    for head, relation, truth, rivals in rivals_of(triples, part):
        row = scores(head, relation).tolist()
        greater.append(sum(row[e] > row[truth] for e in rivals))
        equal.append(sum(row[e] == row[truth] for e in rivals))
    return Ranks(torch.tensor(greater), torch.tensor(equal))


def scores_by(model: nn.Module, problem: Problem) -> Callable[[int, int], Tensor]:
    @torch.no_grad()
    def scores(head: int, relation: int) -> Tensor:
        query, candidates = model(problem.graph, torch.tensor([head]), torch.tensor([relation]))
        return (query @ candidates.mT)[0]

    return scores


def assert_same(ranks: Ranks, wanted: Ranks) -> None:
    assert ranks.greater.tolist() == wanted.greater.tolist()
    assert ranks.equal.tolist() == wanted.equal.tolist()


@pytest.mark.parametrize("part", ["valid", "test"])
@pytest.mark.parametrize("reciprocal", [True, False])
@pytest.mark.parametrize("decoder", ["distmult", "complex", "transe"])
def test_ranks_count_the_wrong_answers_that_are_ahead_and_level(
    triples: Triples, decoder: str, reciprocal: bool, part: str
) -> None:
    values = {"model.decoder": decoder, "data.reciprocal": reciprocal}
    model, problem = tied(triples, **values)
    wanted = oracle(scores_by(model, problem), triples, part)
    assert (wanted.equal > 3).double().mean() > 0.2
    for numbers in (None, 100):
        assert_same(rank_part(model, problem, part, numbers), wanted)


@pytest.mark.parametrize("name", MODELS)
def test_the_ranks_of_an_ensemble_are_those_of_its_members(triples: Triples, name: str) -> None:
    config = config_of(**{"model.name": name})
    problem = LINK.prepare(triples, config, CPU)
    ensemble = Ensemble([lambda: LINK.build(config, problem)] * 2, [3, 4]).eval()
    asked = problem.parts["valid"]
    with torch.no_grad():
        found = rank_candidates(*ensemble(problem.graph, asked.head, asked.relation), asked)
    for member in range(2):
        model = LINK.build(config, problem).eval()
        model.load_state_dict(ensemble.member(member), strict=False)
        wanted = oracle(scores_by(model, problem), triples, "valid")
        assert_same(Ranks(found.greater[member], found.equal[member]), wanted)


def means(ranks: Ranks, chosen: list[int]) -> dict[str, float]:
    """The metrics of some questions, one by one."""
    rows = [(int(ranks.greater[place]), int(ranks.equal[place])) for place in chosen]
    expected = [1 + greater + equal / 2 for greater, equal in rows]
    hits = {
        f"hits@{k}": [min(1, max(0, (k - greater) / (equal + 1))) for greater, equal in rows]
        for k in (1, 3, 10)
    }
    values = {"mrr": [1 / rank for rank in expected], "mr": expected} | hits
    return {name: sum(each) / len(rows) for name, each in values.items()}


@pytest.fixture
def known_ranks(triples: Triples) -> tuple[Ranks, Problem]:
    model, problem = tied(triples)
    return rank_part(model, problem, "test"), problem


def test_ranks_are_summarized_over_both_sides_and_over_each(
    known_ranks: tuple[Ranks, Problem],
) -> None:
    ranks, _ = known_ranks
    found = summarize_ranks(ranks, "test")
    count = len(ranks.greater)
    sides = {
        "test": range(count),
        "test-tails": range(count // 2),
        "test-heads": range(count // 2, count),
    }
    assert list(found) == [f"{side}/{metric}" for side in sides for metric in METRICS]
    assert [f"test-{side}" for side in SIDES] == list(sides)[1:]
    for side, chosen in sides.items():
        for metric, wanted in means(ranks, list(chosen)).items():
            assert found[f"{side}/{metric}"] == pytest.approx(wanted)
    assert found["test-tails/mrr"] != found["test-heads/mrr"]


def test_every_relation_that_is_asked_for_has_its_own_means(
    known_ranks: tuple[Ranks, Problem], triples: Triples
) -> None:
    ranks, problem = known_ranks
    names = ["spouse", "parent", "child", "friend"]
    relation = triples.test[:, 1].tolist() * 2
    found = by_relation(ranks, problem.parts["test"], names)
    assert list(found) == [names[r] for r in sorted(set(relation))]
    for place, name in enumerate(names):
        chosen = [k for k, r in enumerate(relation) if r == place]
        wanted = means(ranks, chosen) | {"triples": len(chosen) // 2}
        assert found[name] == pytest.approx(wanted)


def test_a_relation_that_is_not_asked_for_is_left_out(known_ranks: tuple[Ranks, Problem]) -> None:
    ranks, problem = known_ranks
    asked = problem.parts["test"]
    inside = asked.relation % R < 2
    some = Ranks(ranks.greater[inside], ranks.equal[inside])
    fewer = dataclasses.replace(asked, relation=asked.relation[inside])
    whole = by_relation(ranks, asked, list("abcd"))
    assert by_relation(some, fewer, list("abcd")) == {name: whole[name] for name in "ab"}


@pytest.mark.gpu
@pytest.mark.parametrize("numbers", [None, 1000])
def test_the_gpu_ranks_as_the_cpu(triples: Triples, numbers: int | None) -> None:
    values = {"model.name": "embeddings", "model.norm": False, "model.dim_quats": 1}
    model, problem = tied(triples)
    there = LINK.prepare(triples, config_of(**values), torch.device("cuda"))
    found = rank_part(model.cuda(), there, "test", numbers)
    wanted = rank_part(model.cpu(), problem, "test")
    assert_same(Ranks(found.greater.cpu(), found.equal.cpu()), wanted)
    assert summarize_ranks(found, "test") == pytest.approx(summarize_ranks(wanted, "test"))
    own, theirs = (
        by_relation(ranks, asked.parts["test"], list("abcd"))
        for ranks, asked in ((found, there), (wanted, problem))
    )
    assert own.keys() == theirs.keys()
    assert all(own[name] == pytest.approx(theirs[name]) for name in own)


PYKEEN_MODELS = {"distmult": "DistMult", "complex": "ComplEx"}


def pykeen_twin(ours: nn.Module, triples: Triples, decoder: str, reciprocal: bool) -> Any:
    """PyKEEN's own model with the same weights; it numbers inverse relations 2 r + 1."""
    models = pytest.importorskip("pykeen.models")
    factory = pytest.importorskip("pykeen.triples").CoreTriplesFactory(
        triples.train, E, R, create_inverse_triples=reciprocal
    )
    width = ours.entities.size(1) // ours.decoder.components
    model = getattr(models, PYKEEN_MODELS[decoder])(
        triples_factory=factory, embedding_dim=width, random_seed=0
    )
    relations = ours.decoder.relations
    if reciprocal:
        relations = torch.stack(relations.split(R), dim=1).flatten(0, 1)
    for theirs, values in (
        (model.entity_representations[0], ours.entities),
        (model.relation_representations[0], relations),
    ):
        # Their complex numbers are pairs, ours halves of a vector.
        pairs = values.unflatten(-1, (ours.decoder.components, -1)).mT.flatten(-2)
        theirs._embeddings.weight.data.copy_(pairs.reshape(theirs._embeddings.weight.shape))
    return model.eval()


@pytest.mark.parametrize("decoder", PYKEEN_MODELS)
@pytest.mark.parametrize("reciprocal", [True, False])
def test_pykeen_ranks_the_same_triples_alike(
    triples: Triples, decoder: str, reciprocal: bool
) -> None:
    evaluation = pytest.importorskip("pykeen.evaluation")
    ours, problem = tied(triples, **{"model.decoder": decoder, "data.reciprocal": reciprocal})
    ranks = rank_part(ours, problem, "test")
    assert (ranks.equal > 3).double().mean() > 0.2
    evaluator = evaluation.RankBasedEvaluator(clear_on_finalize=False)
    result = evaluator.evaluate(
        model=pykeen_twin(ours, triples, decoder, reciprocal),
        mapped_triples=triples.test,
        additional_filter_triples=[triples.train, triples.valid],
        batch_size=16,
        use_tqdm=False,
    )
    count = len(triples.test)
    sides = {"tail": slice(count), "head": slice(count, None), "both": slice(None)}
    for kind in ("optimistic", "realistic", "pessimistic"):
        found = getattr(ranks, kind).double()
        for side, some in sides.items():
            if side != "both":
                theirs = [rank for part in evaluator.ranks[side, kind] for rank in part]
                assert found[some].tolist() == theirs
            wanted = {
                "inverse_harmonic_mean_rank": found[some].reciprocal(),
                "arithmetic_mean_rank": found[some],
                **{f"hits_at_{k}": (found[some] <= k).double() for k in (1, 3, 10)},
            }
            for metric, values in wanted.items():
                assert result.get_metric(f"{side}.{kind}.{metric}") == pytest.approx(
                    values.mean().item()
                )
    # Reported means of the expected rank are PyKEEN's realistic ones. Its hits are those
    # of the expected rank, ours their probability, which lies between its other two.
    metrics = summarize_ranks(ranks, "test")
    for side, part in (("both", "test"), ("tail", "test-tails"), ("head", "test-heads")):
        mrr = result.get_metric(f"{side}.realistic.inverse_harmonic_mean_rank")
        assert metrics[f"{part}/mrr"] == pytest.approx(mrr)
        mr = result.get_metric(f"{side}.realistic.arithmetic_mean_rank")
        assert metrics[f"{part}/mr"] == pytest.approx(mr)
        for k in (1, 3, 10):
            worst, best = (
                result.get_metric(f"{side}.{kind}.hits_at_{k}")
                for kind in ("pessimistic", "optimistic")
            )
            assert worst < metrics[f"{part}/hits@{k}"] < best


def both_sides(triples: Triples, part: torch.Tensor) -> list[list[int]]:
    return with_inverses(part, triples.num_relations).tolist()


def test_answers_are_ordered_by_how_often_they_are_one_in_training() -> None:
    triples = cities()
    found = rank_by_popularity(problem_of(triples), "test")
    parts = torch.cat((triples.train, triples.valid, triples.test))
    known = set(map(tuple, both_sides(triples, parts)))
    counts = Counter((r, t) for _, r, t in both_sides(triples, triples.train))
    for place, (head, relation, truth) in enumerate(both_sides(triples, triples.test)):
        rivals = [
            counts[relation, other]
            for other in range(triples.num_entities)
            if (head, relation, other) not in known
        ]
        own = counts[relation, truth]
        assert found.greater[place] == sum(count > own for count in rivals)
        assert found.equal[place] == sum(count == own for count in rivals)


def test_a_place_of_work_is_one_of_the_cities() -> None:
    ranks = rank_by_popularity(problem_of(cities()), "test").realistic
    assert ranks[: len(ranks) // 2].max() <= CITIES


@pytest.mark.parametrize("reciprocal", [True, False])
def test_triples_with_names_that_training_never_saw_are_measured_apart(
    triples: Triples, reciprocal: bool
) -> None:
    # Training loses the relation 0 and the entities 0 and 1.
    rare = (triples.train[:, [0, 2]] < 2).any(dim=1) | (triples.train[:, 1] == 0)
    partly = dataclasses.replace(triples, train=triples.train[~rare])
    model, problem = tied(partly, **{"data.reciprocal": reciprocal})
    ranks = rank_part(model, problem, "test")
    seen = find_seen(problem, "test")
    known = [h > 1 and t > 1 and r > 0 for h, r, t in triples.test.tolist()]
    assert seen.tolist() == 2 * known
    assert 0 < sum(known) < len(known)
    found = summarize_ranks(ranks, "test", seen)
    rank = ranks.realistic.tolist()
    for kind, wanted in (("seen", True), ("unseen", False)):
        own = [1 / one for one, is_known in zip(rank, 2 * known, strict=True) if is_known == wanted]
        assert found[f"test-{kind}/mrr"] == pytest.approx(sum(own) / len(own))
    assert {name for name in found if "seen" not in name} == set(summarize_ranks(ranks, "test"))


def test_without_unseen_names_nothing_is_measured_apart(triples: Triples) -> None:
    model, problem = tied(triples)
    seen = find_seen(problem, "test")
    assert bool(seen.all())
    assert "test-seen/mrr" not in summarize_ranks(rank_part(model, problem, "test"), "test", seen)
