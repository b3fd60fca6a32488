"""The interface of text classifiers."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.data.text.corpus_graph import CorpusGraph
from quatgraph.models.common import LOGITS, Count, Model, Options, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(Options):
    """The hyperparameters of a text classifier."""

    @property
    def width(self) -> int:
        return LOGITS

    @property
    def vectors_are_learned(self) -> bool:
        """Whether word vectors are parameters."""
        return True

    def padded(self, size: float) -> float:
        """The padded length of a document of ``size`` words."""
        return max(1, size)

    def num_activations(self, size: float) -> int:
        """An upper estimate of the numbers that a training step stores per word, in documents of
        ``size`` words on average."""
        return 8 * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenOptions(TextOptions):
    """The hyperparameters of models with vectors of words."""

    hidden_quats: Count = 16
    """Quaternions per node vector; real models have four times as many reals, the same width."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOptions(HiddenOptions):
    """The hyperparameters of models that take word vectors."""

    dropout: Rate = 0.5
    """Dropout rate on the word vectors."""
    pooled_dropout: Rate = 0.5
    """Dropout rate on the document vectors."""
    learned_vectors: bool = True
    """Whether to learn the word vectors."""

    @property
    def vectors_are_learned(self) -> bool:
        return self.learned_vectors


class TextModel(Model):
    """A text classifier: ``forward(x, adjacency, pool)`` returns logits ``(G, C)``.

    The constructor takes the width of a word vector, or the number of words if the model takes
    words, and the number of classes. Parameters and inputs may have a leading member dimension.
    """

    Options: ClassVar[type[TextOptions]]
    supports_members: ClassVar[bool] = True
    reads_graphs: ClassVar[bool] = False
    """Whether the model reads the word graph of a document; otherwise its words in order."""
    takes_words: ClassVar[bool] = False
    """Whether the model takes words and has its own vectors; otherwise it takes word vectors."""
    attends: ClassVar[bool] = False
    """Whether :meth:`classify` returns the attention of each word."""
    multiplies_nodes: ClassVar[bool] = True
    """Whether the model multiplies every word vector by a matrix, which keeps many threads busy."""

    vectorizes: ClassVar[bool] = False
    """Whether the model is a linear map of what :meth:`vectorize` returns, which ``forward`` takes
    in place of words too."""
    transductive: ClassVar[bool] = False
    """Whether the model learns from the graph of all documents, test documents included. It then
    computes all of them in every pass, so an epoch is one step."""
    graph: CorpusGraph | None = None
    """That graph, in training; all members share it."""

    fitted: ClassVar[tuple[str, ...]] = ()
    """Buffers that :meth:`fit_documents` computes, each a keyword argument of the constructor."""

    @classmethod
    def fit_documents(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> dict[str, Tensor]:
        """The :attr:`fitted` buffers of the training documents, or of all if the model is
        transductive. They need no labels.

        Args:
            tokens: Word of each position, ``(T,)``.
            ptr: Offset of the first word of each document, then the number of words, ``(D + 1,)``.
        """
        return {}

    def vectorize(self, words: Codes, pool: Adjacency) -> Adjacency:
        """The features of documents, if the model does not learn them, ``(G, F)``."""
        raise NotImplementedError

    @classmethod
    def build_graph(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> CorpusGraph | None:
        """The graph of all documents, if the model is transductive; arguments as above."""
        return None

    def classify(
        self, x: Tensor | Codes, adjacency: Adjacency, pool: Adjacency
    ) -> tuple[Tensor, Tensor | None]:
        """The logits ``(G, C)``, and the attention of each word ``(N,)`` if the model attends."""
        return self(x, adjacency, pool), None

    def embed(self, x: Tensor | Codes, adjacency: Adjacency, pool: Adjacency) -> Tensor:
        """The vectors of documents before the prediction layer, ``(G, D)``; the logits of a model
        without such vectors."""
        return self(x, adjacency, pool)
