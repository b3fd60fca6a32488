"""Features of entities in the models on a graph."""

import dataclasses

import pytest
import torch
from cities import PEOPLE, cities, config_of, with_features, without_first_city

from quatgraph.data.link import Triples
from quatgraph.errors import UserError
from quatgraph.models.link import MODELS, GraphModel, SimQGNN, build_model
from quatgraph.models.link.graphs import FeaturedGraph, build_graph
from quatgraph.training.ensemble import Ensemble

NAMES = [name for name, model in MODELS.items() if issubclass(model, GraphModel)]
HEAD, RELATION = torch.tensor([0, 5, 25, 2]), torch.tensor([1, 0, 4, 2])


def built(name: str, triples: Triples) -> tuple[GraphModel, FeaturedGraph]:
    """A model whose map of features is not zero, and its graph."""
    options = config_of(**{"model.name": name, "model.decoder": "distmult"}).model
    model = build_model(options, triples, reciprocal=True)
    graph = build_graph(triples, options.graph)
    assert isinstance(model, GraphModel)
    assert isinstance(graph, FeaturedGraph)
    torch.nn.init.normal_(model.feature_map.weight)
    return model, graph


def test_all_six_models_with_layers_take_features():
    assert NAMES == ["simqgnn", "simrgcn", "relqgnn", "rgcn", "sacn", "compgcn"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sparse", [True, False])
def test_a_model_with_features_is_one_without_whose_vectors_have_the_map_added(name, sparse):
    triples = with_features(cities(), sparse=sparse)
    model, graph = built(name, triples)
    x = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
    plain = build_model(
        config_of(**{"model.name": name, "model.decoder": "distmult"}).model,
        cities(),
        reciprocal=True,
    )
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("feature_map")}
    state["entities"] = state["entities"] + x @ model.feature_map.weight.T
    plain.load_state_dict(state)
    for mine, theirs in zip(
        model.eval()(graph, HEAD, RELATION),
        plain.eval()(graph.edges, HEAD, RELATION),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_training_starts_like_that_of_a_model_without_features(name):
    options = config_of(**{"model.name": name}).model
    torch.manual_seed(3)
    plain = build_model(options, cities(), reciprocal=True).eval()
    torch.manual_seed(3)
    model = build_model(options, with_features(cities()), reciprocal=True).eval()
    graph = build_graph(with_features(cities()), options.graph)
    for mine, theirs in zip(
        model(graph, HEAD, RELATION), plain(graph.edges, HEAD, RELATION), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_features_reach_all_four_components():
    model, graph = built("simqgnn", with_features(cities()))
    _, x = model.read_graph(graph)
    moved = (x - model.entities)[1:].view(-1, 4, 2)
    assert moved.abs().amin() > 0


@pytest.mark.parametrize("name", NAMES)
def test_an_entity_without_training_triples_has_the_vector_of_its_features(name):
    triples = without_first_city(with_features(cities()))
    model, graph = built(name, triples)
    _, x = model.read_graph(graph)
    torch.testing.assert_close(x[PEOPLE], model.feature_map.weight[:, 1])
    torch.testing.assert_close(x[0], model.entities[0])
    x.sum().backward()
    assert not model.entities.grad[PEOPLE].any()
    assert model.entities.grad[0].any()
    before = model.eval().encode(graph)[PEOPLE]
    with torch.no_grad():
        model.entities[PEOPLE] += 1
    assert torch.equal(model.encode(graph)[PEOPLE], before)


def test_an_unseen_entity_without_features_keeps_its_own_vector():
    triples = without_first_city(cities())
    x = torch.ones(triples.num_entities, 1)
    x[PEOPLE] = 0
    triples = dataclasses.replace(triples, features=x, feature_names=["x"])
    model, graph = built("simqgnn", triples)
    assert torch.equal(model.read_graph(graph)[1][PEOPLE], model.entities[PEOPLE])


def test_a_model_trained_on_all_triples_learns_the_vectors_of_their_entities():
    triples = without_first_city(with_features(cities()))
    kind = config_of().model.graph
    train, every = (build_graph(triples, kind, all_triples=all_) for all_ in (False, True))
    assert train.trained[PEOPLE] == 0
    assert every.trained.all()
    assert torch.equal(train.edges.weight, every.edges.weight)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sparse", [True, False])
def test_members_of_an_ensemble_equal_single_models(name, sparse):
    triples = with_features(cities(), sparse=sparse)
    graph = built(name, triples)[1]
    ensemble = Ensemble([lambda: built(name, triples)[0]] * 2, [0, 1]).eval()
    found = ensemble(graph, HEAD, RELATION)
    for member in range(2):
        alone = built(name, triples)[0].eval()
        alone.load_state_dict({k: v for k, v in ensemble.member(member).items() if "rate" not in k})
        for mine, theirs in zip(found, alone(graph, HEAD, RELATION), strict=True):
            torch.testing.assert_close(mine[member], theirs)


def test_a_graph_without_the_features_of_the_model_is_a_mistake():
    model, graph = built("simqgnn", with_features(cities()))
    with pytest.raises(UserError, match="takes a FeaturedGraph"):
        model(graph.edges, HEAD, RELATION)
    plain = SimQGNN(30, 3, dim_quats=2)
    with pytest.raises(UserError, match="only such a model does"):
        plain(graph, HEAD, RELATION)


def test_a_graph_of_ones_own_needs_no_triples():
    model, graph = built("simqgnn", with_features(cities()))
    own = FeaturedGraph(graph.edges, graph.features)
    for mine, theirs in zip(
        model.eval()(own, HEAD, RELATION), model(graph, HEAD, RELATION), strict=True
    ):
        assert torch.equal(mine, theirs)
