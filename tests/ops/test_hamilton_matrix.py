"""The matrix of a quaternion product on a GPU against the plain form."""

import pytest
import torch

from quatgraph import algebra
from quatgraph.ops import hamilton_matrix


def test_on_a_cpu_it_is_the_plain_form():
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
