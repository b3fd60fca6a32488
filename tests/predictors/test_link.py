"""Predicted and scored triples: scores, ranks, known triples, and mistakes in a sentence."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import quatgraph
from quatgraph import LinkPredictor, UserError
from quatgraph.data.link import Triples, load, random_triples, with_inverses
from quatgraph.models.link import Embeddings, LinkOptions, SimQGNN
from quatgraph.models.link.graphs import build_graph
from quatgraph.predictors import link as module
from quatgraph.predictors import train_triples
from quatgraph.predictors.candidates import top_candidates
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig
from quatgraph.tasks.link.evaluation import rank_part
from quatgraph.training.bundle import load_bundle, save_bundle

CPU = torch.device("cpu")
MODELS = {
    "simqgnn": SimQGNN.Options(dim_quats=4),
    "transe": Embeddings.Options(dim_quats=4, decoder="transe", norm=False),
    "quate": Embeddings.Options(dim_quats=4, decoder="quate"),
}


def trained(triples: Triples, folder: Path, model: LinkOptions, **data: Any) -> LinkPredictor:
    train = TrainConfig(epochs=5, lr=0.03, batch_size=256, loss="softmax", evaluate_every=5)
    config = LinkConfig(data=DataConfig(**data), model=model, train=train)
    return train_triples(triples, folder, config=config, device="cpu")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("countries")
    trained(load("countries"), folder, MODELS["simqgnn"])
    return folder


@pytest.fixture(scope="module")
def predictor(bundle: Path) -> LinkPredictor:
    found = quatgraph.load(bundle, device="cpu")
    assert isinstance(found, LinkPredictor)
    return found


def named(triples: Triples, rows: Tensor) -> list[tuple[str, str, str]]:
    ends, kinds = triples.entities, triples.relations
    return [(ends[h], kinds[r], ends[t]) for h, r, t in rows.tolist()]


def evaluators_ranks(predictor: LinkPredictor) -> Tensor:
    """Of the test triples' tails and heads, ``(N, 2)``."""
    problem = LINK.prepare(predictor.triples, predictor.config, CPU)
    return rank_part(predictor.members[0].model, problem, "test").realistic.view(2, -1).T


@pytest.fixture(scope="module", params=["simqgnn", "transe", "quate", "one-way"])
def any_model(request: pytest.FixtureRequest, tmp_path_factory: Any) -> LinkPredictor:
    model = MODELS.get(request.param, MODELS["simqgnn"])
    folder = tmp_path_factory.mktemp(request.param)
    reciprocal = request.param != "one-way"
    return trained(random_triples(300, 4, 1500), folder, model, reciprocal=reciprocal)


def test_test_triples_have_the_ranks_of_the_evaluator(any_model: LinkPredictor) -> None:
    rows = named(any_model.triples, any_model.triples.test)
    expected = evaluators_ranks(any_model)
    assert any_model.predict(rows).ranks.equal(expected)
    for place in (0, 40, 74):
        assert any_model.predict([rows[place]]).ranks.equal(expected[place][None])


def test_an_answer_has_the_rank_that_the_evaluator_gives_it(any_model: LinkPredictor) -> None:
    graph, expected = any_model.triples, evaluators_ranks(any_model)
    for place in (0, 40, 74):
        head, relation, tail = named(graph, graph.test[place : place + 1])[0]
        asked = [{"head": head, "relation": relation}, {"relation": relation, "tail": tail}]
        for side, (question, answer) in enumerate(zip(asked, (tail, head), strict=True)):
            rows = any_model.predict(**question, top=graph.num_entities).rows()
            (row,) = [row for row in rows if row[("tail", "head")[side]] == answer]
            assert row["rank"] == expected[place, side]
            assert row["known"] == "test"


def test_answers_are_all_entities_by_their_scores(any_model: LinkPredictor) -> None:
    graph = any_model.triples
    sides = with_inverses(graph.test[:5], graph.num_relations)
    (member,) = any_model.members
    adjacency = build_graph(graph, member.config.model.graph)
    with torch.no_grad():
        query, candidates = member.model(adjacency, *sides[:, :2].unbind(1))
    scores = query @ candidates.T
    rows = named(graph, graph.test[:5])
    questions = [(head, kind, "?") for head, kind, _ in rows] + [("?", *row[1:]) for row in rows]
    links = any_model.predict(questions, top=300)
    assert links.query.tolist() == [place for place in range(10) for _ in range(300)]
    answers = links.triples.view(10, 300, 3)
    answers = torch.cat((answers[:5, :, 2], answers[5:, :, 0]))
    torch.testing.assert_close(links.scores.view(10, 300), scores.gather(1, answers))
    assert answers.sort().values.equal(torch.arange(300).expand(10, 300))
    assert (links.scores.view(10, 300).diff(dim=1) <= 0).all()
    ranks = links.ranks.nan_to_num(0).sum(dim=1).view(10, 300)
    assert (ranks.diff(dim=1) >= 0).all()


