"""Dropout by given random numbers: the formula, rates per member, and the kernel."""

import pytest
import torch

from quatgraph.ops.backend import backend
from quatgraph.ops.dropout import dropped


def test_numbers_at_or_above_the_rate_are_kept_and_scaled():
    x, random = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.24, 0.25, 0.9])
    torch.testing.assert_close(
        dropped(x, random, torch.tensor(0.25)), torch.tensor([0.0, 2.0, 3.0]) / 0.75
    )


def test_members_have_rates_of_their_own():
    x, random = torch.randn(3, 5, 4), torch.rand(3, 5, 4)
    rate = torch.tensor([0.0, 0.5, 0.9])
    each = torch.stack([dropped(a, r, p) for a, r, p in zip(x, random, rate, strict=True)])
    assert torch.equal(torch.vmap(dropped)(x, random, rate), each)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 7), (4, 33, 512), (2, 5, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_kernel_gives_the_plain_forms_values_and_gradients(shape, dtype):
    x = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)
    random, rate = torch.rand(shape, device="cuda"), torch.rand(shape[0], device="cuda") * 0.9
    probe = torch.randn_like(x)
    found = []
    for name in ("triton", "torch"):
        with backend(name):
            y = torch.vmap(dropped)(x, random, rate)
            found.append((y, *torch.autograd.grad(y, x, probe)))
    for ours, plain in zip(*found, strict=True):
        torch.testing.assert_close(ours, plain)


@pytest.mark.gpu
def test_the_kernel_takes_copies_that_are_in_memory_once():
    x = torch.randn(3, 500, 1, device="cuda").expand(3, 500, 4)
    random, rate = torch.rand(3, 500, 4, device="cuda"), torch.tensor([0.0, 0.5, 0.9]).cuda()
    assert torch.equal(dropped(x, random, rate), dropped(x.contiguous(), random, rate))
