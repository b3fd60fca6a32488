"""TF-IDF and a linear map."""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.layers.attention_readout import node_ptr
from quatgraph.layers.linear import Matrix
from quatgraph.models.text.base import TextModel, TextOptions
from quatgraph.ops import lookup
from quatgraph.ops.members import add_bias
from quatgraph.ops.segments import segment_ids

INTERCEPT = 0.3
"""What the bias is multiplied by. A constant feature of 1 has ten times the curvature of any other
direction, because TF-IDF vectors are nearly orthogonal, and training would take three times the
steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TfIdfOptions(TextOptions):
    name: Literal["tfidf"] = "tfidf"
    bigrams: Annotated[int, "not_negative"] = 50_000
    """Number of word bigrams besides words, those of most training documents; 0 for words only."""


class TfIdf(TextModel):
    r"""A linear map of TF-IDF vectors of words and word bigrams.

    .. math::
        x_{d,t} = (1 + \log \mathrm{tf}_{d,t}) \,\mathrm{idf}_t \qquad
        \mathrm{idf}_t = 1 + \log \frac{1 + D}{1 + \mathrm{df}_t} \qquad
        \hat{\mathbf{y}}_d = \mathbf{W} \frac{\mathbf{x}_d}{\|\mathbf{x}_d\|} + 0.3\,\mathbf{b}

    These are scikit-learn's vectors with ``sublinear_tf=True``. Document frequencies are those of
    all D training documents, including the ones held out for validation, never of test documents.
    Words and bigrams without a training document are left out.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        idf: Inverse document frequency of each word, then of each bigram, 0 for a word to leave
            out, ``(V + B,)``.
        pairs: The bigrams as ``first * V + second``, ascending, int64 ``(B,)``.

    Shape:
        - words: of T positions; or the vectors of documents, see :meth:`vectorize`
        - adjacency: ignored
        - pool: ``(G, T)``, the positions of each document; ignored with vectors
        - output: logits ``(G, C)``
        - with several members, all of these, the parameters and the buffers have a leading ``M``
    """

    Options = TfIdfOptions
    takes_words = True
    multiplies_nodes = False
    vectorizes = True
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
            order = count.argsort(descending=True, stable=True)
            frequent = order[: options.bigrams].sort().values
            pairs, documents = pairs[frequent], torch.cat((documents, count[frequent]))
        idf = 1 + (len(ptr) / (1 + documents)).log()  # ptr has an entry more than documents
        return {"idf": idf * (documents > 0), "pairs": pairs}

    def forward(
        self, words: Codes | Adjacency, adjacency: Matrix | None, pool: Matrix | None
    ) -> Tensor:
        if isinstance(words, Adjacency):
            return add_bias(words @ self.weight, INTERCEPT * self.bias)
        assert pool is not None
        shares, norm = self._weigh(words, pool)
        products = torch.stack([share @ self.weight for share in shares]).sum(dim=0)
        return add_bias((pool @ products) / norm, INTERCEPT * self.bias)

    def vectorize(self, words: Codes, pool: Adjacency) -> Adjacency:
        """The vectors of documents, ``(G, V + B)``; without members."""
        shares, norm = self._weigh(words, pool)
        document = segment_ids(node_ptr(pool), words.shape[0])
        row, col = document.repeat(len(shares)), torch.cat([share.code for share in shares])
        weight = torch.cat([share.weight / norm[document, 0] for share in shares])
        used = weight > 0
        shape = len(norm), len(self.idf)
        return Adjacency.from_entries(row[used], col[used], weight[used], shape, duplicates="merge")

    def _weigh(self, words: Codes, pool: Matrix) -> tuple[list[Codes], Tensor]:
        """The words and the bigrams of each position with their share of their document's vector,
        ``(T,)``, and the norm of the vector, ``(G, 1)``. A term is spread over its positions."""
        document = segment_ids(node_ptr(pool), words.shape[0])
        shares, square = [], words.weight.new_zeros(())
        for terms in [words, *([self._bigrams(words, document)] if self.pairs.size(-1) else [])]:
            count = _count_repeats(terms, document).to(terms.weight.dtype)
            idf = lookup(self.idf[..., None], terms.code)[..., 0]
            value = (1 + count.log()) * idf * terms.weight
            shares.append(terms.with_weight(value / count))
            square = square + value.square() / count
        norm = (pool @ square[..., None]).sqrt()
        return shares, torch.where(norm > 0, norm, 1)

    def _bigrams(self, words: Codes, document: Tensor) -> Codes:
        """The bigram of each word and the next word of its document."""
        code, weight = words.code.long(), words.weight
        key = code[..., :-1] * self.num_words + code[..., 1:]
        place = torch.searchsorted(self.pairs, key).clamp(max=self.pairs.size(-1) - 1)
        known = self.pairs.expand(*key.shape[:-1], -1).gather(-1, place) == key
        known &= document[..., :-1] == document[..., 1:]
        weight = weight[..., :-1] * weight[..., 1:] * known
        last = (0, code.size(-1) - key.size(-1))  # begins no bigram
        pad = nn.functional.pad
        return Codes(pad(place + self.num_words, last), pad(weight, last), self.idf.size(-1))


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