def by_hand(scores: list[float], known: set[int]) -> dict[int, float]:
    """The rank of each entity."""
    ranks = {}
    for entity, own in enumerate(scores):
        rivals = [s for other, s in enumerate(scores) if other != entity and other not in known]
        ranks[entity] = 1 + sum(s > own for s in rivals) + sum(s == own for s in rivals) / 2
    return ranks


@given(
    scores=st.lists(st.integers(0, 4).map(float), min_size=1, max_size=12),
    known=st.sets(st.integers(0, 11)),
    top=st.integers(1, 14),
    only_new=st.booleans(),
)
def test_the_best_answers_are_those_of_counting_by_hand(
    scores: list[float], known: set[int], top: int, only_new: bool
) -> None:
    mask = torch.tensor([[entity in known for entity in range(len(scores))]])
    found = top_candidates(torch.tensor([scores]), mask, top, only_new)
    answers, best, ranks, new = (column[0].tolist() for column in found)
    assert len(set(answers)) == len(answers) == min(top, len(scores))
    assert new == [entity not in known for entity in answers]
    expected = by_hand(scores, known)
    result = [place for place in range(len(answers)) if new[place] or not only_new]
    assert [best[place] for place in result] == [scores[answers[place]] for place in result]
    assert [ranks[place] for place in result] == [expected[answers[place]] for place in result]
    assert [ranks[place] for place in result] == sorted(ranks[place] for place in result)
    possible = [s for entity, s in enumerate(scores) if not only_new or entity not in known]
    assert [best[place] for place in result] == sorted(possible, reverse=True)[:top]


def test_answers_are_in_the_persons_own_words(predictor: LinkPredictor) -> None:
    rows = list(predictor.predict(head="Australia", relation="capital", top=3).rows())
    assert [list(row) for row in rows] == [
        ["predicted", "head", "relation", "tail", "score", "rank", "known"]
    ] * 3
    assert {(row["predicted"], row["head"], row["relation"]) for row in rows} == {
        ("tail", "Australia", "capital")
    }
    (row,) = predictor.predict(relation="capital", tail="Canberra", top=1).rows()
    assert (row["predicted"], row["relation"], row["tail"]) == ("head", "capital", "Canberra")
    assert row["score"] == float(f"{row['score']:.6g}")


def test_letter_case_does_not_matter(predictor: LinkPredictor) -> None:
    exact = predictor.predict(head="Australia", relation="capital")
    other = predictor.predict([(" australia", "CAPITAL", None)])
    assert list(exact.rows()) == list(other.rows())


@pytest.mark.parametrize("end", ["head", "tail"])
def test_known_answers_are_marked_or_left_out(predictor: LinkPredictor, end: str) -> None:
    graph = predictor.triples
    parts = {part: set(named(graph, getattr(graph, part))) for part in ("train", "valid", "test")}
    question = {"relation": "borders", end: "Germany"}
    rows = list(predictor.predict(**question, top=graph.num_entities).rows())
    assert len(rows) == graph.num_entities
    for row in rows:
        triple = row["head"], row["relation"], row["tail"]
        having = [part for part, known in parts.items() if triple in known]
        assert row["known"] == (having[0] if having else "")
    assert {row["known"] for row in rows} == {"train", "valid", ""}
    new = list(predictor.predict(**question, top=5, known="leave-out").rows())
    assert new == [row for row in rows if not row["known"]][:5]
    assert [row["rank"] for row in new] == [1, 2, 3, 4, 5]


def test_a_whole_triple_is_judged_at_both_ends(predictor: LinkPredictor) -> None:
    (row,) = predictor.predict(head="Australia", relation="capital", tail="Canberra").rows()
    assert list(row)[4:] == ["score", "tail_rank", "head_rank", "known"]
    assert (row["predicted"], row["known"]) == ("both", "train")
    ends = [{"head": "Australia"}, {"tail": "Canberra"}]
    scores = []
    for end, (asked, answer) in zip(
        ends, (("tail", "Canberra"), ("head", "Australia")), strict=True
    ):
        answers = predictor.predict(**end, relation="capital", top=2000).rows()
        (same,) = [one for one in answers if one[asked] == answer]
        assert row[f"{asked}_rank"] == same["rank"]
        scores.append(same["score"])
    assert row["score"] == pytest.approx(sum(scores) / 2, rel=1e-4)


