"""Learned vectors and a decoder: ConvE, RESCAL, TuckER, PHM, and how their options reach both."""

import dataclasses

import pytest
import torch
from cities import config_of
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.layers import bilinear_decoder, conv_decoder
from quatgraph.layers.tables import Tables
from quatgraph.models.link import MODELS, PHM, RESCAL, ConvE, Embeddings, TuckER
from quatgraph.training.ensemble import Ensemble

E, R, WIDTH = 6, 3, 8
HEAD, RELATION = torch.tensor([0, 5, 5, 2]), torch.tensor([2, 0, 4, 1])
KINDS = [ConvE, RESCAL, TuckER, Embeddings, PHM]
every_kind = pytest.mark.parametrize("kind", KINDS)
DROPPING = Tables("normal", 0.5, entity_dropout=0.2, relation_dropout=0.3)


@every_kind
def test_vectors_are_scored_by_the_decoder(kind):
    model = kind(E, R, width=WIDTH).eval()
    query, candidates = model(None, HEAD, RELATION)
    own = model.decoder(model.entities, HEAD, RELATION)
    assert torch.equal(query, own[0])
    assert torch.equal(candidates, own[1])
    assert torch.equal(candidates[:, :WIDTH], model.entities)


@every_kind
@pytest.mark.parametrize("training", [True, False])
def test_members_score_as_if_each_were_alone(kind, training):
    def build() -> nn.Module:
        return kind(E, R, width=WIDTH, dropout=0.2, norm=True, tables=DROPPING)

    heads, relations = torch.randint(E, (3, 5)), torch.randint(2 * R, (3, 5))
    slope = torch.randn(3, 5, E)

    def run(*seeds: int) -> tuple[Tensor, Tensor]:
        """Scores, and gradients of all parameters."""
        ensemble = Ensemble([build] * len(seeds), seeds).train(training)
        some = slice(seeds[0], seeds[0] + len(seeds))
        query, candidates = ensemble(None, heads[some], relations[some], in_dims=(None, 0, 0))
        scores = query @ candidates.mT
        (grad,) = torch.autograd.grad(scores, ensemble.flat, slope[some])
        return scores, grad

    together = run(0, 1, 2)
    for member in range(3):
        for all_values, own in zip(together, run(member), strict=True):
            torch.testing.assert_close(all_values[member], own[0])


@every_kind
def test_tables_are_initialized_as_the_options_say(kind):
    name = next(name for name, model in MODELS.items() if model is kind)
    options = kind.Options(dim_quats=25, init="uniform", init_scale=0.3)
    assert options.name == name
    model = kind.from_options(options, 300, 40, reciprocal=True)
    for table in (model.entities, model.decoder.relations):
        largest = table.detach().abs().max()
        assert 0.29 < largest <= 0.3


def test_the_options_of_conve_reach_its_decoder():
    options = ConvE.Options(
        dim_quats=6,
        height=4,
        num_filters=7,
        kernel_size=2,
        input_norm=False,
        affine=False,
        entity_bias=False,
    )
    decoder = ConvE.from_options(options, E, R, reciprocal=True).decoder
    assert isinstance(decoder, conv_decoder.ConvE)
    assert decoder.shape == (8, 6)
    assert decoder.conv.weight.shape == (7, 4)
    assert decoder.linear.weight.shape == (24, 7 * 5 * 7)
    assert decoder.input_norm is decoder.bias is None
    assert not list(decoder.map_norm.parameters())
    rates = [decoder.input_dropout.rate, decoder.map_dropout.rate, decoder.dropout.rate]
    assert torch.stack(rates).tolist() == pytest.approx([0.2, 0.2, 0.3])


def test_the_options_of_tucker_reach_its_decoder():
    options = TuckER.Options(dim_quats=2, relation_width=5, core_init="normal", entity_dropout=0.1)
    decoder = TuckER.from_options(options, E, R, reciprocal=False).decoder
    assert isinstance(decoder, bilinear_decoder.TuckER)
    assert decoder.relations.shape == (R, 5)
    assert decoder.core.shape == (5, 64)
    assert decoder.core.abs().max() > 1
    drops = decoder.entity_dropout, decoder.input_dropout, decoder.relation_dropout, decoder.dropout
    rates = torch.stack([each.rate for each in drops])
    assert rates.tolist() == pytest.approx([0.1, 0.3, 0.4, 0.5])


def test_tables_as_they_were_do_not_change_the_identity_of_a_configuration():
    before = config_of(**{"model.name": "embeddings"})
    added = {"entity_dropout", "relation_dropout", "init", "init_scale"}
    assert added <= configs.to_dict(before)["model"].keys()
    assert not added & before.identity()["model"].keys()
    for key, value in (("entity_dropout", 0.1), ("init", "normal"), ("init_scale", 2.0)):
        model = dataclasses.replace(before.model, **{key: value})
        assert dataclasses.replace(before, model=model).identity()["model"][key] == value


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_scale_must_be_positive(value):
    with pytest.raises(ValueError, match=r"model\.init_scale must be positive"):
        RESCAL.Options(init_scale=value)


@pytest.mark.parametrize("name", ["conve", "rescal", "tucker"])
def test_more_queries_and_wider_vectors_take_more_memory(name):
    options = MODELS[name].Options
    small, more, wide = (
        options(dim_quats=quats).num_activations(1000, queries)
        for quats, queries in ((8, 100), (8, 200), (16, 100))
    )
    assert small < more < 4 * small
    assert small < wide
