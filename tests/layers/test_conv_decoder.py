"""ConvE and Conv-TransE: their queries are those of torch's convolutions, and of PyKEEN's ConvE."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from quatgraph.errors import UserError
from quatgraph.layers import conv_decoder
from quatgraph.layers.conv_decoder import ConvE, ConvTransE, image_size
from quatgraph.layers.decoder import DistMult
from quatgraph.training.ensemble import Ensemble

E, R, WIDTH = 7, 3, 24
HEAD, RELATION = torch.tensor([0, 5, 5, 2, 6]), torch.tensor([2, 0, 4, 1, 5])
Build = Callable[..., DistMult]
BUILDS: dict[str, Build] = {
    "stacked": lambda **o: ConvE(R, WIDTH, num_entities=E, num_filters=5, **o),
    "interleaved": lambda **o: ConvE(R, WIDTH, height=3, image="interleaved", kernel_size=4, **o),
    "unscaled": lambda **o: ConvE(R, WIDTH, height=6, input_norm=False, affine=False, **o),
    "not normalized": lambda **o: ConvE(R, WIDTH, num_entities=E, norm=False, **o),
    "conv-transe": lambda **o: ConvTransE(R, WIDTH, num_filters=6, kernel_size=5, **o),
}
every_build = pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)


@pytest.fixture
def entities() -> Tensor:
    return torch.randn(E, WIDTH, dtype=torch.float64, requires_grad=True)


def randomize(decoder: nn.Module) -> None:
    """Values of their own for scale, shift, biases and running statistics."""
    with torch.no_grad():
        for value in decoder.state_dict().values():
            if value.is_floating_point():
                value.uniform_(0.2, 1.2)


def normalized(x: Tensor, norm: nn.Module | None) -> Tensor:
    """Torch's batch normalization of ``(N, C, ...)``, with the statistics of the batch."""
    if norm is None or isinstance(norm, nn.ReLU):
        return x
    return F.batch_norm(x, None, None, norm.weight, norm.bias, training=True)


