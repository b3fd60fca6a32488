"""The readout against one linear map per layer."""

import math

import pytest
import torch
from torch import nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers import LayerwiseReadout
from quatgraph.training.ensemble import Ensemble

WIDTHS, CLASSES = [8, 4, 12], 3
# Four graphs of 2, 0, 3 and 1 nodes.
POOL = torch.zeros(4, 6)
POOL[0, :2] = POOL[2, 2:5] = POOL[3, 5] = 1


def random_layers() -> list[torch.Tensor]:
    return [torch.randn(6, width) for width in WIDTHS]


@pytest.mark.parametrize("per_layer", [False, True])
def test_is_the_sum_of_one_linear_map_per_layer(per_layer):
    readout, layers = LayerwiseReadout(WIDTHS, CLASSES, per_layer=per_layer), random_layers()
    parts = readout.weight.split(WIDTHS, dim=1)
    biases = readout.bias if per_layer else [readout.bias[0], None, None]
    expected = sum(
        nn.functional.linear(POOL @ layer, weight, bias)
        for layer, weight, bias in zip(layers, parts, biases, strict=True)
    )
    torch.testing.assert_close(readout(layers, Adjacency.from_dense(POOL)), expected)


@pytest.mark.parametrize("per_layer", [False, True])
def test_starts_as_torchs_linear_maps_do(per_layer):
    widths = [400, 100]
    readout = LayerwiseReadout(widths, 50, per_layer=per_layer)
    assert readout.bias.shape == (2 if per_layer else 1, 50)
    fans = widths if per_layer else [500, 500]
    for part, fan in zip(readout.weight.split(widths, dim=1), fans, strict=True):
        assert 0.99 / math.sqrt(fan) < part.abs().max() <= 1 / math.sqrt(fan)
    for bias, fan in zip(readout.bias, fans, strict=False):
        assert 0.8 / math.sqrt(fan) < bias.abs().max() <= 1 / math.sqrt(fan)


def test_dropout_acts_on_the_sums_in_training_alone():
    readout, layers = LayerwiseReadout(WIDTHS, CLASSES, dropout=0.5), random_layers()
    pool, seen = Adjacency.from_dense(POOL), []
    readout.dropout.register_forward_hook(lambda module, args, y: seen.append((args[0], y)))
    assert not torch.equal(readout(layers, pool), readout(layers, pool))
    for x, y in seen:
        torch.testing.assert_close(x, POOL @ torch.cat(layers, dim=1))
        torch.testing.assert_close(y[y != 0], 2 * x[y != 0])
    readout.eval()
    assert torch.equal(readout(layers, pool), readout(layers, pool))


def test_members_of_an_ensemble_equal_single_readouts():
    def build() -> nn.Module:
        return LayerwiseReadout(WIDTHS, CLASSES, per_layer=True)

    ensemble, layers = Ensemble([build] * 3, [0, 1, 2]), random_layers()
    pool = Adjacency.from_dense(POOL)
    y = ensemble(layers, pool)
    for m in range(3):
        readout = build()
        readout.load_state_dict(ensemble.member(m), strict=False)
        torch.testing.assert_close(y[m], readout(layers, pool))
