"""TextQGNN for text classification (the appendix of the paper), and its real twin TextING."""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks, row_ids
from quatgraph.codes import Codes
from quatgraph.errors import Mistake
from quatgraph.layers import AttentionReadout, GatedGNNConv, GatedQGNNConv, QuaternionDropout
from quatgraph.ops.activation import Activation


class TextQGNN(nn.Module):
    r"""A document as the graph of its words: gated steps over it, then soft attention.

    A word's vector is split into the four components of a quaternion vector, and multiplied by a
    quaternion matrix to the width of the steps, without an activation.

    Args:
        in_channels: Real numbers of a word's vector, a multiple of four.
        num_classes: Number of classes C.
        hidden_quats: Quaternions of a node's vector.
        steps: See :class:`GatedQGNNConv`.
        dropout: Rate on the words' vectors; the paper has none, the released code 0.5.
        pooled_dropout: Rate on the documents' vectors; the paper has none, the released code 0.5.
        activation: g, of the steps and of the readout.
        bias: Whether quaternion products have learned biases; the released code has none.

    Shape:
        - x: the vectors of the nodes' words, ``(N, in_channels)``, see :func:`word_vectors`
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, which nodes each document has
        - output: logits ``(G, C)``
        - of several members each with a leading ``M``, the parameters too
    """

    takes_members = True
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
    ) -> None:
        super().__init__()
        if in_channels % self.gated.components:
            raise Mistake(
                f"a word vector of {in_channels} numbers has no four equal parts: take vectors of "
                f"another size, or pad these with zeros to {-(-in_channels // 4) * 4}"
            )
        hidden = 4 * hidden_quats
        self.input_dropout = QuaternionDropout(dropout)
        self.projection = self.gated.linear(in_channels, hidden, bias=bias)
        self.conv = self.gated(hidden, steps=steps, bias=bias, activation=activation)
        self.readout = AttentionReadout(
            hidden,
            num_classes,
            dropout=pooled_dropout,
            bias=bias,
            activation=activation,
            linear=self.gated.linear,
        )

    def forward(self, x: Tensor, adjacency: Adjacency | Blocks, pool: Adjacency | Blocks) -> Tensor:
        return self.readout(self.encode(x, adjacency), pool)

    def encode(self, x: Tensor, adjacency: Adjacency | Blocks) -> Tensor:
        """The vectors of all nodes after the last step, ``(N, 4 hidden_quats)``."""
        return self.conv(self.projection(self.input_dropout(x, row_ids(adjacency))), adjacency)

    def attention(self, x: Tensor, adjacency: Adjacency | Blocks) -> Tensor:
        """How much each word counts for its document's class, between 0 and 1, ``(N,)``."""
        return self.readout.attention(self.encode(x, adjacency))


class TextING(TextQGNN):
    """`TextING <https://arxiv.org/abs/2004.13826>`_ as the twin of TextQGNN: real matrices of the
    same width, four times the weights, and nothing else. ``in_channels`` may be any number."""

    gated = GatedGNNConv


class TrainedVectors(nn.Module):
    """A model whose words' vectors are learned with it.

    Args:
        vectors: What each word's vector starts as, ``(V, in_channels)``.
        model: Takes the vectors of nodes.

    Shape:
        - words: of N nodes
        - adjacency, pool, output: as those of the model
    """

    takes_members = True

    def __init__(self, vectors: Tensor, model: nn.Module) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.clone())
        self.model = model

    def forward(
        self, words: Codes, adjacency: Adjacency | Blocks, pool: Adjacency | Blocks
    ) -> Tensor:
        return self.model(words @ self.vectors, adjacency, pool)


class FixedVectors(nn.Module):
    """A model whose words' vectors stay as they are; no weights, one table for all members.

    Shape:
        - words: of N nodes
        - adjacency, pool, output: as those of the model
    """

    takes_members = True

    def __init__(self, table: Tensor, model: nn.Module) -> None:
        super().__init__()
        self.table = table  # no buffer: an ensemble would stack it
        self.model = model

    def forward(
        self, words: Codes, adjacency: Adjacency | Blocks, pool: Adjacency | Blocks
    ) -> Tensor:
        return self.model(word_vectors(words, self.table), adjacency, pool)


def word_vectors(words: Codes, vectors: Tensor) -> Tensor:
    """Fixed vectors of the nodes' words, from one table for all members.

    Shape:
        - words: of N nodes, of several members ``(M, N)``
        - vectors: ``(V, D)``
        - output: ``(N, D)``, of several members ``(M, N, D)``
    """
    return F.embedding(words.code, vectors) * words.weight[..., None]
