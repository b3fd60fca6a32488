"""Wrappers that turn models of word vectors into models of word ids."""

import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes


class TrainedVectors(nn.Module):
    """A model with learned word vectors.

    Args:
        vectors: Initial word vectors, ``(V, in_channels)``.
        model: Takes the vectors of nodes.

    Shape:
        - words: of N nodes
        - adjacency, pool, output: as those of the model
    """

    supports_members = True

    def __init__(self, vectors: Tensor, model: nn.Module) -> None:
        super().__init__()
        self.vectors = nn.Parameter(vectors.clone())
        self.model = model

    def forward(
        self, words: Codes, adjacency: Adjacency | Blocks, pool: Adjacency | Blocks
    ) -> Tensor:
        return self.model(words @ self.vectors, adjacency, pool)


class FixedVectors(nn.Module):
    """A model with fixed word vectors: one table for all members, not a parameter.

    Shape:
        - words: of N nodes
        - adjacency, pool, output: as those of the model
    """

    supports_members = True

    def __init__(self, table: Tensor, model: nn.Module) -> None:
        super().__init__()
        self.table = table  # not a buffer: an ensemble would stack it
        self.model = model

    def forward(
        self, words: Codes, adjacency: Adjacency | Blocks, pool: Adjacency | Blocks
    ) -> Tensor:
        return self.model(word_vectors(words, self.table), adjacency, pool)


def word_vectors(words: Codes, vectors: Tensor) -> Tensor:
    """The word vectors of nodes, from one table for all members.

    Shape:
        - words: of N nodes, of several members ``(M, N)``
        - vectors: ``(V, D)``
        - output: ``(N, D)``, of several members ``(M, N, D)``
    """
    return F.embedding(words.code, vectors) * words.weight[..., None]
