"""A bundle of several members predicts the weighted mean of what each predicts alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cities
import portfolios
import pytest
import rings
import torch
from torch import Tensor

from quatgraph.predictors import LinkPredictor, load
from quatgraph.predictors import graph as module
from quatgraph.predictors.members import Cache, split_by_size

Links = tuple[LinkPredictor, list[LinkPredictor], Tensor]
CLASSIFIERS = {
    "node": (portfolios.node, [{}, {"nodes": ["n3", "n4"]}]),
    "graph": (portfolios.graph, [{}, {"ids": [rings.lines()[4]["id"]]}]),
    "text": (portfolios.text, [{}, {"texts": ["a lovely film", "dull and old"]}, {"ids": ["7"]}]),
}


def loaded(make: Callable[[Path], Any], folder: Path) -> tuple[Any, list[Any], Tensor]:
    """The predictor of all members, those of each, and the shares of the weights."""
    (whole, *alone), weights = make(folder)
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
    return load(whole, device="cpu"), [load(one, device="cpu") for one in alone], shares


def mean(tables: list[Tensor], shares: Tensor) -> Tensor:
    return (shares[:, None, None] * torch.stack(tables).double()).sum(dim=0)


@pytest.mark.parametrize("task", CLASSIFIERS)
def test_probabilities_are_the_weighted_mean(task: str, tmp_path: Path) -> None:
    make, queries = CLASSIFIERS[task]
    predictor, alone, shares = loaded(make, tmp_path / "data")
    for query in queries:
        found = predictor.predict(**query).probabilities
        each = [one.predict(**query).probabilities for one in alone]
        assert (each[0] - each[1]).abs().max() > 1e-3
        torch.testing.assert_close(found.double(), mean(each, shares), atol=1e-6, rtol=0)


@pytest.mark.parametrize("task", CLASSIFIERS)
def test_members_of_one_split_are_evaluated_as_one(task: str, tmp_path: Path) -> None:
    make, _ = CLASSIFIERS[task]
    predictor, _, _ = loaded(make, tmp_path / "data")
    found = predictor.evaluate()
    data = predictor._load_training_data()
    probabilities = predictor.predict().probabilities
    for part, places in predictor._parts(predictor.members[0], data).items():
        if f"{part}/accuracy" not in predictor.card["metrics"]:
            continue
        own, true = probabilities[places], data.y[places]
        accuracy = float((own.argmax(dim=1) == true).float().mean())
        assert found[f"{part}/accuracy"] == pytest.approx(accuracy)
        loss = -float(own.gather(1, true[:, None]).log().mean())
        if f"{part}/loss" in found:
            assert found[f"{part}/loss"] == pytest.approx(loss, rel=1e-4)
    assert f"{part}/accuracy" in found


def test_members_of_several_folds_are_evaluated_on_their_own(tmp_path: Path) -> None:
    """The mean over folds, weighted as the members are."""
    predictor, alone, _ = loaded(portfolios.graph, tmp_path)
    folds = [replace(member, split=fold) for fold, member in enumerate(predictor.members)]
    predictor.members = folds
    losses = []
    for one, member in zip(alone, folds, strict=True):
        one.members = [member]
        losses.append(one.evaluate()["test/loss"])
    expected = (2 * losses[0] + losses[1] + losses[2]) / 4
    assert predictor.evaluate()["test/loss"] == pytest.approx(expected)


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Links:
    return loaded(portfolios.link, tmp_path_factory.mktemp("link"))


def scores_of(predictor: LinkPredictor, head: str, relation: str) -> Tensor:
    """Of all entities as tails, in their order."""
    found = predictor.predict(head=head, relation=relation, top=predictor.triples.num_entities)
    return found.scores[found.triples[:, 2].argsort()]


def test_triples_are_scored_by_the_mean_log_softmax(
    links: Links,
) -> None:
    predictor, alone, shares = links
    for head, relation in (("person 1", "works in"), ("city 2", "knows")):
        each = [scores_of(one, head, relation)[None].log_softmax(dim=1) for one in alone]
        found = scores_of(predictor, head, relation)
        torch.testing.assert_close(found.double(), mean(each, shares)[0], atol=1e-5, rtol=0)
        assert found.exp().sum() < 1 + 1e-5  # a geometric mean of probabilities


def test_ranks_are_those_of_the_combined_scores(
    links: Links,
) -> None:
    predictor, _, _ = links
    graph = predictor.triples
    ranks = predictor.ranks("test").realistic.view(2, -1)[0]
    whole = torch.cat((graph.train, graph.valid, graph.test)).tolist()
    named = [(graph.entities[h], graph.relations[r], graph.entities[t]) for h, r, t in graph.test]
    assert torch.equal(predictor.predict(named).ranks[:, 0], ranks)
    for (head, relation, tail), rank in zip(graph.test.tolist(), ranks.tolist(), strict=True):
        scores = scores_of(predictor, graph.entities[head], graph.relations[relation])
        known = {t for h, r, t in whole if (h, r) == (head, relation)} - {tail}
        ahead = [e for e, s in enumerate(scores.tolist()) if s > scores[tail] and e not in known]
        assert rank == 1 + len(ahead)


def test_a_whole_triple_has_the_mean_score_of_both_ends(
    links: Links,
) -> None:
    predictor, _, _ = links
    (row,) = predictor.predict(head="person 1", relation="knows", tail="person 6").rows()
    entities = predictor.triples.num_entities
    heads = predictor.predict(relation="knows", tail="person 6", top=entities).rows()
    tails = predictor.predict(head="person 1", relation="knows", top=entities).rows()
    (head,) = (one["score"] for one in heads if one["head"] == "person 1")
    (tail,) = (one["score"] for one in tails if one["tail"] == "person 6")
    assert row["score"] == pytest.approx((head + tail) / 2, abs=1e-4)
    assert predictor.evaluate().keys() >= {"test/mrr", "test/classified"}


def test_a_member_without_inverse_relations_leaves_the_score_of_the_tail(tmp_path: Path) -> None:
    both, one_way = cities.config_of(), cities.config_of(**{"data.reciprocal": False})
    members = [(both, 1), (one_way, 1)]
    whole, *alone = portfolios.bundled("link", members, cities.cities(), tmp_path)
    predictor = load(whole, device="cpu")
    assert [load(one, device="cpu").reciprocal for one in alone] == [True, False]
    assert not predictor.reciprocal
    (row,) = predictor.predict(head="person 1", relation="works in", tail="city 1").rows()
    score = scores_of(predictor, "person 1", "works in")[cities.ENTITIES.index("city 1")]
    assert row["score"] == pytest.approx(float(score), abs=1e-4)


def test_attention_is_the_mean_over_the_members_that_attend(tmp_path: Path) -> None:
    predictor, alone, _ = loaded(portfolios.text, tmp_path)
    found = predictor.predict("a lovely old film", explain=True)
    first, second = (one.predict("a lovely old film").attention[0] for one in alone[:2])
    assert alone[2].predict("a lovely old film").attention is None
    expected = {word: (first[word] + 2 * second[word]) / 3 for word in first}
    assert found.attention == [pytest.approx(expected)]
    assert found.support[0].keys() == expected.keys()


def test_new_words_reach_the_members_that_can_use_them(tmp_path: Path) -> None:
    predictor, alone, shares = loaded(portfolios.text, tmp_path)
    query = {"texts": "a splendid film", "vectors": tmp_path / "vectors.txt"}
    each = [one.predict(**query).probabilities for place, one in enumerate(alone) if place != 2]
    each.insert(2, alone[2].predict("a film").probabilities)
    found = predictor.predict(**query)
    torch.testing.assert_close(found.probabilities.double(), mean(each, shares), atol=1e-6, rtol=0)
    assert "splendid" in found.attention[0]


def test_inputs_are_prepared_once_for_each_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, _, _ = loaded(portfolios.graph, tmp_path)
    predictor.members += predictor.members
    needs: list[Any] = []
    prepare = module.build_collection
    monkeypatch.setattr(
        module, "build_collection", lambda *a: (needs.append(a[1:3]), prepare(*a))[1]
    )
    predictor.predict()
    assert len(needs) == 3


def test_a_value_is_computed_once() -> None:
    cache, calls = Cache(), []
    for _ in range(2):
        assert cache.get("key", lambda: calls.append(1)) is None
    assert calls == [1]


def test_places_are_split_by_size() -> None:
    assert list(split_by_size([3, 1, 1, 9, 2], 4)) == [[0, 1], [2], [3], [4]]
    assert list(split_by_size([], 4)) == []
    assert list(split_by_size([3, 1, 1, 9, 2, 2], 4, padded=True)) == [[0], [1, 2], [3], [4, 5]]
