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


def rotation4d(h, r, t):
    turned = torch.zeros_like(h)
    n = WIDTH // 4
    for q in range(n):  # quaternion by quaternion: u from the left, v from the right
        place = slice(q, None, n)
        left, right = (unit(r[..., start :: 2 * n]) for start in (q, n + q))
        turned[..., place] = hamilton_product(left, hamilton_product(h[..., place], right))
    return (turned * t).sum(dim=-1)


SCORES = {
    "distmult": distmult,
    "complex": complex_score,
    "quate": quate,
    "hamilton": hamilton,
    "rotation4d": rotation4d,
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
    relations = [r.expand(len(h), -1) for r in decoder.relations]
    scores = torch.stack([SCORES[name](h, r, t) for r in relations], dim=1)
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


def test_a_rotation_of_four_dimensions_contains_quate_and_any_pair_of_plane_rotations():
    decoder = DECODERS["rotation4d"](1, 4).double()
    a, b = 0.3, 1.1  # x -> u x v turns the plane of 1 and i by a, and that of j and k by b
    s, d = torch.tensor([(a + b) / 2, (a - b) / 2], dtype=torch.double)
    left, right = (torch.stack((t.cos(), t.sin(), 0 * t, 0 * t)) for t in (s, d))
    eye = torch.eye(4, dtype=torch.double)

    def turn(angle):
        t = torch.tensor(angle, dtype=torch.double)
        return torch.stack((torch.stack((t.cos(), t.sin())), torch.stack((-t.sin(), t.cos()))))

    def relation_of(u, v):
        return torch.stack((u, v), dim=-1).flatten().expand(4, -1)

    expected = torch.block_diag(turn(a), turn(b))
    torch.testing.assert_close(decoder.combine(eye, relation_of(left, right)), expected)
    torch.testing.assert_close(
        decoder.combine(eye, relation_of(eye[0], right)), hamilton_product(eye, right)
    )