def test_without_inverse_relations_the_score_is_that_of_the_tail(any_model: LinkPredictor) -> None:
    head, relation, tail = named(any_model.triples, any_model.triples.test)[0]
    (whole,) = any_model.predict([(head, relation, tail)]).rows()
    rows = any_model.predict(head=head, relation=relation, top=300).rows()
    (same,) = [row for row in rows if row["tail"] == tail]
    tails_alone = whole["score"] == pytest.approx(same["score"], rel=1e-4)
    assert tails_alone == (not any_model.config.data.reciprocal)


def test_questions_of_all_kinds_are_answered_in_their_order(predictor: LinkPredictor) -> None:
    questions = [
        ("?", "capital", "Canberra"),
        ("Peru", "borders", "Chile"),
        ("Peru", "borders", ""),
        ("Chile", "borders", "Peru"),
    ]
    links = predictor.predict(questions, top=2)
    assert links.query.tolist() == [0, 0, 1, 2, 2, 3]
    rows = list(links.rows())
    assert [row["predicted"] for row in rows] == ["head", "head", "both", "tail", "tail", "both"]
    assert len({tuple(row) for row in rows}) == 1
    for row in rows:
        both = row["predicted"] == "both"
        assert (row["rank"] is None) == both
        assert (row["tail_rank"] is None) == (row["head_rank"] is None) == (not both)
    for place, question in enumerate(questions):
        alone = predictor.predict([question], top=2)
        assert alone.scores.equal(links.scores[links.query == place])


def test_many_questions_are_answered_in_pieces(
    predictor: LinkPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = predictor.triples
    questions = [(head, relation, None) for head, relation, _ in named(graph, graph.valid)]
    whole = predictor.predict(questions, known="leave-out")
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 70 * graph.num_entities)
    pieces = predictor.predict(questions, known="leave-out")
    assert list(whole.rows()) == list(pieces.rows())


def test_the_metrics_are_those_on_record(predictor: LinkPredictor) -> None:
    again, recorded = predictor.evaluate(), predictor.card["metrics"]
    assert again.keys() == recorded.keys() - {"valid/merit"}
    assert again.keys() >= {"test/mrr", "test-heads/hits@10"}
    for name, value in again.items():
        assert value == pytest.approx(recorded[name], rel=1e-4), name
    with pytest.raises(UserError, match="a link bundle holds its triples"):
        predictor.evaluate("countries")


def test_what_is_told_apart_is_told_again(tmp_path: Path) -> None:
    graph = random_triples(60, 3, 400)
    wrong = {f"{part}_negatives": getattr(graph, part).roll(1, 0) for part in ("valid", "test")}
    model = trained(dataclasses.replace(graph, **wrong), tmp_path, MODELS["simqgnn"])
    again, recorded = model.evaluate(), model.card["metrics"]
    assert again.keys() >= {"test/classified", "test/f1"}
    assert again | {"valid/merit": recorded["valid/merit"]} == pytest.approx(recorded, rel=1e-4)


def test_relations_add_up_to_all_of_the_test(predictor: LinkPredictor) -> None:
    found = predictor.by_relation()
    assert found.keys() <= set(predictor.triples.relations)
    assert sum(one["triples"] for one in found.values()) == len(predictor.triples.test)
    mean = sum(one["triples"] * one["mrr"] for one in found.values()) / len(predictor.triples.test)
    assert mean == pytest.approx(predictor.evaluate()["test/mrr"])
    assert predictor.by_relation("valid") != found
    with pytest.raises(UserError, match="part must be valid or test, got 'train'"):
        predictor.by_relation("train")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> LinkPredictor:
    """Ids that are no labels, a label of two entities, one entity that training never saw, a
    triple that is in two parts, and no validation."""
    ids = ["Q1", "Q2", "Q3", "Q4", "Q5"]
    graph = Triples(
        name="labelled",
        train=torch.tensor([[0, 0, 1], [1, 0, 2], [2, 1, 3]]),
        valid=torch.empty(0, 3, dtype=torch.int64),
        test=torch.tensor([[0, 0, 1], [4, 1, 0]]),
        entities=ids,
        relations=["P1", "P2"],
        entity_labels=["Ann", "Ben", "Ann", "Dan", "Eve"],
        relation_labels=["likes", "likes"],
    )
    folder = tmp_path_factory.mktemp("labelled")
    config = LinkConfig(
        train=TrainConfig(epochs=1, select="last"), model=SimQGNN.Options(dim_quats=1)
    )
    return train_triples(graph, folder, config=config, device="cpu")


def test_ids_are_told_where_they_are_no_labels(labelled: LinkPredictor) -> None:
    rows = list(labelled.predict(head="q1", relation="P1").rows())
    assert len(rows) == 5
    assert {(row["head"], row["head_id"], row["relation_id"]) for row in rows} == {
        ("Ann", "Q1", "P1")
    }
    assert {(row["tail"], row["tail_id"]) for row in rows} == {
        ("Ann", "Q1"), ("Ben", "Q2"), ("Ann", "Q3"), ("Dan", "Q4"), ("Eve", "Q5")
    }  # fmt: skip
    assert {row["tail_id"]: row["known"] for row in rows}["Q2"] == "train"


