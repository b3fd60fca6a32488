"""fastText."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.layers.attention_readout import node_ptr
from quatgraph.layers.linear import Matrix, RealLinear
from quatgraph.models.text.base import HiddenOptions, TextModel
from quatgraph.ops.segments import segment_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class FastTextOptions(HiddenOptions):
    name: Literal["fasttext"] = "fasttext"
    bigrams: Annotated[int, "not_negative"] = 0
    """Number of hash buckets for word bigrams; 0 for words only."""


class FastText(TextModel):
    """`fastText <https://arxiv.org/abs/1607.01759>`_: a linear map of the mean of learned vectors.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        width: Width of a vector.
        bigrams: Number of hash buckets for word bigrams, each with a vector; 0 for words only, as
            in the paper's table.

    Shape:
        - words: of T positions
        - adjacency: ignored
        - pool: ``(G, T)``, the positions of each document
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = FastTextOptions
    takes_words = True
    multiplies_nodes = False

    def __init__(
        self, num_words: int, num_classes: int, *, width: int = 100, bigrams: int = 0
    ) -> None:
        super().__init__()
        self.words = _initial_vectors(num_words, width)
        self.pairs = _initial_vectors(bigrams, width) if bigrams else None
        self.prediction = RealLinear(width, num_classes, bias=False)
        nn.init.zeros_(self.prediction.weight)

    def forward(self, words: Codes, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        return self.prediction(self.embed(words, adjacency, pool))

    def embed(  # type: ignore[override]
        self, words: Codes, adjacency: Matrix | None, pool: Matrix
    ) -> Tensor:
        count, total = words.weight, words @ self.words
        if self.pairs is not None:
            pairs = self._pairs(words, pool, self.pairs.size(-2))
            count, total = count + pairs.weight, total + pairs @ self.pairs
        return (pool @ total) / (pool @ count[..., None]).clamp(min=1)

    def _pairs(self, words: Codes, pool: Matrix, size: int) -> Codes:
        """The bigram of each word and the next word of its document."""
        document = segment_ids(node_ptr(pool), words.shape[0])
        same_document = (document[..., :-1] == document[..., 1:]).to(words.weight.dtype)
        known = words.weight[..., :-1] * words.weight[..., 1:] * same_document
        code = (words.code[..., :-1].long() * _MULTIPLIER + words.code[..., 1:]) % size
        pad = nn.functional.pad
        return Codes(pad(code, (0, 1)), pad(known, (0, 1)), size)


_MULTIPLIER = 116049371
"""The multiplier of fastText's hash."""


def _initial_vectors(rows: int, width: int) -> nn.Parameter:
    """Vectors with fastText's initialization."""
    return nn.Parameter(torch.empty(rows, width).uniform_(-1 / width, 1 / width))
