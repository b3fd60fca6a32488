"""The interface of text classifiers."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.models.common import Count, Model, Options, Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(Options):
    """The hyperparameters of every text classifier."""

    hidden_quats: Count = 16
    """Quaternions of a word's vector; real models get the same width, four times as many reals."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def vectors_are_learned(self) -> bool:
        """Whether word vectors are parameters of the model."""
        return True

    def padded(self, size: float) -> float:
        """The padded length of a document of ``size`` words."""
        return max(1, size)

    def num_activations(self, size: float) -> int:
        """An upper estimate of the values that a training step saves per word of documents with a
        mean length of ``size``."""
        return 8 * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOptions(TextOptions):
    """The hyperparameters of models that take word vectors."""

    dropout: Rate = 0.5
    """Rate on the word vectors."""
    pooled_dropout: Rate = 0.5
    """Rate on the document vectors."""
    learned_vectors: bool = True
    """Whether the word vectors are learned."""

    @property
    def vectors_are_learned(self) -> bool:
        return self.learned_vectors


class TextModel(Model):
    """A text classifier: ``forward(x, adjacency, pool)`` gives logits ``(G, C)``.

    Its constructor takes the width of a word vector, or the number of words if the model takes
    word ids, and the number of classes.
    """

    Options: ClassVar[type[TextOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading member dimension."""
    reads_graphs: ClassVar[bool] = False
    """Whether it takes the word graph of a document, or its words in order."""
    takes_words: ClassVar[bool] = False
    """Whether it takes word ids and has its own vectors, or takes word vectors."""
    attends: ClassVar[bool] = False
    """Whether :meth:`classify` returns the attention of each word."""
    multiplies_nodes: ClassVar[bool] = True
    """Whether it multiplies every word vector by a matrix, which keeps several threads busy."""

    def classify(
        self, x: Tensor | Codes, adjacency: Adjacency, pool: Adjacency
    ) -> tuple[Tensor, Tensor | None]:
        """The logits ``(G, C)``, and the attention of each word ``(N,)`` if there is any."""
        return self(x, adjacency, pool), None
