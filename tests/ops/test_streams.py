"""Calls side by side give what they give one after the other."""

import pytest
import torch
from torch import Tensor

from quatgraph.bench.measure import captured
from quatgraph.ops.streams import side_by_side

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def calls(weights: Tensor):
    return [lambda x, w=w: torch.tanh(x @ w) @ w for w in weights]


def results(weights: Tensor, inputs: Tensor, *, beside: bool) -> list[Tensor]:
    """The outputs and the gradients of weights and inputs."""
    weights, inputs = weights.detach().requires_grad_(), inputs.detach().requires_grad_()
    given = inputs.unbind()
    made = calls(weights)
    if beside:
        found = side_by_side(made, given)
    else:
        found = [call(x) for call, x in zip(made, given, strict=True)]
    total = torch.stack(found)
    return [total.detach(), *torch.autograd.grad(total.square().sum(), (weights, inputs))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [1, 5, 40])
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS, but there was no current CUDA")
def test_values_and_gradients_are_those_of_one_after_the_other(device, count):
    weights = torch.randn(count, 64, 64, device=device) / 8
    inputs = torch.randn(count, 300, 64, device=device)
    wanted = results(weights, inputs, beside=False)
    for _ in range(3):
        for mine, other in zip(results(weights, inputs, beside=True), wanted, strict=True):
            torch.testing.assert_close(mine, other)


@pytest.mark.gpu
def test_a_captured_step_keeps_them_side_by_side():
    weights, inputs = torch.randn(6, 64, 64, device="cuda") / 8, torch.randn(6, 300, 64).cuda()
    found: list[list[Tensor]] = []  # at last what a replay writes
    replay = captured(lambda: found.append(results(weights, inputs, beside=True)))
    inputs.copy_(torch.randn_like(inputs))
    replay()
    for mine, other in zip(found[-1], results(weights, inputs, beside=False), strict=True):
        torch.testing.assert_close(mine, other)
