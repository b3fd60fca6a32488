"""Attention over the layers of a network."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers.linear import RealLinear
from quatgraph.ops.lstm import lstm_states

Jump = Literal["concat", "attention"]
"""What a readout takes of the layers: all of them side by side, or :class:`LayerAttention`."""


class LayerAttention(nn.Module):
    r"""PyG's ``JumpingKnowledge("lstm")``
    (`Jumping Knowledge Networks <https://arxiv.org/abs/1806.03536>`_): each node's mean over the
    layers, weighted by attention.

    .. math::
        \mathbf{h}_v = \sum_l \mathrm{softmax}_l \big(\mathbf{w}^\top
        [\overrightarrow{\mathbf{s}}^{(l)}_v \parallel \overleftarrow{\mathbf{s}}^{(l)}_v] + b\big)
        \, \mathbf{h}^{(l)}_v

    where :math:`\mathbf{s}` are the states of two LSTMs, which read a node's layers forwards and
    backwards.

    Args:
        width: Width of each layer's vectors.
        num_layers: Number of layers L.

    Shape:
        - layers: L of ``(N, width)``
        - output: ``(N, width)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(self, width: int, num_layers: int) -> None:
        super().__init__()
        hidden = num_layers * width // 2
        self.up = nn.LSTM(width, hidden)
        self.down = nn.LSTM(width, hidden)
        self.score = RealLinear(2 * hidden, 1)

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        read = torch.stack(tuple(layers), dim=-3)  # (L, N, F)
        states = [_run(self.up, read), _run(self.down, read.flip(-3)).flip(-3)]
        logits = self.score(torch.cat(states, dim=-1).flatten(-3, -2))
        weight = logits.unflatten(-2, read.shape[-3:-1]).softmax(dim=-3)
        return (weight * read).sum(dim=-3)


def _run(lstm: nn.LSTM, read: Tensor) -> Tensor:
    """The states of an LSTM after each step, ``(L, N, F) -> (L, N, H)``."""
    weight_ih, weight_hh, bias, more_bias = lstm.parameters()
    gates = read.flatten(-3, -2) @ weight_ih.mT + (bias + more_bias).unsqueeze(-2)
    gates = gates.unflatten(-2, read.shape[-3:-1])
    if gates.dim() == 3:
        return lstm_states(gates.unsqueeze(1), weight_hh[None]).squeeze(1)
    return lstm_states(gates.transpose(0, 1).contiguous(), weight_hh).transpose(0, 1)
