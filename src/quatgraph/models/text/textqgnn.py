"""TextQGNN for text classification (the appendix of the paper)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency
from quatgraph.blocks import row_ids
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import AttentionReadout, GatedQGNNConv, QuaternionDropout
from quatgraph.layers.linear import GlorotLinear, Matrix
from quatgraph.layers.tables import build_dropout
from quatgraph.models.common import Count, Rate
from quatgraph.models.text.base import TextModel, TextOptions, VectorOptions
from quatgraph.ops.activation import Activation
from quatgraph.ops.attention_pool import Pooling

Lift = Literal["split", "learned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedOptions(VectorOptions):
    """The hyperparameters of models with gated steps on word graphs."""

    steps: Count = 2
    """Number of updates of the node vectors."""
    activation: Activation = "relu"
    """The activation g."""
    bias: bool = False
    """Whether to add learned biases."""
    pooling: Pooling = configs.added("sum-times-max")
    """How the words of a text are pooled: their sum times, or their mean plus their maximum."""
    word_dropout: Rate = configs.added(0.0)
    """Dropout rate of whole word vectors."""

    def num_activations(self, size: float) -> int:
        return (24 * self.steps + 8) * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class TextQGNNOptions(GatedOptions):
    name: Literal["textqgnn"] = "textqgnn"
    lift: Lift = configs.added("split")
    """How word vectors become quaternion vectors: by their quarters, or by a learned real map."""


class TextQGNN(TextModel):
    """Reads a document as a graph of words: gated graph layers, then soft attention.

    The four quarters of a word vector are the components of a quaternion vector. A quaternion
    matrix maps it to the width of the layers, without an activation. A learned lift is a real
    matrix instead, which may mix all numbers of a word vector.

    Args:
        in_channels: Width of a word vector, a multiple of four unless the lift is learned.
        num_classes: Number of classes C.
        hidden_quats: Quaternions per node vector.
        steps: Number of updates, see :class:`GatedQGNNConv`.
        dropout: Rate on the word vectors; 0 in the paper, 0.5 in the released code.
        pooled_dropout: Rate on the document vectors; 0 in the paper, 0.5 in the released code.
        activation: g, in the steps and in the readout.
        bias: Whether to add learned biases; the released code has none.
        lift: ``"split"`` takes the quarters of a word vector, ``"learned"`` maps it.
        pooling: See :class:`AttentionReadout`.
        word_dropout: Rate of whole words, whose vectors become zero.

    Shape:
        - x: word vectors of the nodes, ``(N, in_channels)``
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, the nodes of each document
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options: ClassVar[type[TextOptions]] = TextQGNNOptions
    reads_graphs = True
    attends = True
    gated: ClassVar[type[GatedQGNNConv]] = GatedQGNNConv

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden_quats: int = 96,
        steps: int = 2,
        dropout: float = 0.5,
        pooled_dropout: float = 0.5,
        activation: Activation = "relu",
        bias: bool = False,
        lift: Lift = "split",
        pooling: Pooling = "sum-times-max",
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if lift == "split" and in_channels % self.gated.components:
            raise UserError(
                f"a word vector of {in_channels} numbers cannot be split into four equal parts: "
                "learn the lift (model.lift='learned'), use another width, or pad the vectors with "
                f"zeros to {-(-in_channels // 4) * 4}"
            )
        hidden = 4 * hidden_quats
        self.input_dropout = QuaternionDropout(dropout)
        self.word_dropout = build_dropout(word_dropout)
        linear = self.gated.linear if lift == "split" else GlorotLinear
        self.projection = linear(in_channels, hidden, bias=bias)
        self.conv = self.gated(hidden, steps=steps, bias=bias, activation=activation)
        self.readout = AttentionReadout(
            hidden,
            num_classes,
            dropout=pooled_dropout,
            bias=bias,
            activation=activation,
            linear=self.gated.linear,
            pooling=pooling,
        )

    def forward(self, x: Tensor, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.readout(self.encode(x, adjacency), pool)

    def embed(  # type: ignore[override]
        self, x: Tensor, adjacency: Matrix, pool: Matrix
    ) -> Tensor:
        return self.readout.pool(self.encode(x, adjacency), pool)

    def encode(self, x: Tensor, adjacency: Matrix) -> Tensor:
        """The vectors of all nodes after the last step, ``(N, 4 hidden_quats)``."""
        rows = row_ids(adjacency)
        x = self.input_dropout(x, rows)
        if isinstance(self.word_dropout, QuaternionDropout):
            x = x * self.word_dropout(x.new_ones(*x.shape[:-1], 1), rows)
        return self.conv(self.projection(x), adjacency)

    def classify(
        self, x: Tensor | Codes, adjacency: Adjacency, pool: Adjacency
    ) -> tuple[Tensor, Tensor | None]:
        assert isinstance(x, Tensor)
        h = self.encode(x, adjacency)
        return self.readout(h, pool), self.readout.attention(h)

    def attention(self, x: Tensor, adjacency: Matrix) -> Tensor:
        """The attention of each word, ``(N,)``, between 0 and 1."""
        return self.readout.attention(self.encode(x, adjacency))
