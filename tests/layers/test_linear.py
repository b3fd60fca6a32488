"""The linear layers as modules; the quaternion product is tested with hamilton_linear."""

import math
from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter
from torch_geometric.nn import Linear as PyGLinear

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_product
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionLinear
from quatgraph.layers.linear import GlorotLinear, RealLinear

IN, OUT = 3, 2  # quaternions


@pytest.mark.parametrize("bias", [False, True])
def test_is_the_sum_of_hamilton_products(bias):
    layer, x = QuaternionLinear(4 * IN, 4 * OUT, bias=bias), torch.randn(5, 4 * IN)
    expected = torch.zeros(5, 4, OUT)
    if bias:
        nn.init.normal_(layer.bias)
        expected += layer.bias.view(4, OUT)
    for v in range(5):
        for m in range(OUT):
            for n in range(IN):
                expected[v, :, m] += hamilton_product(layer.weight[:, m, n], x[v, n::IN])
    torch.testing.assert_close(layer(x), expected.flatten(1))


def test_a_tiled_layer_takes_one_copy_or_all_four():
    layer = QuaternionLinear(IN, 4 * OUT, bias=True, tiled=True)
    direct = QuaternionLinear(4 * IN, 4 * OUT, bias=True)
    nn.init.normal_(layer.bias)
    direct.load_state_dict(layer.state_dict())
    h, four = torch.randn(5, IN), torch.randn(5, 4 * IN)
    torch.testing.assert_close(layer(h), direct(h.repeat(1, 4)))
    torch.testing.assert_close(layer(four), direct(four))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tiled", [False, True])
def test_sparse_rows_give_what_dense_rows_give(tiled, bias):
    layer = QuaternionLinear(IN if tiled else 4 * IN, 4 * OUT, bias=bias, tiled=tiled)
    if bias:
        nn.init.normal_(layer.bias)
    x = torch.randn(5, IN if tiled else 4 * IN).relu()
    ours, dense = layer(Adjacency.from_dense(x)), layer(x)
    torch.testing.assert_close(ours, dense)
    probe = torch.randn_like(dense)
    (mine,) = torch.autograd.grad(ours, layer.weight, probe)
    (wanted,) = torch.autograd.grad(dense, layer.weight, probe)
    torch.testing.assert_close(mine, wanted)


def test_holds_a_quarter_of_the_weights_of_a_real_layer():
    ours, real = QuaternionLinear(64, 32), nn.Linear(64, 32, bias=False)
    assert 4 * sum(p.numel() for p in ours.parameters()) == sum(
        p.numel() for p in real.parameters()
    )


def test_starts_within_the_released_codes_bound():
    layer = QuaternionLinear(400, 80, bias=True)
    bound = math.sqrt(6 / (100 + 4 * 20))
    assert bound * 0.99 < layer.weight.abs().max() <= bound
    assert layer.weight.mean().abs() < bound / 50
    assert not layer.bias.any()


def test_reset_draws_new_weights():
    layer = QuaternionLinear(8, 8, bias=True)
    before = layer.weight.clone()
    nn.init.ones_(layer.bias)
    layer.reset_parameters()
    assert not torch.equal(layer.weight, before)
    assert not layer.bias.any()


def test_widths_that_are_not_quaternions_are_mistakes():
    with pytest.raises(UserError, match="got 6: use 8"):
        QuaternionLinear(6, 8)
    with pytest.raises(UserError, match=r"takes one input width, got \(16, 20\)"):
        QuaternionLinear((16, 20), 8)
    with pytest.raises(UserError, match="got 10: use 12"):
        QuaternionLinear(6, 10, tiled=True)


@pytest.mark.parametrize(("tiled", "wanted"), [(False, 12), (True, 3)])
def test_inputs_of_another_width_are_mistakes(tiled, wanted):
    layer = QuaternionLinear(wanted, 8, tiled=tiled)
    for x in (torch.randn(5, 8), Adjacency.from_dense(torch.ones(5, 8))):
        with pytest.raises(UserError, match=f"takes inputs of width {wanted}, got 8"):
            layer(x)


