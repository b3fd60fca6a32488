"""Batch norm of padded rows against torch's of the rows themselves."""

import pytest
import torch
from torch import nn

from quatgraph.layers import BatchNorm
from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.training.ensemble import Ensemble

WIDTH = 4


def torchs(norm: BatchNorm) -> nn.BatchNorm1d:
    theirs = nn.BatchNorm1d(norm.weight.numel()).double()
    theirs.load_state_dict(norm.state_dict(), strict=False)
    return theirs


def random_norm(activation: Activation = "none") -> BatchNorm:
    norm = BatchNorm(WIDTH, activation).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


PRESENT = torch.tensor([True, False, True, True, False, True, True, False])


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("padded", [False, True])
def test_is_torchs_batch_norm_and_activation_on_the_rows_that_are_no_padding(padded, activation):
    ours, apply = random_norm(activation), ACTIVATIONS[activation]
    theirs = torchs(ours)
    real = PRESENT if padded else torch.ones(8, dtype=torch.bool)
    for step in range(3):
        x = (step + 2) * torch.randn(8, WIDTH, dtype=torch.float64) + step
        x.requires_grad_()
        y, wanted = ours(x, real.double() if padded else None)[real], apply(theirs(x[real]))
        torch.testing.assert_close(y, wanted)
        probe = torch.randn_like(y)
        mine = torch.autograd.grad(y, [x, ours.weight, ours.bias], probe)
        grads = torch.autograd.grad(wanted, [x, theirs.weight, theirs.bias], probe)
        for a, b in zip(mine, grads, strict=True):
            torch.testing.assert_close(a, b)
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)
    ours.eval()
    theirs.eval()
    torch.testing.assert_close(ours(x, real), apply(theirs(x)))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)


def test_scale_and_shift_may_be_left_out():
    ours, theirs = BatchNorm(WIDTH, affine=False), nn.BatchNorm1d(WIDTH, affine=False)
    assert not list(ours.parameters())
    assert ours.state_dict().keys() == {"running_mean", "running_var"}
    for training in (True, False):
        x = 3 * torch.randn(8, WIDTH) + 1
        torch.testing.assert_close(ours.train(training)(x), theirs.train(training)(x))
    ensemble = Ensemble([lambda: BatchNorm(WIDTH, affine=False)] * 2, [0, 1])
    torch.testing.assert_close(ensemble(x)[1], theirs.train()(x))


def test_gradients_are_the_numerical_ones():
    norm, x = random_norm(), torch.randn(8, WIDTH, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: norm(x, PRESENT), (x,))


@pytest.mark.parametrize("count", [0, 1])
def test_a_batch_without_variance_leaves_the_running_statistics_as_they_are(count):
    norm, x = random_norm(), torch.randn(8, WIDTH, dtype=torch.float64, requires_grad=True)
    y = norm(x, torch.arange(8) < count)
    if count:
        torch.testing.assert_close(y[0], norm.bias)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()
    assert torch.equal(norm.running_mean, torch.zeros_like(norm.running_mean))
    assert torch.equal(norm.running_var, torch.ones_like(norm.running_var))


def test_members_of_an_ensemble_have_running_statistics_of_their_own():
    ensemble = Ensemble([lambda: BatchNorm(WIDTH)] * 3, [0, 1, 2]).double()
    single = [BatchNorm(WIDTH).double() for _ in range(3)]
    before = [value.data_ptr() for value in ensemble.buffers()]
    for _ in range(2):
        x = torch.randn(3, 8, WIDTH, dtype=torch.float64)
        present = torch.rand(3, 8) < 0.8
        y = ensemble(x, present, in_dims=(0, 0))
        for m in range(3):
            torch.testing.assert_close(y[m], single[m](x[m], present[m]))
            member = ensemble.member(m)
            torch.testing.assert_close(member["running_mean"], single[m].running_mean)
            torch.testing.assert_close(member["running_var"], single[m].running_var)
    assert [value.data_ptr() for value in ensemble.buffers()] == before
    y = ensemble.eval()(x, present, in_dims=(0, 0))
    for m in range(3):
        torch.testing.assert_close(y[m], single[m].eval()(x[m]))
