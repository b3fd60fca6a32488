"""TF-IDF and a linear map."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.layers.attention_readout import node_ptr
from quatgraph.layers.linear import Matrix
from quatgraph.models.text.base import TextModel, TextOptions
from quatgraph.ops import lookup
from quatgraph.ops.attention_pool import segment_ids
from quatgraph.ops.members import add_bias

MIN_DOCUMENTS = 2
"""Training documents that a bigram must occur in: one that occurs in a single document says nothing
about others, and most bigrams do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TfIdfOptions(TextOptions):
    name: Literal["tfidf"] = "tfidf"
    bigrams: bool = True
    """Whether to count bigrams of words besides words."""


class TfIdf(TextModel):
    r"""A linear map of TF-IDF vectors of words and word bigrams.

    .. math::
        x_{d,t} = (1 + \log \mathrm{tf}_{d,t}) \,\mathrm{idf}_t \qquad
        \mathrm{idf}_t = 1 + \log \frac{1 + D}{1 + \mathrm{df}_t} \qquad
        \hat{\mathbf{y}}_d = \mathbf{W} \frac{\mathbf{x}_d}{\|\mathbf{x}_d\|} + \mathbf{b}

    These are scikit-learn's vectors with ``sublinear_tf=True``. Document frequencies are those of
    all D training documents, including the ones held out for validation, never of test documents.
    A word without a training document is left out, and a bigram with fewer than two.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        idf: Inverse document frequency of each word, then of each bigram, 0 for a word to leave
            out, ``(V + B,)``.
        pairs: The bigrams as ``first * V + second``, ascending, int64 ``(B,)``.

    Shape:
        - words: of T positions
        - adjacency: ignored
        - pool: ``(G, T)``, the positions of each document
        - output: logits ``(G, C)``
        - with several members, all of these, the parameters and the buffers have a leading ``M``
    """

    Options = TfIdfOptions
    takes_words = True
    multiplies_nodes = False
    fitted = ("idf", "pairs")
    idf: Tensor
    pairs: Tensor

    def __init__(self, num_words: int, num_classes: int, *, idf: Tensor, pairs: Tensor) -> None:
        super().__init__()
        self.num_words = num_words
        self.weight = nn.Parameter(torch.zeros(len(idf), num_classes))
        self.bias = nn.Parameter(torch.zeros(num_classes))
        self.register_buffer("idf", idf)
        self.register_buffer("pairs", pairs)

    @classmethod
    def fit_documents(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> dict[str, Tensor]:
        """Counts the documents of each word and bigram."""
        assert isinstance(options, TfIdfOptions)
        document, pairs = segment_ids(ptr, len(tokens)), tokens[:0]
        documents = _count_documents(tokens, document, num_words)
        if options.bigrams:
            within = document[:-1] == document[1:]
            key = (tokens[:-1] * num_words + tokens[1:])[within]
            pairs, place = key.unique(return_inverse=True)
            count = _count_documents(place, document[:-1][within], len(pairs))
            frequent = count >= MIN_DOCUMENTS
            pairs, documents = pairs[frequent], torch.cat((documents, count[frequent]))
        idf = 1 + (len(ptr) / (1 + documents)).log()  # ptr has an entry more than documents
        return {"idf": idf * (documents > 0), "pairs": pairs}

    def forward(self, words: Codes, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        document = segment_ids(node_ptr(pool), words.shape[0])
        total, square = self._weigh(words, document)
        if self.pairs.size(-1):
            more, more_square = self._weigh(self._bigrams(words, document), document)
            total, square = total + more, square + more_square
        norm = (pool @ square[..., None]).sqrt()
        return add_bias((pool @ total) / torch.where(norm > 0, norm, 1), self.bias)

    def _weigh(self, terms: Codes, document: Tensor) -> tuple[Tensor, Tensor]:
        """The share of each position in the product ``W x`` of its document, ``(T, C)``, and in the
        square of the norm of ``x``, ``(T,)``: a term's part is spread over its positions."""
        count = _count_repeats(terms, document).to(terms.weight.dtype)
        value = (1 + count.log()) * lookup(self.idf[..., None], terms.code)[..., 0] * terms.weight
        share = terms.with_weight(value / count)
        return share @ self.weight, value.square() / count

    def _bigrams(self, words: Codes, document: Tensor) -> Codes:
        """The bigram of each word and the next word of its document."""
        code, weight = words.code.long(), words.weight
        key = code[..., :-1] * self.num_words + code[..., 1:]
        place = torch.searchsorted(self.pairs, key).clamp(max=self.pairs.size(-1) - 1)
        known = self.pairs.expand(*key.shape[:-1], -1).gather(-1, place) == key
        known &= document[..., :-1] == document[..., 1:]
        weight = weight[..., :-1] * weight[..., 1:] * known
        pad = nn.functional.pad
        return Codes(pad(place + self.num_words, (0, 1)), pad(weight, (0, 1)), self.idf.size(-1))


def _count_documents(terms: Tensor, document: Tensor, num_terms: int) -> Tensor:
    """In how many documents each term occurs, ``(num_terms,)``."""
    size = len(document) + 1  # more than any document's number
    distinct = (terms * size + document).unique()
    return (distinct // size).bincount(minlength=num_terms)


def _count_repeats(terms: Codes, document: Tensor) -> Tensor:
    """How often the term of each position occurs in its document, ``(..., T)``, at least 1."""
    key = document * terms.num_codes + terms.code
    key = torch.where(terms.weight > 0, key, -1)
    ordered, order = key.sort(dim=-1)
    run = (ordered.diff(dim=-1, prepend=ordered[..., :1]) != 0).cumsum(dim=-1)
    size = torch.zeros_like(run).scatter_add(-1, run, torch.ones_like(run))
    return torch.empty_like(run).scatter(-1, order, size.gather(-1, run))
