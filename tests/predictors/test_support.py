"""Known triples that support a prediction: strengths by autograd, which triples, and mistakes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from quatgraph import LinkPredictor, UserError
from quatgraph.data.link import from_names, load, with_inverses
from quatgraph.models.link import Embeddings, LinkOptions, SimQGNN
from quatgraph.predictors import train_triples
from quatgraph.predictors.link_combination import CombinedModel
from quatgraph.predictors.support import compute_strengths, find_neighbours
from quatgraph.tasks.link.config import DataConfig, LinkConfig, TrainConfig

MODELS = {
    "simqgnn": SimQGNN.Options(dim_quats=4),
    "transe": Embeddings.Options(dim_quats=4, decoder="transe", norm=False),
    "quate": Embeddings.Options(dim_quats=4, decoder="quate"),
}


def trained(rows: object, folder: Path, model: LinkOptions, **data: bool) -> LinkPredictor:
    train = TrainConfig(epochs=5, lr=0.03, batch_size=256)
    config = LinkConfig(data=DataConfig(**data), model=model, train=train)  # type: ignore[arg-type]
    return train_triples(rows, folder, config=config, device="cpu")


@pytest.fixture(scope="module", params=[*MODELS, "one-way"])
def predictor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> object:
    model = MODELS.get(request.param, MODELS["quate"])
    folder, reciprocal = tmp_path_factory.mktemp("model"), request.param != "one-way"
    return trained(load("countries"), folder, model, reciprocal=reciprocal)


def gradient(predictor: LinkPredictor, triple: Tensor) -> Tensor:
    """The gradient of a triple's score with respect to the vectors of entities, in float64."""
    (member,) = predictor.members
    entities = predictor.model.encode(member).detach().double().requires_grad_()
    decoder = member.model.decoder.double()
    both = with_inverses(triple[None], predictor.triples.num_relations)
    query, candidates = decoder(entities, both[:, 0], both[:, 1])
    (found,) = torch.autograd.grad((query * candidates[both[:, 2]]).sum(), entities)
    decoder.float()
    return found


def test_strengths_are_products_of_gradients(predictor: LinkPredictor) -> None:
    graph = predictor.triples
    triple = graph.test[3]
    others = find_neighbours(triple, graph.train)[:20]
    own = gradient(predictor, triple)
    expected = torch.stack([(gradient(predictor, one) * own).sum() for one in others])
    found = compute_strengths(predictor.model, triple, others)
    torch.testing.assert_close(found, (expected / own.square().sum()).float(), rtol=1e-3, atol=1e-3)
    itself = compute_strengths(predictor.model, triple, triple[None])
    torch.testing.assert_close(itself, torch.ones(1), rtol=1e-3, atol=1e-3)


def test_an_explanation_keeps_no_gradients(predictor: LinkPredictor) -> None:
    graph, model = predictor.triples, CombinedModel(predictor.members, predictor.triples)
    compute_strengths(model, graph.test[0], graph.train[:3])
    assert model.encode(predictor.members[0]).grad_fn is None


def test_the_strongest_neighbours_are_named(predictor: LinkPredictor) -> None:
    links = predictor.predict(head="Peru", relation="borders", top=3)
    found = predictor.explain(links, top=2)
    assert found.support is not None
    assert links.support is None
    assert found.triples.equal(links.triples)
    graph = predictor.triples
    named = {
        (graph.entities[h], graph.relations[r], graph.entities[t])
        for h, r, t in graph.train.tolist()
    }
    for triple, own in zip(links.triples, found.support, strict=True):
        others = find_neighbours(triple, graph.train)
        strengths = compute_strengths(predictor.model, triple, others)
        best = [value for value in strengths.topk(2).values.tolist() if value > 0]
        assert [one.strength for one in own] == best
        ends = {graph.entities[end] for end in triple[[0, 2]].tolist()}
        for one in own:
            assert one[:3] in named
            assert {one.head, one.tail} & ends
    again = predictor.explain(links, top=2)
    assert again.support == found.support
    assert [row["support"] for row in found.rows()] == [
        {str(one): round(one.strength, 6) for one in own} for own in found.support
    ]


def test_neighbours_share_an_entity_and_are_not_the_triple_itself() -> None:
    trained_on = torch.tensor([[0, 0, 1], [1, 1, 2], [3, 0, 4], [4, 0, 0], [0, 0, 1]])
    found = find_neighbours(torch.tensor([0, 0, 1]), trained_on)
    assert found.tolist() == [[1, 1, 2], [4, 0, 0]]


def test_a_rule_is_explained_by_its_premise(tmp_path: Path) -> None:
    """Each person speaks the language of the country they live in; hobbies mean nothing."""
    rows = []
    for person in range(120):
        country = person % 6
        rows.append((f"p{person}", "lives in", f"c{country}"))
        rows.append((f"p{person}", "likes", f"h{person // 6 % 10}"))
        if person >= 20:
            rows.append((f"p{person}", "speaks", f"l{country}"))
    train = TrainConfig(epochs=150, lr=0.03, batch_size=256, n3=1e-2, select="last")
    model = Embeddings.Options(decoder="complex", dim_quats=4, norm=False, dropout=0.0)
    config = LinkConfig(model=model, train=train)
    predictor = train_triples(from_names(rows), tmp_path, config=config, device="cpu")
    graph = predictor.triples
    known = {tuple(row) for row in graph.train.tolist()}
    lives, premises = graph.relation("lives in"), 0
    asked = 0
    for person in range(20):
        home = graph.entity(f"p{person}"), lives, graph.entity(f"c{person % 6}")
        if home not in known:  # sampled for validation or test
            continue
        links = predictor.predict([(f"p{person}", "speaks", f"l{person % 6}")])
        (support,) = predictor.explain(links).support or []
        own = [one for one in support if one.head == f"p{person}"]
        asked += 1
        premises += bool(own) and own[0].relation == "lives in"
    assert premises >= 0.9 * asked > 9


def test_a_query_explains_its_own_predictions(predictor: LinkPredictor) -> None:
    plain = predictor.predict(head="Peru", relation="borders", top=2)
    links = predictor.predict(head="Peru", relation="borders", top=2, explain=True)
    assert links.support == predictor.explain(plain).support


@pytest.mark.parametrize("predictor", ["quate"], indirect=True)
def test_missing_triples_are_explained_too(predictor: LinkPredictor) -> None:
    missing = predictor.predict_missing("capital", top=2)
    assert missing.support is None
    explained = predictor.predict_missing("capital", top=2, explain=True)
    found = predictor.explain(missing)
    assert explained.support == found.support is not None
    assert [list(row)[-1] for row in found.rows()] == ["support"] * 2


def test_no_support_is_a_mistake(predictor: LinkPredictor) -> None:
    links = predictor.predict(head="Peru", relation="borders", top=1)
    with pytest.raises(UserError, match="top must be at least 1, got 0"):
        predictor.explain(links, top=0)
