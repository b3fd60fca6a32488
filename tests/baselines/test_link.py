"""Models of triples: their inner products are the scores their papers write."""

import pytest
import torch

from quatgraph.algebra import hamilton_product, unit
from quatgraph.baselines.link import ComplEx, DistMult, QuatE, TransE
from quatgraph.training.ensemble import Ensemble

E, R, WIDTH = 6, 3, 8
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([2, 0, 1, 1])


def distmult(h, r, t):
    return (h * r * t).sum(dim=-1)


def complex_score(h, r, t):
    h, r, t = (torch.complex(*v.chunk(2, dim=-1)) for v in (h, r, t))
    return (h * r * t.conj()).sum(dim=-1).real


def quate(h, r, t):
    return (hamilton_product(h, unit(r)) * t).sum(dim=-1)


def transe(h, r, t):
    return -(h + r - t).square().sum(dim=-1)


MODELS = {DistMult: distmult, ComplEx: complex_score, QuatE: quate, TransE: transe}
every_model = pytest.mark.parametrize("kind", MODELS)


@every_model
def test_the_inner_product_is_the_score(kind):
    model = kind(E, R, width=WIDTH)
    query, candidates = model(None, HEAD, RELATION)
    h, r = model.entities[HEAD], model.relations[RELATION]
    scores = torch.stack([MODELS[kind](h, r, t.expand_as(h)) for t in model.entities], dim=1)
    torch.testing.assert_close(query @ candidates.mT, scores)


@every_model
def test_gradients_reach_entities_and_relations(kind):
    model = kind(E, R, width=WIDTH, dropout=0.1, norm=True)
    query, candidates = model(None, HEAD, RELATION)
    (query @ candidates.mT).square().sum().backward()
    assert model.entities.grad[0].any()
    assert model.relations.grad[1].any()


@every_model
def test_members_score_as_if_each_were_alone(kind):
    ensemble = Ensemble([lambda: kind(E, R, width=WIDTH)] * 2, [0, 1])
    query, candidates = ensemble(None, HEAD, RELATION)
    for m in range(2):
        torch.manual_seed(m)
        own = kind(E, R, width=WIDTH)(None, HEAD, RELATION)
        torch.testing.assert_close(query[m], own[0])
        torch.testing.assert_close(candidates[m], own[1])
