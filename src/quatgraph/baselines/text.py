"""The methods TextQGNN is compared with in text classification, besides its real twin.

They read the words in their order: a document's nodes are its words one after the other, each as
often as it stands there. All are called as :class:`quatgraph.models.text.TextQGNN` is.
"""

import torch
from torch import Tensor, nn

from quatgraph.baselines.layers import Matrix
from quatgraph.blocks import column_ids, row_ids
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.attention_readout import starts
from quatgraph.layers.linear import RealLinear
from quatgraph.ops import lookup
from quatgraph.ops.attention_pool import owners
from quatgraph.ops.lstm import lstm_states


class FastText(nn.Module):
    """`fastText <https://arxiv.org/abs/1607.01759>`_: the mean of learned vectors, then one linear
    map.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        width: Real numbers of a vector.
        bigrams: Vectors that all pairs of neighbouring words share, a pair's found by its hash; 0
            for words alone, as in the paper's table.

    Shape:
        - words: of T places
        - adjacency: not looked at
        - pool: ``(G, T)``, which places each document has
        - output: logits ``(G, C)``
        - of several members each with a leading ``M``, the parameters too
    """

    takes_members = True

    def __init__(
        self, num_words: int, num_classes: int, *, width: int = 100, bigrams: int = 0
    ) -> None:
        super().__init__()
        self.words = _drawn(num_words, width)
        self.pairs = _drawn(bigrams, width) if bigrams else None
        self.prediction = RealLinear(width, num_classes, bias=False)
        nn.init.zeros_(self.prediction.weight)

    def forward(self, words: Codes, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        count, total = words.weight, words @ self.words
        if self.pairs is not None:
            pairs = self._pairs(words, pool, self.pairs.size(-2))
            count, total = count + pairs.weight, total + pairs @ self.pairs
        return self.prediction((pool @ total) / (pool @ count[..., None]).clamp(min=1))

    def _pairs(self, words: Codes, pool: Matrix, size: int) -> Codes:
        """Each word with the next one of its document; none with the last."""
        owner = owners(starts(pool), words.shape[0])
        together = (owner[..., :-1] == owner[..., 1:]).to(words.weight.dtype)
        known = words.weight[..., :-1] * words.weight[..., 1:] * together
        code = (words.code[..., :-1].long() * _MULTIPLIER + words.code[..., 1:]) % size
        pad = nn.functional.pad
        return Codes(pad(code, (0, 1)), pad(known, (0, 1)), size)


_MULTIPLIER = 116049371
"""Of fastText's hash."""


def _drawn(rows: int, width: int) -> nn.Parameter:
    """Vectors as fastText's start."""
    return nn.Parameter(torch.empty(rows, width).uniform_(-1 / width, 1 / width))


class BiLSTM(nn.Module):
    """Two LSTMs, one from the first word to the last and one back; their last states tell the
    class.

    Args:
        in_channels: Real numbers of a word's vector.
        num_classes: Number of classes C.
        length: Words of a document that are read, from its beginning; time grows with it.
        hidden: Real numbers of an LSTM's state.
        dropout: Rate on the words' vectors.
        pooled_dropout: Rate on the documents' vectors.

    Shape:
        - x: the vectors of the words, ``(T, in_channels)``
        - adjacency: not looked at
        - pool: ``(G, T)``, which places each document has
        - output: logits ``(G, C)``
        - of several members each with a leading ``M``, the parameters too
    """

    takes_members = True

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
            raise Mistake(f"Bi-LSTM must read at least one word, got length={length}")
        self.length = length
        self.there = nn.LSTM(in_channels, hidden, batch_first=True)
        self.back = nn.LSTM(in_channels, hidden, batch_first=True)
        self.prediction = RealLinear(2 * hidden, num_classes)
        self.input_dropout = QuaternionDropout(dropout)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Tensor, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        places = column_ids(pool)
        if not x.size(-2):  # no document has a word; a row to look at, which counts for nothing
            x, places = nn.functional.pad(x, (0, 0, 0, 1)), None
        x, begins = self.input_dropout(x, places), starts(pool).long().expand(*x.shape[:-2], -1)
        begin, size = begins[..., :-1, None], begins.diff(dim=-1).clamp(max=self.length)[..., None]
        place, last = torch.arange(self.length, device=x.device), (size - 1).clamp(min=0)
        orders = place.minimum(last), (last - place).clamp(min=0)
        rows = [(begin + order).clamp(max=x.size(-2) - 1) for order in orders]
        both = torch.stack(rows, dim=-3).mT  # (..., 2, length, G)
        read = lookup(x, both.flatten(-3)).unflatten(-2, both.shape[-3:])
        states = self._states(read, last[..., None, :, :])
        read_to_end = torch.cat(states.unbind(-3), dim=-1) * (size > 0)
        return self.prediction(self.dropout(read_to_end, row_ids(pool)))

    def _states(self, read: Tensor, last: Tensor) -> Tensor:
        """What both LSTMs end with, ``(..., 2, length, G, F) -> (..., 2, G, hidden)``."""
        into, across, bias, more = (
            torch.stack(both, dim=read.dim() - 4)
            for both in zip(self.there.parameters(), self.back.parameters(), strict=True)
        )
        said = read.flatten(-3, -2) @ into.mT + (bias + more)[..., None, :]
        gates = said.unflatten(-2, read.shape[-3:-1])
        over = gates.flatten(0, -4).transpose(0, 1).contiguous()
        passed = lstm_states(over, across.flatten(0, -3))
        ends = last.expand(*gates.shape[:-3], -1, -1).flatten(0, -3)
        return passed.take_along_dim(ends[None], dim=0)[0].unflatten(0, gates.shape[:-3])
