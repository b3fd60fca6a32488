"""Tables of vectors: how they are initialized, and what is dropped of them."""

import pytest
import torch
from torch import Tensor

from quatgraph.layers.decoder import DECODERS
from quatgraph.layers.tables import INITS, Tables
from quatgraph.training.ensemble import Ensemble

ROWS, WIDTH = 400, 100
EXPECTED = {  # standard deviation and largest absolute value at the scale 0.5
    "xavier_normal": (0.5 * (2 / 500) ** 0.5, float("inf")),
    "xavier_uniform": (0.5 * (2 / 500) ** 0.5, 0.5 * (6 / 500) ** 0.5),
    "normal": (0.5, float("inf")),
    "uniform": (0.5 / 3**0.5, 0.5),
}


@pytest.mark.parametrize("init", INITS)
def test_vectors_are_initialized_as_named(init):
    table = Tables(init, 0.5).build(ROWS, WIDTH).detach()
    std, largest = EXPECTED[init]
    assert table.mean().abs() < std / 50
    assert table.std() == pytest.approx(std, rel=0.02)
    assert table.abs().max() <= largest
    if largest == float("inf"):
        assert table.abs().max() > 3 * std


def parts(name: str, tables: Tables) -> tuple[Tensor, Tensor]:
    """Queries and candidates of ones only: zeros are what was dropped."""
    decoder = DECODERS[name](1, 8, tables=tables)
    torch.nn.init.ones_(decoder.relations)
    return decoder(torch.ones(50, 8), torch.zeros(60, dtype=int), torch.zeros(60, dtype=int))


def test_heads_candidates_and_relations_have_masks_of_their_own():
    query, candidates = parts("distmult", Tables(entity_dropout=0.5))
    assert set(query.unique().tolist()) == set(candidates.unique().tolist()) == {0.0, 2.0}
    assert len(query.unique(dim=0)) > 20  # each query has its own mask of the same head
    assert len(candidates.unique(dim=0)) > 20
    query, candidates = parts("distmult", Tables(relation_dropout=0.5))
    assert set(query.unique().tolist()) == {0.0, 2.0}
    assert candidates.eq(1).all()
    query, candidates = parts("distmult", Tables(entity_dropout=0.5, relation_dropout=0.5))
    assert set(query.unique().tolist()) == {0.0, 4.0}
    assert query.eq(0).double().mean() == pytest.approx(0.75, abs=0.07)


def test_a_distance_is_to_the_candidate_that_is_left():
    query, candidates = parts("transe", Tables(entity_dropout=0.5))
    left = candidates[:, :8]
    assert torch.equal(candidates[:, -1], -left.square().sum(dim=1))
    scores = query @ candidates.mT
    torch.testing.assert_close(scores, -torch.cdist(query[:, :8] / 2, left).square())


@pytest.mark.parametrize("name", DECODERS)
def test_only_training_drops(name):
    tables = Tables(entity_dropout=0.5, relation_dropout=0.5)
    ours, plain = DECODERS[name](3, 8, tables=tables).eval(), DECODERS[name](3, 8).eval()
    plain.load_state_dict(ours.state_dict())
    given = torch.randn(9, 8), torch.tensor([1, 8]), torch.tensor([0, 5])
    torch.testing.assert_close(ours(*given), plain(*given))
    assert not torch.allclose(ours.train()(*given)[0], plain(*given)[0])


@pytest.mark.parametrize("name", DECODERS)
def test_masks_are_those_of_the_members_seed(name):
    tables = Tables(entity_dropout=0.3, relation_dropout=0.3)
    given = torch.ones(9, 8), torch.arange(6), torch.arange(6)

    def run(*seeds: int) -> Tensor:
        ensemble = Ensemble([lambda: DECODERS[name](3, 8, tables=tables)] * 2, seeds)
        return torch.cat([part.flatten(1) for part in ensemble(*given)], dim=1)

    assert torch.equal(run(1, 2), run(1, 2))
    assert torch.equal(run(1, 2)[1], run(3, 2)[1])
    assert not torch.equal(run(1, 2)[0], run(3, 2)[0])
