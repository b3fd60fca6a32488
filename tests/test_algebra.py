"""The laws of the quaternions."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from quatgraph.algebra import (
    components,
    concatenate,
    conjugate,
    hamilton_matrix,
    hamilton_matrix_tiled,
    hamilton_product,
    inner_product,
    inverse,
    lift,
    norm,
    quats,
    right_matrix,
    unit,
    vec,
)
from quatgraph.errors import UserError

UNITS = torch.eye(4, dtype=torch.float64)  # one, i, j and k
W = 3  # quaternions in a vector

reals = st.floats(-100, 100, allow_subnormal=False)
vectors = arrays("float64", (4 * W,), elements=reals).map(torch.from_numpy)
# Away from zero, which has neither a unit nor an inverse.
nonzero = vectors.filter(lambda q: bool((norm(q) > 1e-6).all()))


def close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-6)


def test_the_imaginary_units_multiply_as_hamilton_carved():
    one, i, j, k = UNITS
    for product, expected in (
        (hamilton_product(i, j), k),
        (hamilton_product(j, k), i),
        (hamilton_product(k, i), j),
        (hamilton_product(i, i), -one),
        (hamilton_product(j, j), -one),
        (hamilton_product(k, k), -one),
        (hamilton_product(hamilton_product(i, j), k), -one),
        (hamilton_product(j, i), -k),  # the other order: not commutative
    ):
        assert torch.equal(product, expected)


def test_the_product_is_linear_in_the_units():
    """Together with the units' table this is the whole product."""
    q, p = torch.randn(2, 4, dtype=torch.float64)
    expected = sum(
        q[a] * p[b] * hamilton_product(UNITS[a], UNITS[b])
        for a, b in itertools.product(range(4), repeat=2)
    )
    close(hamilton_product(q, p), expected)


@given(vectors, vectors, vectors)
def test_the_product_is_associative_and_distributes(q, p, s):
    close(
        hamilton_product(hamilton_product(q, p), s) / 1e4,
        hamilton_product(q, hamilton_product(p, s)) / 1e4,
    )
    close(hamilton_product(q, p + s), hamilton_product(q, p) + hamilton_product(q, s))


@given(vectors, vectors)
def test_norms_multiply_and_conjugates_reverse(q, p):
    close(norm(hamilton_product(q, p)), norm(q) * norm(p))
    close(conjugate(hamilton_product(q, p)), hamilton_product(conjugate(p), conjugate(q)))
    close(conjugate(conjugate(q)), q)


@given(vectors)
def test_a_quaternion_times_its_conjugate_is_its_squared_norm(q):
    close(hamilton_product(q, conjugate(q)), lift(norm(q) ** 2, "real"))


@given(nonzero, st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e150]))
def test_units_have_norm_one_and_inverses_give_one_at_any_scale(q, scale):
    q = scale * q
    ones = torch.ones(W, dtype=torch.float64)
    close(norm(unit(q)), ones)
    close(norm(q).tile(4) * unit(q) / scale, q / scale)
    close(hamilton_product(q, inverse(q)), lift(ones, "real"))
    close(hamilton_product(inverse(q), q), lift(ones, "real"))


def test_zero_has_no_unit_and_no_inverse():
    assert unit(torch.zeros(4)).isnan().all()
    assert inverse(torch.zeros(4)).isnan().all()


@given(vectors, vectors)
def test_the_inner_product_adds_up_the_products_of_the_components(q, p):
    expected = sum(
        float(a) * float(b)
        for left, right in zip(components(q), components(p), strict=True)
        for a, b in zip(left, right, strict=True)
    )
    assert inner_product(q, p).item() == pytest.approx(expected, rel=1e-9, abs=1e-6)
    # It is also the real part of the product with the conjugate, summed.
    close(components(hamilton_product(q, conjugate(p)))[0].sum(), inner_product(q, p))


def test_concatenating_joins_components_where_torch_joins_vectors():
    q, p, s = torch.randn(2, 8), torch.randn(2, 4), torch.randn(2, 12)
    joined = concatenate(q, p, s)
    for part, (a, b, c) in enumerate(zip(components(q), components(p), components(s), strict=True)):
        assert torch.equal(components(joined)[part], torch.cat((a, b, c), dim=-1))
    assert not torch.equal(joined, torch.cat((q, p, s), dim=-1))
    # So the product of concatenated vectors is the concatenation of the products.
    close(
        hamilton_product(concatenate(q, p), concatenate(q, p)),
        concatenate(hamilton_product(q, q), hamilton_product(p, p)),
    )


