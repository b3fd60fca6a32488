"""The recurrence of an LSTM, of many sequences and several LSTMs at once."""

from typing import Any

import torch
from torch import Tensor

from quatgraph.ops.transforms import once_differentiable


def lstm_states(gates: Tensor, weight: Tensor) -> Tensor:
    """The states of N LSTMs after each of L steps, all from zero.

    An LSTM has to wait for its last step, N of them need not wait for each other: each step is one
    product and one pass over the gates for all.

    Args:
        gates: What the input says to the gates, biases included; in torch's order.
        weight: What the state before says to them.

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
        states, cells, opened = [state], [cell], []
        for said in gates:
            state, cell, gate = _step(said, state, weight.mT, cell)
            states.append(state)
            cells.append(cell)
            opened.append(gate)
        ctx.save_for_backward(weight, *states[:-1], *cells, *opened)
        return torch.stack(states[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weight, *saved = ctx.saved_tensors
        length = len(grad)
        states, cells, opened = saved[:length], saved[length : 2 * length + 1], saved[-length:]
        by_weight, by_cell = torch.zeros_like(weight), torch.zeros_like(cells[0])
        by_state, by_gates = grad[-1], []
        for t in range(length - 1, -1, -1):
            by_gate, by_cell = _step_back(by_state, by_cell, cells[t], cells[t + 1], opened[t])
            by_weight.baddbmm_(by_gate.mT, states[t])
            by_gates.append(by_gate)
            if t:
                by_state = torch.baddbmm(grad[t - 1], by_gate, weight)
        return torch.stack(by_gates[::-1]), by_weight


def _step(
    said: Tensor, state: Tensor, across: Tensor, cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """State, cell and open gates after a step."""
    if said.is_cuda:  # torch's own pass over the gates, which wants matrices
        flat = (t.flatten(0, 1) for t in (said, state @ across, cell))
        after, cell_after, gate = torch.ops.aten._thnn_fused_lstm_cell(*flat)
        return after.view_as(state), cell_after.view_as(cell), gate.view_as(said)
    gate = torch.baddbmm(said, state, across)
    i, f, g, o = gate.chunk(4, dim=-1)
    for part in (i, f, o):
        part.sigmoid_()
    cell = (f * cell).addcmul_(i, g.tanh_())
    return o * cell.tanh(), cell, gate


def _step_back(
    by_state: Tensor, by_cell: Tensor, before: Tensor, after: Tensor, gate: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of what the gates were told and of the cell before, by those of state and cell."""
    if gate.is_cuda:
        flat = (t.flatten(0, 1) for t in (by_state, by_cell, before, after, gate))
        back = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
        by_gate, by_before, _ = back(*flat, has_bias=False)
        return by_gate.view_as(gate), by_before.view_as(before)
    i, f, g, o = gate.chunk(4, dim=-1)
    tanh, by_gate = after.tanh(), torch.empty_like(gate)
    by_i, by_f, by_g, by_o = by_gate.chunk(4, dim=-1)
    by_cell = torch.addcmul(by_cell, by_state * o, 1 - tanh * tanh)
    torch.mul(by_cell * g, i * (1 - i), out=by_i)
    torch.mul(by_cell * before, f * (1 - f), out=by_f)
    torch.mul(by_cell * i, 1 - g * g, out=by_g)
    torch.mul(by_state * tanh, o * (1 - o), out=by_o)
    return by_gate, by_cell * f
