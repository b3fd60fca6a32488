"""Models that take words, made of models that take their vectors."""

import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.codes import Codes


class TrainedVectors(nn.Module):
    """A model whose words' vectors are learned with it.

    Args:
        vectors: What each word's vector starts as, ``(V, in_channels)``.
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
    """A model whose words' vectors stay as they are; no weights, one table for all members.

    Shape:
        - words: of N nodes
        - adjacency, pool, output: as those of the model
    """

    supports_members = True

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
