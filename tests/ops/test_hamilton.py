"""The quaternion matrix product against loops of Hamilton products, its matrix on a GPU against the
plain form."""

import pytest
import torch
from torch import Tensor

from quatgraph import algebra
from quatgraph.algebra import hamilton_product
from quatgraph.errors import UserError
from quatgraph.ops import hamilton_linear, hamilton_matrix

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
    with pytest.raises(UserError, match="takes a matrix of vectors, and no bias"):
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


def test_the_matrix_on_a_cpu_is_the_plain_form():
    weight = torch.randn(4, 3, 5)
    assert torch.equal(hamilton_matrix(weight), algebra.hamilton_matrix(weight))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(4, 1, 1), (4, 3, 5), (4, 33, 40), (4, 128, 128)])
@pytest.mark.parametrize("members", [None, 3])
def test_the_gpu_gives_the_same_matrix_and_gradient(shape, members):
    lead = () if members is None else (members,)
    # Members lie apart in memory, as the parameters of an ensemble do.
    flat = torch.randn(*lead, torch.Size(shape).numel() + 7, device="cuda")
    weight = flat[..., 7:].unflatten(-1, shape).requires_grad_()
    apply = hamilton_matrix if members is None else torch.vmap(hamilton_matrix)
    ours, plain = apply(weight), algebra.hamilton_matrix(weight)
    assert torch.equal(ours, plain)
    probe = torch.randn_like(ours)
    (mine,) = torch.autograd.grad(ours, weight, probe)
    (theirs,) = torch.autograd.grad(plain, weight, probe)
    torch.testing.assert_close(mine, theirs)
    turned = probe.mT.contiguous().mT
    (again,) = torch.autograd.grad(apply(weight), weight, turned)
    assert torch.equal(again, mine)


@pytest.mark.gpu
def test_the_gpu_gives_the_derivatives_that_are_numerical_ones():
    weight = torch.randn(4, 2, 3, device="cuda", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        hamilton_matrix, weight, check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(hamilton_matrix, weight, check_fwd_over_rev=True)
    assert not hamilton_matrix(weight.detach()).requires_grad
