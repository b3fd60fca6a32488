"""Decoders: their inner products are the scores their papers write, from both sides."""

import pytest
import torch

from quatgraph.algebra import hamilton_product, unit
from quatgraph.errors import UserError
from quatgraph.layers.decoder import DECODERS

E, R, WIDTH = 6, 3, 8
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([2, 0, 1, 1])
TAIL = torch.tensor([1, 5, 0, 4])


def distmult(h, r, t):
    return (h * r * t).sum(dim=-1)


def complex_score(h, r, t):
    h, r, t = (torch.complex(*v.chunk(2, dim=-1)) for v in (h, r, t))
    return (h * r * t.conj()).sum(dim=-1).real


def quate(h, r, t):
    return (hamilton_product(h, unit(r)) * t).sum(dim=-1)


def transe(h, r, t):
    return -(h + r - t).square().sum(dim=-1)


def hamilton(h, r, t):
    return (hamilton_product(h, r) * t).sum(dim=-1)


SCORES = {
    "distmult": distmult,
    "complex": complex_score,
    "quate": quate,
    "hamilton": hamilton,
    "transe": transe,
}
every_decoder = pytest.mark.parametrize("name", SCORES)


@pytest.fixture
def entities() -> torch.Tensor:
    return torch.randn(E, WIDTH, requires_grad=True)


def test_every_decoder_is_tested():
    assert SCORES.keys() == DECODERS.keys()


@every_decoder
def test_the_inner_product_is_the_score(name, entities):
    decoder = DECODERS[name](R, WIDTH)
    query, candidates = decoder(entities, HEAD, RELATION)
    h, r = entities[HEAD], decoder.relations[RELATION]
    scores = torch.stack([SCORES[name](h, r, t.expand_as(h)) for t in entities], dim=1)
    torch.testing.assert_close(query @ candidates.mT, scores)


@pytest.mark.parametrize("reciprocal", [True, False])
@every_decoder
def test_the_inner_product_of_a_relation_query_is_the_score(name, reciprocal, entities):
    decoder = DECODERS[name](R, WIDTH, reciprocal=reciprocal, dropout=0.5, norm=True)
    query, candidates = decoder.relation_query(entities, HEAD, TAIL)
    h, t = entities[HEAD], entities[TAIL]
    scores = torch.stack([SCORES[name](h, r.expand_as(h), t) for r in decoder.relations], dim=1)
    torch.testing.assert_close((query @ candidates.mT)[:, : scores.size(1)], scores)
    assert len(candidates) == 2 * R
    if not reciprocal:  # an inverse relation scores the swapped triple
        swapped, _ = decoder.relation_query(entities, TAIL, HEAD)
        torch.testing.assert_close((swapped @ candidates.mT)[:, R:], scores)


@every_decoder
def test_gradients_reach_entities_and_relations(name, entities):
    decoder = DECODERS[name](R, WIDTH, dropout=0.1, norm=True)
    query, candidates = decoder(entities, HEAD, RELATION)
    (query @ candidates.mT).square().sum().backward()
    assert entities.grad[0].any()
    assert decoder.relations.grad[1].any()


@every_decoder
def test_without_vectors_of_their_own_inverse_relations_score_alike_from_tail_to_head(
    name, entities
):
    decoder = DECODERS[name](R, WIDTH, reciprocal=False)
    assert len(decoder.relations) == R
    forth, back = (
        decoder(entities, torch.arange(E), torch.full((E,), relation)) for relation in (1, 1 + R)
    )
    torch.testing.assert_close(forth[0] @ forth[1].mT, (back[0] @ back[1].mT).T)


@every_decoder
def test_inverse_relations_have_vectors_of_their_own(name, entities):
    decoder = DECODERS[name](R, WIDTH)
    forth, back = (decoder(entities, HEAD, RELATION + shift)[0] for shift in (0, R))
    assert not torch.allclose(forth, back)


@pytest.mark.parametrize("name", ["complex", "quate"])
def test_a_width_that_is_no_whole_number_of_numbers_is_a_mistake(name):
    with pytest.raises(UserError, match="divisible"):
        DECODERS[name](R, 7)
