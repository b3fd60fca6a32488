"""What training and predicting know of a text classifier."""

from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.codes import Codes
from quatgraph.models.common import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(Options):
    """What every text classifier reads."""

    hidden_quats: int = 16
    """Quaternions of a word's vector; real models get the same width, four times as many reals."""

    def __post_init__(self) -> None:
        configs.check(self, "model", counts=("hidden_quats",))

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def vectors_are_learned(self) -> bool:
        """Whether the words' vectors are weights of the model."""
        return True

    def padded(self, size: float) -> float:
        """Words that a document of so many takes."""
        return max(1, size)

    def num_activations(self, size: float) -> int:
        """Numbers that a training step holds for each word of documents of a mean ``size``."""
        return 8 * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorOptions(TextOptions):
    """What the models read that take words as vectors."""

    dropout: float = 0.5
    """Rate on the words' vectors."""
    pooled_dropout: float = 0.5
    """Rate on the documents' vectors."""
    learned_vectors: bool = True
    """Whether the words' vectors are learned too."""

    def __post_init__(self) -> None:
        TextOptions.__post_init__(self)
        configs.check(self, "model", rates=("dropout", "pooled_dropout"))

    @property
    def vectors_are_learned(self) -> bool:
        return self.learned_vectors


class TextModel(nn.Module):
    """A text classifier: ``forward(x, adjacency, pool)`` gives logits ``(G, C)``."""

    Options: ClassVar[type[TextOptions]]
    supports_members: ClassVar[bool] = False
    """Whether parameters and inputs may have a leading dimension of members."""
    reads_graphs: ClassVar[bool] = False
    """Whether it takes the graphs of the documents, or their words in order."""
    takes_words: ClassVar[bool] = False
    """Whether it takes words themselves and has vectors of its own, or takes their vectors."""
    attends: ClassVar[bool] = False
    """Whether :meth:`classify` tells how much each word counts."""
    multiplies_nodes: ClassVar[bool] = True
    """Whether it multiplies every word by a matrix, which keeps several threads busy."""

    @classmethod
    def from_options(cls, options: TextOptions, in_channels: int, num_classes: int) -> Self:
        """Builds the model of a configuration; ``in_channels`` is the size of a word's vector, or
        the number of words where it takes these."""
        return cls(in_channels, num_classes, **options.arguments())

    def classify(
        self, x: Tensor | Codes, adjacency: Adjacency, pool: Adjacency
    ) -> tuple[Tensor, Tensor | None]:
        """The logits ``(G, C)``, and how much each word counts, ``(N,)``, if the model attends."""
        return self(x, adjacency, pool), None
