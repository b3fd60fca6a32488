"""The recurrence of several LSTMs at once is that of torch's LSTMs one by one."""

import pytest
import torch
from torch import Tensor, nn

from benchmarks.measure import captured
from quatgraph.ops.lstm import lstm_states

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
SIZES = [(1, 1, 1, 1), (7, 3, 5, 4), (40, 20, 33, 19)]


def drawn(length: int, count: int, batch: int, width: int, device: str) -> tuple[Tensor, Tensor]:
    gates = torch.randn(length, count, batch, 4 * width, device=device, dtype=torch.double)
    weight = torch.randn(count, 4 * width, width, device=device, dtype=torch.double)
    return gates.requires_grad_(), (weight / width**0.5).detach().requires_grad_()


def torchs(gates: Tensor, weight: Tensor) -> Tensor:
    """By LSTMs whose input says to the gates what it is."""
    width, found = weight.size(-1), []
    for number, own in enumerate(weight):
        theirs = nn.LSTM(4 * width, width, bias=False, device=own.device).double()
        state = {"weight_ih_l0": torch.eye(4 * width).to(own), "weight_hh_l0": own}
        found.append(torch.func.functional_call(theirs, state, gates[:, number])[0])
    return torch.stack(found, dim=1)


def results(states: Tensor, *inputs: Tensor) -> list[Tensor]:
    return [states.detach(), *torch.autograd.grad(states.square().sum(), inputs)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients_are_torchs(device, sizes):
    inputs = drawn(*sizes, device)
    wanted = results(torchs(*inputs), *inputs)
    for mine, theirs in zip(results(lstm_states(*inputs), *inputs), wanted, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradients_are_those_of_differences():
    assert torch.autograd.gradcheck(lstm_states, drawn(4, 2, 3, 2, "cpu"))


@pytest.mark.gpu
def test_a_captured_step_is_the_same():
    gates, weight = (t.detach().float().requires_grad_() for t in drawn(30, 6, 50, 24, "cuda"))
    found: list[list[Tensor]] = []  # at last what a replay writes
    replay = captured(lambda: found.append(results(lstm_states(gates, weight), gates, weight)))
    with torch.no_grad():
        gates.copy_(torch.randn_like(gates))
    replay()
    wanted = results(lstm_states(gates, weight), gates, weight)
    for mine, other in zip(found[-1], wanted, strict=True):
        torch.testing.assert_close(mine, other)
