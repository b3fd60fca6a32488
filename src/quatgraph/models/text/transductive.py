"""What models on the graph of a corpus share."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import torch
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.data.text.corpus_graph import CorpusGraph, Counts, corpus_graph
from quatgraph.layers.linear import Matrix
from quatgraph.models.common import Count
from quatgraph.models.text.base import TextModel, TextOptions
from quatgraph.ops import lookup

cached_graph = lru_cache(maxsize=1)(corpus_graph)
""":func:`corpus_graph`; the configurations of a search share its result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusOptions(TextOptions):
    """The hyperparameters of models on the graph of a corpus."""

    pmi_window: Count = 20
    """Number of consecutive words within which words co-occur."""
    counts: Counts = "released"
    """How co-occurrences are counted: windows that have both words, or as TextGCN's released code
    counts, every pair of positions in a window."""

    def num_activations(self, size: float) -> int:
        return 8 * self.width  # of each node of the graph


class CorpusModel(TextModel):
    r"""Two propagations on the graph of a corpus, see
    :func:`quatgraph.data.text.corpus_graph`.

    .. math::
        \mathbf{H} = g(\mathbf{S} \mathbf{T}) \qquad \mathbf{Z} = \mathbf{S}_D \mathbf{H}

    with the normalised adjacency matrix :math:`\mathbf{S}`, its rows of documents
    :math:`\mathbf{S}_D` and a table :math:`\mathbf{T}` of a learned vector for each node, as
    features are the identity. The model is transductive: the graph has training, validation and
    test documents.

    In training, :attr:`graph` is set and an input word is the node of a document. A trained model
    has no graph. It takes documents as words and, for documents of the corpus, their node. The row
    of :math:`\mathbf{S}` of a document has only its words and itself, so that it follows from the
    degrees of words. :math:`\mathbf{H}` of words is a buffer, which each evaluation updates. For a
    document of the corpus this gives what the graph gives. A new document is folded in: its own
    vector in :math:`\mathbf{T}` is zero, and words do not receive anything from it.

    Args:
        num_words: Number of words V.
        width: Width of the vectors.
        edge_weight: Weight of an edge from a document to each word, per occurrence (its IDF), and
            to itself (1), ``(V + D,)``.
        degree: Degree of each node, ``(V + D,)``.

    Shape:
        - words: of T positions
        - adjacency: ignored
        - pool: ``(G, T)``, the positions of each document
        - output: logits ``(G, C)``
        - with several members, all of these, the parameters and the buffers have a leading ``M``
    """

    takes_words = True
    transductive = True
    fitted: ClassVar[tuple[str, ...]] = ("edge_weight", "degree")
    edge_weight: Tensor
    degree: Tensor
    words: Tensor
    """:math:`\\mathbf{H}` of words, ``(V, width)``."""

    def __init__(self, num_words: int, width: int, edge_weight: Tensor, degree: Tensor) -> None:
        super().__init__()
        self.num_words = num_words
        self.nodes = nn.Parameter(torch.empty(len(degree), width))
        self.register_buffer("edge_weight", edge_weight)
        self.register_buffer("degree", degree)
        self.register_buffer("words", torch.zeros(num_words, width))

    @classmethod
    def build_graph(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> CorpusGraph:
        assert isinstance(options, CorpusOptions)
        return cached_graph(tokens, ptr, num_words, options.pmi_window, options.counts)

    @classmethod
    def fit_documents(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> dict[str, Tensor]:
        graph = cls.build_graph(options, tokens, ptr, num_words)
        loops = graph.idf.new_ones(len(ptr) - 1)
        return {"edge_weight": torch.cat((graph.idf, loops)), "degree": graph.degree}

    @property
    def table(self) -> Tensor:
        """The vector of each node before the first propagation, ``(V + D, width)``."""
        return self.nodes

    def activate(self, x: Tensor) -> Tensor:
        """Applies g."""
        raise NotImplementedError

    def drop(self, hidden: Tensor) -> Tensor:
        """Applies dropout to the vectors of nodes."""
        return hidden

    def embed(  # type: ignore[override]
        self, words: Codes, adjacency: Matrix | None, pool: Matrix
    ) -> Tensor:
        if self.graph is None:
            return self._fold(words, pool)
        hidden = self.activate(self.graph.adjacency @ self.table)
        if not self.training:
            self.words.copy_(hidden[..., : self.num_words, :].detach())
        documents = self.graph.documents @ self.drop(hidden)
        return pool @ lookup(documents, (words.code - self.num_words).clamp(min=0))

    def _fold(self, words: Codes, pool: Matrix) -> Tensor:
        """The vectors of documents from their words and perhaps their own node."""
        is_word = words.code < self.num_words
        edge = lookup(self.edge_weight[..., None], words.code) * words.weight[..., None]
        scaled = edge * lookup(self.degree[..., None], words.code).rsqrt()
        # The self-loop adds 1 to the degree, whether or not the document has a node.
        degree = 1 + pool @ (edge * is_word[..., None])
        hidden = pool @ (scaled * lookup(self.table, words.code))
        own = self.activate(hidden * degree.rsqrt()) / degree
        code = words.code.clamp(max=self.num_words - 1)
        received = pool @ (scaled * is_word[..., None] * lookup(self.words, code))
        return received * degree.rsqrt() + own
