"""The graph of a corpus: words and documents as nodes, as in TextGCN."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.data.text.documents import Documents
from quatgraph.errors import UserError

Counts = Literal["released", "windows"]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class CorpusGraph:
    r"""Words, then documents, as nodes of one graph.

    Two words are connected by their positive pointwise mutual information in sliding windows, a
    document and its words by TF-IDF, and every node with itself by 1:

    .. math::
        a_{v,w} = \log \frac{p(v, w)}{p(v) \, p(w)} \qquad
        a_{d,w} = \mathrm{tf}_{d,w} \log \frac{D}{\mathrm{df}_w} \qquad
        a_{v,v} = 1

    Attributes:
        adjacency: :math:`\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}`, symmetric,
            ``(V + D, V + D)``.
        documents: Its rows of documents, ``(D, V + D)``.
        degree: Row sums of :math:`\mathbf{A}`, ``(V + D,)``.
        idf: :math:`\log (D / \mathrm{df}_w)` of each word, 0 for a word that no document has,
            ``(V,)``.
        num_windows: Number of windows.
        num_word_pairs: Number of connected pairs of different words.
        num_document_words: Number of pairs of a document and one of its words.
    """

    adjacency: Adjacency
    documents: Adjacency
    degree: Tensor
    idf: Tensor
    num_windows: int
    num_word_pairs: int
    num_document_words: int

    def to(self, device: torch.device) -> "CorpusGraph":
        """The graph with its matrices on a device."""
        adjacency, documents = self.adjacency.to(device), self.documents.to(device)
        return replace(self, adjacency=adjacency, documents=documents)

    def __deepcopy__(self, memo: object) -> "CorpusGraph":
        return self  # nothing changes it, so that copies of a model can share it


def corpus_graph(
    tokens: Tensor, ptr: Tensor, num_words: int, window: int = 20, counts: Counts = "released"
) -> CorpusGraph:
    """Builds the graph of all documents.

    Windows slide by one word. A document that is not longer than a window is one window.

    Args:
        tokens: Word of each position, ``(T,)``.
        ptr: Offset of the first word of each document, then the number of words, ``(D + 1,)``.
        num_words: Number of words V.
        window: Number of consecutive words in a window, at least 1.
        counts: How often two words occur together: ``"windows"`` counts the windows that have both.
            ``"released"`` counts every pair of positions of a window, as TextGCN's code does, so
            repeated words weigh more.
    """
    if window < 1:
        raise UserError(f"a window must hold at least 1 word, got {window}")
    positions = _Positions.of(tokens, ptr, window)
    count_pairs = {"released": _count_position_pairs, "windows": _count_windows_of_pairs}
    if counts not in count_pairs:
        raise UserError(f"counts must be 'released' or 'windows', got {counts!r}")
    pair, count = count_pairs[counts](positions, num_words)
    num_windows = int((positions.last_window + 1).sum())
    first, second = np.divmod(pair, num_words)
    occurs = _count_windows_of_words(positions, num_words).astype(np.float64)
    pmi = np.log(count * num_windows / (occurs[first] * occurs[second]))
    first, second, pmi = (values[pmi > 0] for values in (first, second, pmi))

    num_documents = len(ptr) - 1
    key, term_count = np.unique(positions.document * num_words + positions.word, return_counts=True)
    document, word = np.divmod(key, num_words)
    frequency = np.bincount(word, minlength=num_words)
    idf = np.log(np.maximum(num_documents, 1) / np.maximum(frequency, 1)) * (frequency > 0)
    tf_idf, node = term_count * idf[word], document + num_words

    num_nodes = num_words + num_documents
    loop = np.arange(num_nodes)
    row = np.concatenate((first, second, node, word, loop))
    col = np.concatenate((second, first, word, node, loop))
    weight = np.concatenate((pmi, pmi, tf_idf, tf_idf, np.ones(num_nodes)))
    degree = np.bincount(row, weights=weight, minlength=num_nodes)
    # The product of both factors first, so that the matrix is exactly symmetric.
    weight *= (degree[row] * degree[col]) ** -0.5
    order = np.argsort(row * num_nodes + col)
    receiver, sender = (torch.from_numpy(index[order].astype(np.int32)) for index in (row, col))
    values = torch.from_numpy(weight[order]).float()
    of_document = receiver >= num_words
    own = receiver[of_document] - num_words, sender[of_document], values[of_document]
    return CorpusGraph(
        adjacency=Adjacency.from_entries(receiver, sender, values, (num_nodes, num_nodes)),
        documents=Adjacency.from_entries(*own, (num_documents, num_nodes)),
        degree=torch.from_numpy(degree).float(),
        idf=torch.from_numpy(idf).float(),
        num_windows=num_windows,
        num_word_pairs=len(pmi),
        num_document_words=len(key),
    )


def append_nodes(documents: Documents) -> Documents:
    """Appends to each document its own node in the graph of its corpus, as one more word."""
    assert documents.corpus_index is not None
    ptr = documents.ptr + torch.arange(len(documents.ptr))
    is_node = torch.zeros(int(ptr[-1]), dtype=torch.bool)
    is_node[ptr[1:] - 1] = True
    tokens = torch.empty(len(is_node), dtype=torch.int64)
    tokens[is_node] = len(documents.vocabulary) + documents.corpus_index
    tokens[~is_node] = documents.tokens
    nodes = [""] * (1 + int(documents.corpus_index.max()))
    return replace(documents, tokens=tokens, ptr=ptr, vocabulary=documents.vocabulary + nodes)


@dataclass(frozen=True, slots=True, eq=False)
class _Positions:
    """The positions of all documents.

    A position p of a document is in the windows from ``max(0, p - window + 1)`` to
    ``min(p, last_window)``, numbered by their first position.

    Attributes:
        word: Word of each position, ``(T,)``.
        document: Document of each position, ``(T,)``.
        first, last: The first and the last window that has the position, ``(T,)``.
        last_window: The last window of each document, ``(D,)``.
        window: Number of words in a window.
    """

    word: Numbers
    document: Numbers
    first: Numbers
    last: Numbers
    last_window: Numbers
    window: int

    @classmethod
    def of(cls, tokens: Tensor, ptr: Tensor, window: int) -> "_Positions":
        starts, word = ptr.numpy().astype(np.int64), tokens.numpy().astype(np.int64)
        lengths = np.diff(starts)
        document = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(word)) - starts[document]
        last_window = np.maximum(lengths - window, 0)
        return cls(
            word=word,
            document=document,
            first=np.maximum(place - window + 1, 0),
            last=np.minimum(place, last_window[document]),
            last_window=last_window,
            window=window,
        )

    def pairs(self) -> tuple[Numbers, Numbers]:
        """The pairs of positions that share a window and have different words."""
        before, after = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for apart in range(1, min(self.window, len(self.word))):
            same_document = self.document[apart:] == self.document[:-apart]
            together = same_document & (self.word[apart:] != self.word[:-apart])
            place = together.nonzero()[0]
            before.append(place)
            after.append(place + apart)
        return np.concatenate(before), np.concatenate(after)

    def pair_keys(self, before: Numbers, after: Numbers, num_words: int) -> Numbers:
        """The unordered pair of words of each pair of positions, as one number."""
        one, other = self.word[before], self.word[after]
        return np.minimum(one, other) * num_words + np.maximum(one, other)


def _count_windows_of_words(positions: _Positions, num_words: int) -> Numbers:
    """In how many windows each word is, ``(V,)``: those of a position that the word's position
    before it is not in."""
    key = positions.document * num_words + positions.word
    order = np.argsort(key, kind="stable")
    new = _count_new_windows(key[order], positions.first[order], positions.last[order])
    return np.bincount(positions.word[order], new, num_words).astype(np.int64)


def _count_position_pairs(positions: _Positions, num_words: int) -> tuple[Numbers, Numbers]:
    """The pairs of words that share a window, and in how many windows each of their pairs of
    positions is, summed."""
    before, after = positions.pairs()
    shared = positions.last[before] - positions.first[after] + 1
    # Sorting keys together with their counts is several times as fast as sorting an index.
    bits = positions.window.bit_length()
    packed = np.sort(positions.pair_keys(before, after, num_words) << bits | shared)
    return _sum_runs(packed >> bits, packed & ((1 << bits) - 1))


def _count_windows_of_pairs(positions: _Positions, num_words: int) -> tuple[Numbers, Numbers]:
    """The pairs of words that share a window, and how many windows have both.

    A window that has both words has two positions of them with neither word in between. The windows
    of such pairs of positions begin and end in the order of the pairs, so each pair adds those that
    the pair before it does not have.
    """
    before, after = positions.pairs()
    key = positions.document * num_words + positions.word
    order = np.argsort(key, kind="stable")
    repeats = np.diff(key[order]) == 0
    following = np.full(len(key), len(key))
    following[order[:-1][repeats]] = order[1:][repeats]
    preceding = np.full(len(key), -1)
    preceding[order[1:][repeats]] = order[:-1][repeats]
    adjacent = (following[before] > after) & (preceding[after] < before)
    before, after = before[adjacent], after[adjacent]
    pair = positions.pair_keys(before, after, num_words)
    order = np.lexsort((after, pair))
    before, after, pair = before[order], after[order], pair[order]
    document = positions.document[after]
    run = np.cumsum((np.diff(pair, prepend=-1) != 0) | (np.diff(document, prepend=-1) != 0))
    return _sum_runs(pair, _count_new_windows(run, positions.first[after], positions.last[before]))


def _count_new_windows(run: Numbers, first: Numbers, last: Numbers) -> Numbers:
    """How many windows from ``first`` to ``last`` come after the ``last`` before them in a run of
    equal numbers, in which both ascend."""
    repeats = np.diff(run) == 0
    first = first.copy()
    first[1:][repeats] = np.maximum(first[1:][repeats], last[:-1][repeats] + 1)
    return last - first + 1


def _sum_runs(keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct keys out of sorted ones, and the sum of the values of each."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return keys[starts], np.add.reduceat(values, starts) if len(starts) else values[:0]
