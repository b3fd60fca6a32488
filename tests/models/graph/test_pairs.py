"""The models with a vector for each pair of nodes."""

import pytest
import tiny
import torch
from torch import Tensor

from quatgraph.models.graph import MODELS
from quatgraph.models.graph.iegn import EquivariantLinear
from quatgraph.models.graph.pairs import ChannelLinear, Padding, PairInput, max_pool

CHANNELS, GRAPHS, SIZE = 4, 2, 5


def channels() -> PairInput:
    made = torch.randn(GRAPHS, SIZE, SIZE), torch.randn(CHANNELS, GRAPHS, SIZE)
    return PairInput(*(each.double() for each in made))


def stored(x: PairInput) -> Tensor:
    return x.adjacency[None] + torch.diag_embed(x.diagonal)


def test_a_linear_map_of_channels_is_a_1x1_convolution():
    x, linear = stored(channels()), ChannelLinear(CHANNELS, 3).double()
    torch.nn.init.normal_(linear.bias)
    weight = linear.weight[:, :, None, None]
    expected = torch.conv2d(x.movedim(0, 1), weight, linear.bias).movedim(1, 0)
    torch.testing.assert_close(linear(x), expected)


def test_an_input_need_not_be_stored():
    x = channels()
    for linear in (ChannelLinear(CHANNELS, 3).double(), ChannelLinear(CHANNELS, 3, bias=False)):
        torch.testing.assert_close(linear.double()(x), linear(stored(x)))
    ones = torch.ones(1, GRAPHS, SIZE, SIZE).double()
    padding, layer = Padding(ones, SIZE * ones[..., :1, 0]), EquivariantLinear(CHANNELS, 3).double()
    torch.testing.assert_close(layer(x, padding), layer(stored(x), padding))


def test_an_equivariant_layer_has_fifteen_coefficients_and_two_biases():
    layer = EquivariantLinear(CHANNELS, 3)
    assert sum(value.numel() for value in layer.parameters()) == 15 * CHANNELS * 3 + 2 * 3


def test_maxima_are_over_the_diagonal_and_over_other_pairs():
    y = torch.tensor([[[[1.0, 5.0], [2.0, 3.0]], [[4.0, 0.0], [0.0, 0.0]]]])
    assert torch.equal(max_pool(y), torch.tensor([[3.0, 5.0], [4.0, 0.0]]))


@pytest.mark.parametrize("name", ["iegn", "ppgn"])
@pytest.mark.parametrize("layers", [1, 3, 6])
def test_the_memory_of_a_step_is_estimated_from_above(name, layers):
    model = MODELS[name]
    options = model.Options(hidden_quats=32, num_layers=layers)
    inputs = tiny.joined(tiny.features("dense"), [2] * 200, "adjacency")
    sizes, kept = {}, []

    def keep(value: Tensor) -> Tensor:
        kept.append(value)  # or its place in memory would be used again
        sizes[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
        return value

    built = model.from_options(options, tiny.ATTRIBUTES, tiny.CLASSES).double()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        built(*inputs)
    estimate = 8 * options.num_activations(200 * 5, 200 * 5 * 5)
    assert estimate / 10 < sum(sizes.values()) < estimate