def query_by_torch(decoder: DistMult, head: Tensor, relation: Tensor) -> Tensor:
    """Channels first, by torch's own convolutions."""
    size = decoder.kernel_size
    if isinstance(decoder, ConvTransE):
        x = normalized(torch.stack((head, relation), dim=1), decoder.input_norm)
        weight = decoder.conv.weight.unflatten(1, (2, size))
        maps = F.conv1d(x, weight, decoder.conv.bias, padding=size // 2)
    else:
        rows, columns = decoder.shape
        images = [v.reshape(len(v), rows // 2, columns) for v in (head, relation)]
        if decoder.interleaved:
            x = torch.empty(len(head), 2 * head.size(1), dtype=head.dtype)
            x[:, 0::2], x[:, 1::2] = head, relation
            x = x.view(-1, 1, rows, columns)
        else:
            x = torch.cat(images, dim=1)[:, None]
        weight = decoder.conv.weight.unflatten(1, (1, size, size))
        maps = F.conv2d(normalized(x, decoder.input_norm), weight, decoder.conv.bias)
    maps = normalized(maps, decoder.map_norm).relu().flatten(2)
    weight = decoder.linear.weight.unflatten(1, (decoder.positions, decoder.filters))
    hidden = torch.einsum("bcp,opc->bo", maps, weight) + decoder.linear.bias
    return normalized(hidden, decoder.query_norm).relu()


@every_build
def test_a_query_and_its_gradients_are_those_of_torchs_convolution(build, entities):
    decoder = build().double()
    randomize(decoder)
    parameters = [entities, *decoder.parameters()]
    query, _ = decoder(entities, HEAD, RELATION)
    expected = query_by_torch(decoder, entities[HEAD], decoder.relations[RELATION])
    torch.testing.assert_close(query[:, :WIDTH], expected)
    slope = torch.randn_like(expected)
    found, wanted = (
        torch.autograd.grad((value * slope).sum(), parameters, allow_unused=True)
        for value in (query[:, :WIDTH], expected)
    )
    torch.testing.assert_close(found, wanted)


@every_build
def test_a_score_is_the_inner_product_with_the_tail_and_its_bias(build, entities):
    decoder = build().double()
    randomize(decoder)
    query, candidates = decoder(entities, HEAD, RELATION)
    assert torch.equal(candidates[:, :WIDTH], entities)
    bias = getattr(decoder, "bias", None)
    scores = query[:, :WIDTH] @ entities.mT + (0 if bias is None else bias)
    torch.testing.assert_close(query @ candidates.mT, scores)


@every_build
def test_a_permutation_of_the_entities_permutes_scores(build, entities):
    decoder = build().double()
    order = torch.randperm(E)
    query, _ = decoder(entities, HEAD, RELATION)
    permuted, candidates = decoder(entities[order], order.argsort()[HEAD], RELATION)
    torch.testing.assert_close(permuted, query)
    assert torch.equal(candidates[:, :WIDTH], entities[order])


@every_build
def test_relations_given_to_a_call_replace_its_own(build, entities):
    decoder = build().double()
    own, _ = decoder(entities, HEAD, RELATION)
    shifted, _ = decoder(entities, HEAD, RELATION.roll(1), decoder.relations)
    other, _ = decoder(entities, HEAD, torch.zeros_like(RELATION), decoder.relations[RELATION[:1]])
    assert not torch.allclose(own, shifted)
    assert not torch.allclose(own, other)
    same, _ = decoder(entities, HEAD, torch.arange(5), decoder.relations[RELATION])
    torch.testing.assert_close(same, own)


@every_build
def test_evaluation_in_pieces_changes_nothing(build, entities, monkeypatch):
    decoder = build().double()
    randomize(decoder)
    decoder.eval()
    whole, _ = decoder(entities, HEAD, RELATION)
    monkeypatch.setattr(conv_decoder, "EVALUATED_NUMBERS", 2 * decoder.positions * decoder.filters)
    pieces, _ = decoder(entities, HEAD, RELATION)
    torch.testing.assert_close(pieces, whole)


@every_build
def test_relations_cannot_be_predicted(build, entities):
    with pytest.raises(UserError, match=r"cannot predict relations: set train\.relation_weight=0"):
        build().relation_query(entities, HEAD, HEAD)


@every_build
def test_inverse_relations_need_vectors_of_their_own(build):
    with pytest.raises(UserError, match=r"set data\.reciprocal=true"):
        build(reciprocal=False)


def test_whole_feature_maps_are_dropped_or_single_numbers():
    decoder = ConvE(R, WIDTH, num_filters=40, map_dropout=0.5)
    maps = torch.ones(30, decoder.positions, 40)
    dropped = decoder.drop_maps(maps)
    assert torch.equal(dropped, dropped[:, :1].expand_as(dropped))
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert 0.4 < (dropped[:, 0] == 0).float().mean() < 0.6
    decoder.whole_maps = False
    single = decoder.drop_maps(maps)
    assert set(single.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(single, single[:, :1].expand_as(single))


@pytest.mark.parametrize("rate", ["input_dropout", "map_dropout", "dropout"])
@pytest.mark.parametrize("name", ["stacked", "interleaved", "conv-transe"])
def test_masks_depend_on_the_members_seed_and_the_step(name, rate):
    def build() -> nn.Module:
        return BUILDS[name](**{rate: 0.4})

    def run(seeds: list[int]) -> list[Tensor]:
        ensemble = Ensemble([build] * len(seeds), seeds)
        vectors = torch.linspace(-1, 1, E * WIDTH).view(E, WIDTH)
        with torch.no_grad():
            return [ensemble(vectors, HEAD, RELATION)[0] for _ in range(2)]

    first, again, other = run([3, 4]), run([3, 4]), run([5, 4])
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1])
    torch.testing.assert_close(first[0][1], other[0][1])
    assert not torch.allclose(first[0][0], other[0][0])


def test_an_image_is_as_square_as_possible():
    assert image_size(288, None, 3) == (24, 24)
    assert image_size(512, None, 3) == (32, 32)
    assert image_size(200, None, 3) == (20, 20)
    assert image_size(200, 20, 3) == (40, 10)


@pytest.mark.parametrize(("width", "height"), [(200, 30), (200, 0), (200, 100)])
def test_a_height_that_makes_no_image_is_a_mistake(width, height):
    with pytest.raises(UserError, match=r"the height can be 2, 4, 5, 8, 10, 20, 25, 40, 50$"):
        image_size(width, height, 3)


def test_a_width_that_makes_no_image_is_a_mistake():
    with pytest.raises(UserError, match=r"width 7 do not give; the next widths .* 8, 12, 16 "):
        ConvE(R, 7)
    with pytest.raises(UserError, match=r"width 200 do not give; the next widths .* 45000, "):
        image_size(200, None, 300)


def test_a_filter_over_positions_has_a_middle():
    with pytest.raises(UserError, match="an odd kernel_size, got 4"):
        ConvTransE(R, WIDTH, kernel_size=4)


def test_pykeens_conve_gives_the_same_scores():
    theirs = (
        pytest.importorskip("pykeen.nn.modules")
        .ConvEInteraction(
            output_channels=5,
            embedding_height=6,
            kernel_height=3,
            kernel_width=3,
            embedding_dim=WIDTH,
            input_dropout=0,
            feature_map_dropout=0,
            output_dropout=0,
        )
        .double()
    )
    ours = ConvE(R, WIDTH, num_entities=E, height=6, num_filters=5).double()
    randomize(theirs)
    randomize(ours)
    with torch.no_grad():
        conv, linear = theirs.hr2d[2], theirs.hr1d[0]
        norms = [(theirs.hr2d[0], ours.input_norm), (theirs.hr2d[3], ours.map_norm)]
        for their_norm, our_norm in [*norms, (theirs.hr1d[2], ours.query_norm)]:
            our_norm.load_state_dict(
                {k: v for k, v in their_norm.state_dict().items() if k != "num_batches_tracked"}
            )
        conv.bias.zero_()
        ours.conv.weight.copy_(conv.weight.flatten(1))
        by_channel = linear.weight.unflatten(1, (5, ours.positions))
        ours.linear.weight.copy_(by_channel.transpose(1, 2).flatten(1))
        ours.linear.bias.copy_(linear.bias)
    vectors = torch.randn(E, WIDTH, dtype=torch.float64)
    for mode in (True, False):
        ours.train(mode), theirs.train(mode)
        query, candidates = ours(vectors, HEAD, RELATION)
        expected = theirs(
            vectors[HEAD][:, None],
            ours.relations[RELATION][:, None],
            (vectors[None], ours.bias[None]),
        )
        torch.testing.assert_close(query @ candidates.mT, expected)