def test_a_label_of_several_is_a_mistake(labelled: LinkPredictor) -> None:
    with pytest.raises(UserError, match="2 entities are called 'Ann': 'Q1', 'Q3'; name one by its"):
        labelled.predict(head="Ann", relation="P1")
    with pytest.raises(UserError, match="2 relations are called 'likes'"):
        labelled.predict(head="Ben", relation="likes")


def test_relations_of_the_same_label_are_told_by_their_ids(labelled: LinkPredictor) -> None:
    assert labelled.by_relation().keys() == {"P1", "P2"}


def test_metrics_without_validation_are_those_of_the_test(labelled: LinkPredictor) -> None:
    again = labelled.evaluate()
    sides, seen = {"test-heads", "test-tails"}, {"test-seen", "test-unseen"}  # Eve is unseen
    assert {name.split("/")[0] for name in again} == {"test", *sides, *seen}
    for name, value in again.items():
        assert value == pytest.approx(labelled.card["metrics"][name])


def test_what_training_never_saw_is_noted(labelled: LinkPredictor) -> None:
    assert labelled.predict(head="Dan", relation="P1").notes == []
    (note,) = labelled.predict(head="Eve", relation="P1").notes
    assert note == "no training triple has 'Eve': predictions for it are guesses"


def test_where_all_is_known_there_is_nothing_new(tmp_path: Path) -> None:
    graph = random_triples(2, 1, 4)
    model = trained(graph, tmp_path, MODELS["simqgnn"])
    links = model.predict(head=graph.entities[0], relation=graph.relations[0], known="leave-out")
    assert list(links.rows()) == []
    assert math.isnan(links.scores.mean())


def test_triples_are_trained_from_a_file(tmp_path: Path) -> None:
    lines = [f"p{k}\tknows\tp{(k + step) % 12}" for k in range(12) for step in (1, 2, 3)]
    (tmp_path / "people.tsv").write_text("\n".join(lines))
    config = LinkConfig(train=TrainConfig(epochs=1), model=SimQGNN.Options(dim_quats=1))
    model = train_triples(tmp_path / "people.tsv", tmp_path / "model", config=config, device="cpu")
    assert len(list(model.predict(head="p1", relation="knows").rows())) == 10
    (tmp_path / "people.tsv").unlink()
    again = quatgraph.load(tmp_path / "model", device="cpu")
    assert again.evaluate() == model.evaluate()
    rows = [line.split("\t") for line in lines]
    same = train_triples(rows, tmp_path / "same", config=config, device="cpu")
    assert same.evaluate() == model.evaluate()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({}, "give a query, such as --head Abakan --relation 'large city in', or a file"),
        ({"head": "Peru"}, "the relation is missing; choose from 'borders', 'capital'"),
        ({"head": "Peru", "tail": "Chile"}, "the relation is missing"),
        ({"relation": "borders"}, "head and tail are both missing"),
        ({"head": "Peruu", "relation": "borders"}, "no entity 'Peruu'; did you mean 'Peru'"),
        ({"head": "Peru", "relation": "border"}, "no relation 'border'; did you mean 'borders'"),
        ({"head": "Peru", "relation": "x"}, "no relation 'x'; relations are, for instance, 'bord"),
        ({"head": "Peru", "relation": "borders", "top": 0}, "top must be at least 1, got 0"),
        ({"head": "Peru", "relation": "borders", "known": "hide"}, "mark, leave-out, got 'hide'"),
        ({"queries": [("Peru", "borders", "?")], "head": "Peru"}, "a single query or a file"),
        ({"haed": "Peru", "relation": "borders"}, "unknown option 'haed'; did you mean 'head'?"),
        ({"nodes": ["Peru"]}, "nodes is an option for node models, but the model is for the task"),
    ],
)
def test_a_query_without_a_prediction_is_a_mistake(
    predictor: LinkPredictor, query: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError) as result:
        predictor.predict(**query)
    assert words in str(result.value)


def test_a_bundle_whose_triples_are_others_is_a_mistake(bundle: Path, tmp_path: Path) -> None:
    whole = load_bundle(bundle)
    card = json.loads(json.dumps(whole.card))
    card["entities"][0] = "Atlantis"
    save_bundle(tmp_path, dataclasses.replace(whole, card=card))
    with pytest.raises(UserError, match="triples of 'countries' are not those its card describes"):
        quatgraph.load(tmp_path, device="cpu")
