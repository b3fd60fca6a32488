"""Bi-LSTM."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import column_ids, row_ids
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.attention_readout import node_ptr
from quatgraph.layers.linear import Matrix, RealLinear
from quatgraph.models.common import Count
from quatgraph.models.text.base import TextModel, VectorOptions
from quatgraph.ops import lookup
from quatgraph.ops.lstm import lstm_states


@dataclass(frozen=True, slots=True, kw_only=True)
class BiLSTMOptions(VectorOptions):
    name: Literal["bilstm"] = "bilstm"
    length: Count = 200
    """Number of words to read from the start of a document."""

    @property
    def hidden(self) -> int:
        return self.width // 2  # the two directions are as wide as other models in total

    def padded(self, size: float) -> float:
        return max(self.length, size)

    def num_activations(self, size: float) -> int:
        # Documents are padded to ``length``.
        return 32 * max(1, int(self.length / max(1.0, size))) * self.width


class BiLSTM(TextModel):
    """Two LSTMs read the words forward and backward; their last states give the logits.

    Args:
        in_channels: Width of a word vector.
        num_classes: Number of classes C.
        length: Number of words to read from the start of a document; the run time grows with it.
        hidden: Width of the state of an LSTM.
        dropout: Rate on the word vectors.
        pooled_dropout: Rate on the document vectors.

    Shape:
        - x: word vectors, ``(T, in_channels)``
        - adjacency: ignored
        - pool: ``(G, T)``, the positions of each document
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = BiLSTMOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        length: int,
        hidden: int = 128,
        dropout: float = 0.5,
        pooled_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        if length < 1:
            raise UserError(f"Bi-LSTM must read at least one word, got length={length}")
        self.length = length
        self.there = nn.LSTM(in_channels, hidden, batch_first=True)
        self.back = nn.LSTM(in_channels, hidden, batch_first=True)
        self.prediction = RealLinear(2 * hidden, num_classes)
        self.input_dropout = QuaternionDropout(dropout)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Tensor, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool), row_ids(pool)))

    def embed(  # type: ignore[override]
        self, x: Tensor, adjacency: Matrix | None, pool: Matrix
    ) -> Tensor:
        positions = column_ids(pool)
        if not x.size(-2):  # all documents are empty: a dummy row to index
            x, positions = nn.functional.pad(x, (0, 0, 0, 1)), None
        x, ptr = self.input_dropout(x, positions), node_ptr(pool).long().expand(*x.shape[:-2], -1)
        begin, size = ptr[..., :-1, None], ptr.diff(dim=-1).clamp(max=self.length)[..., None]
        step, last = torch.arange(self.length, device=x.device), (size - 1).clamp(min=0)
        orders = step.minimum(last), (last - step).clamp(min=0)
        rows = [(begin + order).clamp(max=x.size(-2) - 1) for order in orders]
        both = torch.stack(rows, dim=-3).mT  # (..., 2, length, G)
        read = lookup(x, both.flatten(-3)).unflatten(-2, both.shape[-3:])
        states = self._states(read, last[..., None, :, :])
        return torch.cat(states.unbind(-3), dim=-1) * (size > 0)

    def _states(self, read: Tensor, last: Tensor) -> Tensor:
        """The last states of both LSTMs, ``(..., 2, length, G, F) -> (..., 2, G, hidden)``."""
        weight_ih, weight_hh, bias, more_bias = (
            torch.stack(both, dim=read.dim() - 4)
            for both in zip(self.there.parameters(), self.back.parameters(), strict=True)
        )
        projected = read.flatten(-3, -2) @ weight_ih.mT + (bias + more_bias)[..., None, :]
        gates = projected.unflatten(-2, read.shape[-3:-1])
        over = gates.flatten(0, -4).transpose(0, 1).contiguous()
        states = lstm_states(over, weight_hh.flatten(0, -3))
        ends = last.expand(*gates.shape[:-3], -1, -1).flatten(0, -3)
        return states.take_along_dim(ends[None], dim=0)[0].unflatten(0, gates.shape[:-3])
