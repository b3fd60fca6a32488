"""Word vectors for models that do not have their own."""

import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.layers.linear import Matrix


class WithVectors(nn.Module):
    """Looks up word vectors, then applies a model that takes them.

    Args:
        vectors: The vectors of all words, ``(V, in_channels)``.
        model: Takes the vectors of nodes.
        learned: Whether the vectors are parameters. Members share vectors that are not.
    """

    supports_members = True

    def __init__(self, vectors: Tensor, model: nn.Module, *, learned: bool) -> None:
        super().__init__()
        # Fixed vectors are not a buffer: an ensemble would stack them.
        self.vectors = nn.Parameter(vectors.clone()) if learned else vectors
        self.learned = learned
        self.model = model

    def forward(self, words: Codes, adjacency: Matrix, pool: Matrix) -> Tensor:
        x = words @ self.vectors if self.learned else word_vectors(words, self.vectors)
        return self.model(x, adjacency, pool)


def word_vectors(words: Codes, vectors: Tensor) -> Tensor:
    """The vectors of nodes, ``(N, D)`` or with members ``(M, N, D)``, from one table ``(V, D)``."""
    return F.embedding(words.code, vectors) * words.weight[..., None]
