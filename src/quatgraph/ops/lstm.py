"""The recurrence of several LSTMs at once."""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.transforms import once_differentiable


def lstm_states(gates: Tensor, weight: Tensor) -> Tensor:
    """The states of N LSTMs after each of L steps, all from zero.

    The steps of an LSTM are sequential, but N LSTMs run side by side: each step is one product and
    one pass over the gates for all of them.

    Args:
        gates: The inputs' contribution to the gates, biases included; in torch's order.
        weight: Maps the previous state to the gates.

    Shape:
        - gates: ``(L, N, B, 4 H)``
        - weight: ``(N, 4 H, H)``
        - output: ``(L, N, B, H)``
    """
    states: Tensor = _States.apply(gates, weight)
    return states


class _States(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor) -> Tensor:
        _, count, batch, width = gates.shape
        state = cell = gates.new_zeros(count, batch, width // 4)
        states, cells, activated = [state], [cell], []
        for inputs in gates:
            state, cell, gate = _step(inputs, state, weight.mT, cell)
            states.append(state)
            cells.append(cell)
            activated.append(gate)
        ctx.save_for_backward(weight, *states[:-1], *cells, *activated)
        return torch.stack(states[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, *saved = ctx.saved_tensors
        length = len(grad)
        states, cells, activated = saved[:length], saved[length : 2 * length + 1], saved[-length:]
        grad_weight, grad_cell = torch.zeros_like(weight), torch.zeros_like(cells[0])
        grad_state, grad_gates = grad[-1], []
        for t in range(length - 1, -1, -1):
            grad_gate, grad_cell = _step_backward(
                grad_state, grad_cell, cells[t], cells[t + 1], activated[t]
            )
            grad_weight.baddbmm_(grad_gate.mT, states[t])
            grad_gates.append(grad_gate)
            if t:
                grad_state = torch.baddbmm(grad[t - 1], grad_gate, weight)
        return torch.stack(grad_gates[::-1]), grad_weight


def _step(
    inputs: Tensor, state: Tensor, across: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """State, cell and activated gates after a step."""
    if inputs.is_cuda:  # torch's fused cell takes matrices
        flat = (t.flatten(0, 1) for t in (inputs, state @ across, cell))
        after, cell_after, gate = torch.ops.aten._thnn_fused_lstm_cell(*flat)
        return after.view_as(state), cell_after.view_as(cell), gate.view_as(inputs)
    gate = torch.baddbmm(inputs, state, across)
    i, f, g, o = gate.chunk(4, dim=-1)
    for part in (i, f, o):
        part.sigmoid_()
    cell = (f * cell).addcmul_(i, g.tanh_())
    return o * cell.tanh(), cell, gate


def _step_backward(
    grad_state: Tensor, grad_cell: Tensor, before: Tensor, after: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of the gates' inputs and of the previous cell."""
    if gate.is_cuda:
        flat = (t.flatten(0, 1) for t in (grad_state, grad_cell, before, after, gate))
        back = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        grad_gate, grad_before, _ = back(*flat, has_bias=False)
        return grad_gate.view_as(gate), grad_before.view_as(before)
    i, f, g, o = gate.chunk(4, dim=-1)
    tanh, grad_gate = after.tanh(), torch.empty_like(gate)
    grad_i, grad_f, grad_g, grad_o = grad_gate.chunk(4, dim=-1)
    grad_cell = torch.addcmul(grad_cell, grad_state * o, 1 - tanh * tanh)
    torch.mul(grad_cell * g, i * (1 - i), out=grad_i)
    torch.mul(grad_cell * before, f * (1 - f), out=grad_f)
    torch.mul(grad_cell * i, 1 - g * g, out=grad_g)
    torch.mul(grad_state * tanh, o * (1 - o), out=grad_o)
    return grad_gate, grad_cell * f