def test_a_real_linear_map_starts_as_torchs():
    torch.manual_seed(1)
    ours = RealLinear(IN, OUT)
    torch.manual_seed(1)
    assert torch.equal(ours.weight, nn.Linear(IN, OUT).weight)


@pytest.mark.parametrize("kind", [RealLinear, GlorotLinear])
@pytest.mark.parametrize("bias", [False, True])
def test_a_real_linear_map_takes_sparse_and_one_hot_rows(bias, kind):
    layer, x = kind(IN, OUT, bias=bias), torch.randn(5, IN).relu()
    if bias:
        nn.init.normal_(layer.bias)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(Adjacency.from_dense(x)), expected)
    code, known = torch.randint(IN, (5,)), torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
    one_hot = nn.functional.one_hot(code, IN) * known[:, None]
    torch.testing.assert_close(layer(Codes(code.int(), known, IN)), layer(one_hot))


@pytest.mark.parametrize("bias", [False, True])
def test_a_glorot_linear_map_starts_as_glorot_says(bias):
    layer = GlorotLinear(IN, OUT, bias=bias)
    assert layer.weight.abs().max() <= (6 / (IN + OUT)) ** 0.5
    if bias:
        assert not layer.bias.any()


@pytest.mark.parametrize(("tiled", "bias"), [(False, True), (True, False)])
def test_a_lazy_layer_takes_the_width_of_its_first_input_as_pygs_does(tiled, bias):
    ours, theirs = QuaternionLinear(-1, 8, tiled=tiled, bias=bias), PyGLinear(-1, 8, bias=bias)
    assert ours.in_features == theirs.in_channels == -1
    assert [type(p) for p in ours.parameters()] == [type(p) for p in theirs.parameters()]
    x, width = torch.randn(5, 12), 12
    assert ours(x).shape == theirs(x).shape
    assert ours.in_features == theirs.in_channels == width
    assert not ours._forward_pre_hooks
    assert not theirs._forward_pre_hooks
    torch.manual_seed(1)
    known = QuaternionLinear(width, 8, tiled=tiled, bias=bias)
    torch.manual_seed(1)
    lazy = QuaternionLinear(-1, 8, tiled=tiled, bias=bias)
    assert torch.equal(lazy(x), known(x))
    assert list(lazy.state_dict()) == list(known.state_dict())
    assert repr(lazy) == repr(known)


def test_a_lazy_layer_is_copied_saved_and_loaded_as_pygs_is(tmp_path):
    for make in (
        lambda width: PyGLinear(width, 8),
        lambda width: QuaternionLinear(width, 8, bias=True),
    ):
        x, lazy, known = torch.randn(5, 12), make(-1), make(12)
        copied = deepcopy(lazy)
        assert copied(x).shape == (5, 8)
        assert isinstance(lazy.weight, UninitializedParameter)  # the copy has its own hook
        lazy.load_state_dict(known.state_dict())
        assert torch.equal(lazy(x), known(x))
        assert not lazy._forward_pre_hooks
        known.load_state_dict(make(-1).state_dict())  # which has no weights
        assert isinstance(known.weight, UninitializedParameter)
        wider = torch.randn(5, 16)
        assert known(wider).shape == (5, 8)
        torch.save(make(-1), tmp_path / "lazy.pt")
        read = torch.load(tmp_path / "lazy.pt", weights_only=False)
        assert read(wider).shape == (5, 8)


def test_a_lazy_layer_takes_sparse_and_one_hot_rows():
    x = torch.eye(3)[[0, 2, 1, 1]]
    codes = Codes(torch.tensor([0, 2, 1, 1]), torch.ones(4), 3)
    for rows in (Adjacency.from_dense(x), codes):
        layer = QuaternionLinear(-1, 8, tiled=True)
        torch.testing.assert_close(layer(rows), layer(x))


def test_a_lazy_layer_waits_for_an_input_of_a_valid_width():
    layer = QuaternionLinear(-1, 8)
    with pytest.raises(UserError, match="got 6: use 8"):
        layer(torch.randn(5, 6))
    assert layer(torch.randn(5, 8)).shape == (5, 8)
    for width in (0, -2):
        with pytest.raises(UserError, match=f"at least 1, or -1 to infer it, got {width}"):
            QuaternionLinear(width, 8)