@pytest.mark.parametrize("lead", [(), (2,)])
def test_the_matrix_form_acts_as_the_product(lead):
    m, n = 3, 2
    weight, x = torch.randn(*lead, 4, m, n), torch.randn(*lead, 4 * n)
    expected = torch.zeros(*lead, 4, m)
    for row, col in itertools.product(range(m), range(n)):
        expected[..., row] += hamilton_product(weight[..., row, col], x[..., col::n])
    ours = (hamilton_matrix(weight) @ x[..., None])[..., 0]
    torch.testing.assert_close(ours, expected.flatten(-2))


def test_the_tiled_matrix_acts_on_one_vector_as_the_full_one_on_four_copies():
    weight, h = torch.randn(2, 4, 3, 5), torch.randn(2, 5, 1)
    full = hamilton_matrix(weight) @ lift(h.mT, "tile").mT
    torch.testing.assert_close(hamilton_matrix_tiled(weight) @ h, full)


def test_the_tiled_matrix_mixes_the_weights_by_twice_an_orthogonal_matrix():
    signs = hamilton_matrix_tiled(torch.eye(4).view(4, 4, 1, 1)).view(4, 4)
    assert torch.equal(signs.abs(), torch.ones(4, 4))
    assert torch.equal(signs @ signs.mT, 4 * torch.eye(4))


@pytest.mark.parametrize("lead", [(), (5,), (2, 3)])
def test_the_right_matrix_multiplies_from_the_right(lead):
    q, p = torch.randn(2, *lead, 4, dtype=torch.float64)
    ours = (right_matrix(p) @ q[..., None])[..., 0]
    close(ours, hamilton_product(q, p))
    left = hamilton_matrix(q[..., None, None])
    close((left @ p[..., None])[..., 0], ours)


@pytest.mark.parametrize("lead", [(), (5,), (2, 3), (2, 1, 3)])
def test_any_leading_dimensions_are_taken(lead):
    q, p = torch.randn(2, *lead, 8)
    rows = list(zip(q.reshape(-1, 8), p.reshape(-1, 8), strict=True))
    for binary in (hamilton_product, inner_product, concatenate):
        expected = torch.stack([binary(a, b) for a, b in rows])
        torch.testing.assert_close(binary(q, p).reshape(expected.shape), expected)
    for unary in (conjugate, norm, unit, inverse, vec):
        expected = torch.stack([unary(a) for a, _ in rows])
        torch.testing.assert_close(unary(q).reshape(expected.shape), expected)


def test_products_broadcast():
    q, p = torch.randn(3, 1, 8), torch.randn(5, 8)
    assert hamilton_product(q, p).shape == (3, 5, 8)
    torch.testing.assert_close(hamilton_product(q, p)[2, 4], hamilton_product(q[2, 0], p[4]))
    assert inner_product(q, p).shape == (3, 5)


def test_real_features_are_lifted_in_three_ways():
    x = torch.randn(2, 8)
    nothing = torch.zeros_like(x)
    assert all(torch.equal(part, x) for part in components(lift(x, "tile")))
    assert torch.equal(lift(x, "real"), torch.cat((x, nothing, nothing, nothing), dim=-1))
    assert lift(x, "split") is x
    assert vec(x) is x


@pytest.mark.parametrize(("width", "offered"), [(1, 4), (6, 8), (13, 16), (0, 4), (-3, 4)])
def test_other_widths_are_mistakes_that_name_the_next_one(width, offered):
    with pytest.raises(UserError, match=f"multiple of four, got {width}: use {offered}$"):
        quats(width)


def test_every_function_refuses_widths_that_are_not_quaternions():
    q = torch.randn(2, 6)
    for unary in (components, conjugate, norm, unit, inverse, vec, concatenate):
        with pytest.raises(UserError, match="use 8"):
            unary(q)
    with pytest.raises(UserError, match="use 8"):
        hamilton_product(q, q)
    with pytest.raises(UserError, match="use 8"):
        lift(q, "split")


def test_gradients_are_the_numerical_ones():
    q, p = (torch.randn(2, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for binary in (hamilton_product, inner_product, concatenate):
        assert torch.autograd.gradcheck(binary, (q, p))
    for unary in (conjugate, norm, unit, inverse):
        assert torch.autograd.gradcheck(unary, (q,))
    weight = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    for matrix in (hamilton_matrix, hamilton_matrix_tiled):
        assert torch.autograd.gradcheck(matrix, (weight,))
