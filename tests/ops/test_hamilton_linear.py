"""The quaternion matrix product against loops of Hamilton products."""

import pytest
import torch
from torch import Tensor

from quatgraph.algebra import hamilton_product
from quatgraph.errors import Mistake
from quatgraph.ops import hamilton_linear

M, N = 3, 2


def by_loops(x: Tensor, weight: Tensor) -> Tensor:
    """``y[m] = sum over n of W[m, n] (x) x[n]`` for one vector x of N quaternions."""
    y = torch.zeros(4, M, dtype=x.dtype)
    for m in range(M):
        for n in range(N):
            y[:, m] += hamilton_product(weight[:, m, n], x[n::N])
    return y.flatten()


@pytest.mark.parametrize("lead", [(), (5,), (2, 5)])
def test_is_the_sum_of_hamilton_products(lead):
    weight, x = torch.randn(4, M, N), torch.randn(*lead, 4 * N)
    expected = torch.stack([by_loops(row, weight) for row in x.reshape(-1, 4 * N)])
    torch.testing.assert_close(hamilton_linear(x, weight), expected.view(*lead, 4 * M))


def test_a_tiled_input_stands_for_four_equal_components():
    weight, h = torch.randn(4, M, N), torch.randn(5, N)
    expected = torch.stack([by_loops(row.repeat(4), weight) for row in h])
    torch.testing.assert_close(hamilton_linear(h, weight, tiled=True), expected)


def test_rounded_products_are_products_of_rounded_numbers():
    weight, x = torch.randn(4, M, N), torch.randn(5, 4 * N)
    found = hamilton_linear(x, weight, product_dtype=torch.bfloat16)
    wanted = hamilton_linear(x.bfloat16().double(), weight.bfloat16().double())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), wanted, rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize(("lead", "bias"), [((), None), ((2, 5), None), ((5,), torch.zeros(4 * M))])
def test_rounded_products_take_a_matrix_and_no_bias(lead, bias):
    with pytest.raises(Mistake, match="takes a matrix of vectors, and no bias"):
        hamilton_linear(
            torch.randn(*lead, 4 * N), torch.randn(4, M, N), bias, product_dtype=torch.bfloat16
        )


@pytest.mark.parametrize("tiled", [False, True])
def test_the_bias_is_added_to_every_vector(tiled):
    weight, bias = torch.randn(4, M, N), torch.randn(4 * M)
    x = torch.randn(5, N if tiled else 4 * N)
    plain = hamilton_linear(x, weight, tiled=tiled)
    torch.testing.assert_close(hamilton_linear(x, weight, bias, tiled=tiled), plain + bias)


@pytest.mark.parametrize("tiled", [False, True])
def test_gradients_are_the_numerical_ones(tiled):
    shapes = (5, N if tiled else 4 * N), (4, M, N), (4 * M,)
    inputs = tuple(torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    assert torch.autograd.gradcheck(lambda *i: hamilton_linear(*i, tiled=tiled), inputs)


@pytest.mark.parametrize("tiled", [False, True])
def test_compiles_whole_and_keeps_values_and_gradients(tiled):
    weight = torch.randn(4, M, N, requires_grad=True)
    x = torch.randn(5, N if tiled else 4 * N, requires_grad=True)
    compiled = torch.compile(hamilton_linear, fullgraph=True, backend="aot_eager")
    y, expected = compiled(x, weight, tiled=tiled), hamilton_linear(x, weight, tiled=tiled)
    torch.testing.assert_close(y, expected)
    probe = torch.randn(5, 4 * M)
    ours = torch.autograd.grad(y, (x, weight), probe)
    for mine, wanted in zip(ours, torch.autograd.grad(expected, (x, weight), probe), strict=True):
        torch.testing.assert_close(mine, wanted)


def test_members_under_vmap_have_weights_of_their_own():
    weight, x = torch.randn(3, 4, M, N), torch.randn(5, 4 * N)
    y = torch.vmap(hamilton_linear, in_dims=(None, 0))(x, weight)
    for m in range(3):
        torch.testing.assert_close(y[m], hamilton_linear(x, weight[m]))
