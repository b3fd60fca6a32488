"""Products of hypercomplex numbers as scores of triples."""

import pytest
import torch

from quatgraph.errors import UserError
from quatgraph.layers.decoder import ComplEx, DistMult, Hamilton
from quatgraph.layers.phm_decoder import PHMDecoder

E, R, WIDTH = 6, 3, 16
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([2, 0, 4, 1])


@pytest.fixture
def entities():
    torch.manual_seed(0)
    return torch.randn(E, WIDTH, dtype=torch.float64)


def build(n: int, rules: str = "fixed", **others) -> PHMDecoder:
    torch.manual_seed(1)
    return PHMDecoder(R, WIDTH, n=n, rules=rules, **others).double()


@pytest.mark.parametrize(("n", "kind"), [(1, DistMult), (2, ComplEx), (4, Hamilton)])
@pytest.mark.parametrize("reciprocal", [True, False])
def test_fixed_rules_give_distmult_complex_and_hamilton(n, kind, reciprocal, entities):
    ours, other = build(n, reciprocal=reciprocal), kind(R, WIDTH, reciprocal=reciprocal).double()
    with torch.no_grad():
        other.relations.copy_(ours.relations)
    for mine, theirs in zip(
        (*ours(entities, HEAD, RELATION), *ours.relation_query(entities, HEAD, HEAD.flip(0))),
        (*other(entities, HEAD, RELATION), *other.relation_query(entities, HEAD, HEAD.flip(0))),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("rules", ["fixed", "learned"])
@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_the_product_is_a_sum_over_components(n, rules, entities):
    decoder = build(n, rules)
    query, candidates = decoder(entities, HEAD, RELATION)
    assert torch.equal(candidates, entities)
    for row, (h, r) in enumerate(zip(HEAD, RELATION, strict=True)):
        head, relation = (x.view(n, -1) for x in (entities[h], decoder.relations[r]))
        expected = torch.zeros(n, WIDTH // n, dtype=torch.float64)
        for k in range(n):
            for c in range(n):
                for b in range(n):
                    expected[c] += decoder.rules[k, c, b] * head[k] * relation[b]
        torch.testing.assert_close(query[row], expected.flatten())


def test_a_product_of_octonions_has_the_product_of_their_norms(entities):
    query, _ = build(8)(entities, HEAD, RELATION)
    numbers = (
        x.view(4, 8, -1).norm(dim=1) for x in (query, entities[HEAD], build(8).relations[RELATION])
    )
    product, head, relation = numbers
    torch.testing.assert_close(product, head * relation)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
@pytest.mark.parametrize("rules", ["fixed", "learned"])
def test_predicting_a_relation_gives_the_score_of_the_triple(n, rules, entities):
    decoder, tail = build(n, rules), torch.tensor([1, 2, 3, 4])
    query, candidates = decoder(entities, HEAD, RELATION)
    scores = (query * candidates[tail]).sum(-1)
    queries, relations = decoder.relation_query(entities, HEAD, tail)
    torch.testing.assert_close((queries * relations[RELATION]).sum(-1), scores)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_an_inverse_relation_swaps_head_and_tail(n, entities):
    decoder = build(n, reciprocal=False)
    heads, tails = torch.arange(R), torch.arange(R) + 2
    relation = torch.arange(R)
    query, candidates = decoder(entities, heads, relation)
    swapped, _ = decoder(entities, tails, relation + R)
    torch.testing.assert_close(
        (query * candidates[tails]).sum(-1), (swapped * candidates[heads]).sum(-1)
    )


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_every_n_has_as_many_weights_but_for_learned_rules(n):
    fixed, learned = (
        sum(p.numel() for p in build(n, rules).parameters()) for rules in ("fixed", "learned")
    )
    assert (fixed, learned) == (2 * R * WIDTH, 2 * R * WIDTH + n**3)


def test_mistakes_are_named():
    with pytest.raises(UserError, match="needs a width divisible by 3, got 16"):
        build(3, "learned")
    with pytest.raises(UserError, match=r"need data\.reciprocal=true"):
        build(4, "learned", reciprocal=False)
    with pytest.raises(UserError, match="choose learned or fixed"):
        build(4, "found")
