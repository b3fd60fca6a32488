"""Keyed dropout: its formula, members, gradients, and the kernel."""

import pytest
import torch
from torch import Tensor

from quatgraph.ops.backend import backend
from quatgraph.ops.dropout import keyed_dropout
from quatgraph.ops.random import random_bits

DRAWS = torch.tensor([[0, 0], [5, 2], [7 + (3 << 32), 9]])
RATES = torch.tensor([0.0, 0.5, 0.9])


def by_formula(
    x: Tensor, draws: Tensor, rate: Tensor, call: int, tiles: int = 1, rows: Tensor | None = None
) -> Tensor:
    """One member's, from the bits."""
    flat = x.reshape(len(x), -1)
    bits = random_bits(draws, call, len(x) if rows is None else rows, flat.size(1) // tiles)
    share = bits.tile(tiles).double() / 2**32
    return torch.where(share >= float(rate), flat / (1 - rate), 0).view(x.shape)


@pytest.mark.parametrize("rows", [None, torch.tensor([4, 1, -1, 900, 2])])
@pytest.mark.parametrize(("shape", "tiles"), [((5,), 1), ((5, 8), 1), ((5, 8), 4), ((5, 2, 3), 1)])
def test_numbers_whose_bits_reach_the_rate_are_kept_and_scaled(shape, tiles, rows):
    x = torch.randn(3, *shape)
    many = None if rows is None else rows.expand(3, 5)
    batched = keyed_dropout(x, DRAWS, RATES, 4, tiles, many)
    for place in range(3):
        expected = by_formula(x[place], DRAWS[place], RATES[place], 4, tiles, rows)
        torch.testing.assert_close(batched[place], expected)
        alone = keyed_dropout(x[place], DRAWS[place], RATES[place], 4, tiles, rows)
        assert torch.equal(alone, batched[place])


def test_more_numbers_than_are_hashed_at_once_are_all_hashed():
    x = torch.ones(3, 700, 120)
    y = keyed_dropout(x, DRAWS, RATES, 0)
    for place in range(3):
        expected = by_formula(x[place], DRAWS[place], RATES[place], 0)
        torch.testing.assert_close(y[place], expected)


def test_members_under_vmap_equal_stacked_ones():
    x, shared = torch.randn(3, 5, 8), torch.randn(5, 8)

    def call(x: Tensor, draws: Tensor, rate: Tensor) -> Tensor:
        return keyed_dropout(x, draws, rate, 1, 4)

    stacked = keyed_dropout(x, DRAWS, RATES, 1, 4)
    assert torch.equal(torch.vmap(call)(x, DRAWS, RATES), stacked)
    of_one = torch.vmap(call, in_dims=(None, 0, 0))(shared, DRAWS, RATES)
    assert torch.equal(of_one, keyed_dropout(shared.expand(3, 5, 8), DRAWS, RATES, 1, 4))


def test_the_gradient_has_the_same_mask():
    x = torch.randn(3, 50, 8, requires_grad=True)
    y = keyed_dropout(x, DRAWS, RATES, 1)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad, keyed_dropout(torch.ones_like(x), DRAWS, RATES, 1))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("shape", [(3, 0, 4), (3, 0)])
@pytest.mark.parametrize("tiles", [1, 4])
def test_nothing_is_dropped_of_nothing(shape, tiles, device):
    x, draws, rates = (value.to(device) for value in (torch.empty(shape), DRAWS, RATES))
    if tiles == 1 or len(shape) > 2:
        assert keyed_dropout(x, draws, rates, 0, tiles).shape == shape
    each = torch.vmap(lambda x, draws, rate: keyed_dropout(x, draws, rate, 0))
    assert each(x, draws, rates).shape == shape


def on_gpu(*values: Tensor) -> list[Tensor]:
    return [value.cuda() for value in values]


@pytest.mark.gpu
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("shape", "tiles"), [((7,), 1), ((33, 512), 4), ((5, 4), 1), ((9, 6), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("call", [0, 1, 16, 1 << 30])  # Triton compiles some numbers in
def test_the_kernel_drops_what_a_cpu_drops(call, shape, tiles, keyed, dtype):
    x = torch.randn(3, *shape, dtype=dtype)
    rows = torch.randint(-1, 1000, (3, shape[0]), dtype=torch.int32) if keyed else None
    expected = keyed_dropout(x, DRAWS, RATES, call, tiles, rows)
    gradient = keyed_dropout(torch.ones_like(x), DRAWS, RATES, call, tiles, rows)
    there, draws, rates = on_gpu(x, DRAWS, RATES)
    given = None if rows is None else rows.cuda()
    for name in ("triton", "torch"):
        with backend(name):
            point = there.clone().requires_grad_()
            y = keyed_dropout(point, draws, rates, call, tiles, given)
            (grad,) = torch.autograd.grad(y.sum(), point)
        torch.testing.assert_close(y.cpu(), expected)
        torch.testing.assert_close(grad.cpu(), gradient)


@pytest.mark.gpu
def test_the_kernel_takes_copies_that_are_in_memory_once():
    x = torch.randn(3, 500, 1, device="cuda").expand(3, 500, 4)
    draws, rates = on_gpu(DRAWS, RATES)
    copied = keyed_dropout(x.contiguous(), draws, rates, 0)
    assert torch.equal(keyed_dropout(x, draws, rates, 0), copied)
