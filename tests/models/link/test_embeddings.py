"""Embeddings: one decoder on learned vectors, alone and in an ensemble."""

import pytest
import torch

from quatgraph.layers.decoder import DECODERS
from quatgraph.models.link import Embeddings
from quatgraph.training.ensemble import Ensemble

E, R, WIDTH = 6, 3, 8
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([2, 0, 4, 1])
every_decoder = pytest.mark.parametrize("decoder", DECODERS)


@every_decoder
def test_vectors_are_scored_by_the_decoder(decoder):
    model = Embeddings(E, R, decoder=decoder, width=WIDTH).eval()
    query, candidates = model(None, HEAD, RELATION)
    own = model.decoder(model.entities, HEAD, RELATION)
    assert torch.equal(query, own[0])
    assert torch.equal(candidates, own[1])


@every_decoder
@pytest.mark.parametrize("reciprocal", [False, True])
def test_members_score_as_if_each_were_alone(decoder, reciprocal):
    def build() -> Embeddings:
        return Embeddings(E, R, decoder=decoder, width=WIDTH, reciprocal=reciprocal)

    ensemble = Ensemble([build] * 2, [0, 1])
    query, candidates = ensemble(None, HEAD, RELATION)
    for m in range(2):
        torch.manual_seed(m)
        own = build()(None, HEAD, RELATION)
        torch.testing.assert_close(query[m], own[0])
        torch.testing.assert_close(candidates[m], own[1])
