"""Hypercomplex layers against loops, quaternion, complex and real layers."""

import pytest
import torch
from torch import nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import hamilton_matrix
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import PHMLinear, QuaternionLinear
from quatgraph.layers.phm import multiplication_rules
from quatgraph.training.ensemble import Ensemble

IN, OUT = 2, 3  # hypercomplex numbers


@pytest.mark.parametrize("n", [1, 2, 3, 4, 8])
def test_is_the_equation(n):
    layer = PHMLinear(IN * n, OUT * n, n, bias=True).double()
    nn.init.normal_(layer.bias)
    x = torch.randn(5, IN * n, dtype=torch.float64)
    matrix = sum(torch.kron(a, s) for a, s in zip(layer.rules, layer.weight, strict=True))
    torch.testing.assert_close(layer(x), x @ matrix.mT + layer.bias)
    expected = torch.zeros(5, n, OUT, dtype=torch.float64)
    for k in range(n):
        for a in range(n):
            for b in range(n):
                rows = x[:, b * IN : (b + 1) * IN] @ layer.weight[k].mT
                expected[:, a] += layer.rules[k, a, b] * rows
    torch.testing.assert_close(layer(x), expected.flatten(1) + layer.bias)


def with_rules(n: int, rules: str) -> PHMLinear:
    layer = PHMLinear(IN * n, OUT * n, n, rules=rules, bias=True)
    with torch.no_grad():
        layer.rules.copy_(multiplication_rules(n))
    return layer


@pytest.mark.parametrize("rules", ["learned", "fixed"])
def test_with_the_rules_of_quaternions_it_is_the_quaternion_layer(rules):
    ours, theirs = with_rules(4, rules), QuaternionLinear(4 * IN, 4 * OUT, bias=True)
    theirs.load_state_dict({"weight": ours.weight, "bias": ours.bias})
    x = torch.randn(5, 4 * IN)
    assert torch.equal(ours.matrix(), hamilton_matrix(theirs.weight))
    assert torch.equal(ours(x), theirs(x))


def test_with_the_rules_of_complex_numbers_it_is_a_complex_layer():
    layer, x = with_rules(2, "fixed"), torch.randn(5, 2 * IN)
    y = torch.complex(*x.chunk(2, dim=1)) @ torch.complex(*layer.weight).mT
    torch.testing.assert_close(layer(x), torch.cat((y.real, y.imag), dim=1))


def test_of_real_numbers_it_is_a_real_layer():
    layer, x = with_rules(1, "fixed"), torch.randn(5, IN)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight[0], layer.bias))


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_fixed_rules_multiply_norms(n):
    left = torch.randn(n, dtype=torch.float64)
    matrix = torch.einsum("k,kab->ab", left, multiplication_rules(n).double())
    identity = torch.eye(n, dtype=torch.float64)
    torch.testing.assert_close(matrix.mT @ matrix, left.square().sum() * identity)
    assert torch.equal(multiplication_rules(n)[0], torch.eye(n))


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_has_an_nth_of_the_weights_and_its_rules(n):
    real = 64 * 32
    learned, fixed = (PHMLinear(64, 32, n, rules=rules) for rules in ("learned", "fixed"))
    assert sum(p.numel() for p in learned.parameters()) == real // n + n**3
    assert sum(p.numel() for p in fixed.parameters()) == real // n
    assert set(fixed.state_dict()) == {"weight"}


@pytest.mark.parametrize("rules", ["learned", "fixed"])
@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_starts_with_the_variance_of_glorots_matrix(n, rules):
    matrix = PHMLinear(512, 256, n, rules=rules).matrix()
    assert matrix.std().item() == pytest.approx((2 / (512 + 256)) ** 0.5, rel=0.05)
    assert matrix.mean().abs() < 1e-3


def test_takes_sparse_and_one_hot_rows():
    layer, x = PHMLinear(6, 9, 3, bias=True), torch.randn(5, 6).relu()
    nn.init.normal_(layer.bias)
    torch.testing.assert_close(layer(Adjacency.from_dense(x)), layer(x))
    code = torch.tensor([0, 5, 2])
    torch.testing.assert_close(layer(Codes(code, torch.ones(3), 6)), layer(torch.eye(6)[code]))


def test_learns_its_rules_and_compiles_whole():
    layer, x = PHMLinear(8, 8, 4), torch.randn(5, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))
    compiled(x).square().sum().backward()
    assert layer.rules.grad.all()
    assert layer.weight.grad.all()


@pytest.mark.parametrize("rules", ["learned", "fixed"])
def test_members_of_an_ensemble_equal_single_layers(rules):
    def build() -> nn.Module:
        return PHMLinear(8, 12, 4, rules=rules, bias=True)

    ensemble, x = Ensemble([build] * 3, [0, 1, 2]), torch.randn(5, 8)
    for m, y in enumerate(ensemble(x)):
        layer = build()
        layer.load_state_dict(ensemble.member(m), strict=False)
        torch.testing.assert_close(y, layer(x))


def test_shows_its_sizes_and_names_mistakes():
    layer = PHMLinear(6, 9, 3)
    assert repr(layer) == "PHMLinear(6, 9, n=3, rules=learned)"
    with pytest.raises(UserError, match="must be positive multiples of n=4, got 6 and 8"):
        PHMLinear(6, 8, 4)
    with pytest.raises(UserError, match=r"must be an integer, got n=2\.0"):
        PHMLinear(8, 8, 2.0)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1 component, got n=0"):
        PHMLinear(6, 8, 0)
    with pytest.raises(UserError, match="fixed rules need n = 1, 2, 4 or 8, got 3"):
        PHMLinear(6, 9, 3, rules="fixed")
    with pytest.raises(UserError, match="choose learned or fixed"):
        PHMLinear(6, 9, 3, rules="octonion")
    with pytest.raises(UserError, match="takes inputs of width 6, got 7"):
        layer(torch.randn(5, 7))
