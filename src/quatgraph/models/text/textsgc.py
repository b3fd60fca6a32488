"""TextSGC."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.data.text.corpus_graph import CorpusGraph
from quatgraph.layers.linear import Matrix
from quatgraph.models.text.base import TextOptions
from quatgraph.models.text.transductive import CorpusModel, CorpusOptions

_COLUMNS = 512
"""Columns of the squared matrix that are held at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSGCOptions(CorpusOptions):
    name: Literal["textsgc"] = "textsgc"


class TextSGC(CorpusModel):
    r"""`SGC <https://arxiv.org/abs/1902.07153>`_ for texts: a linear map of rows of
    :math:`\mathbf{S}^2`.

    .. math::
        \hat{\mathbf{Y}} = \mathbf{X} \mathbf{W} \qquad
        x_{d,v} = \frac{(\mathbf{S}^2)_{d,v}}{\max_e (\mathbf{S}^2)_{e,v}}

    over documents d and e and nodes v. The features are dense, so they are never stored: two sparse
    products with the rows of :math:`\mathbf{W}`, each divided by the maximum, give the same.

    See :class:`CorpusModel`, also for new documents.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        edge_weight, degree: See :class:`CorpusModel`.
        scale: The inverse of each maximum, 0 for a maximum of 0, ``(V + D,)``.
    """

    Options = TextSGCOptions
    fitted = (*CorpusModel.fitted, "scale")
    scale: Tensor

    def __init__(
        self,
        num_words: int,
        num_classes: int,
        *,
        edge_weight: Tensor,
        degree: Tensor,
        scale: Tensor,
    ) -> None:
        super().__init__(num_words, num_classes, edge_weight, degree)
        nn.init.zeros_(self.nodes)
        self.register_buffer("scale", scale)

    @classmethod
    def fit_documents(
        cls, options: TextOptions, tokens: Tensor, ptr: Tensor, num_words: int
    ) -> dict[str, Tensor]:
        graph = cls.build_graph(options, tokens, ptr, num_words)
        largest = _largest_features(graph)
        scale = torch.where(largest > 0, 1 / largest, 0)
        return super().fit_documents(options, tokens, ptr, num_words) | {"scale": scale}

    @property
    def table(self) -> Tensor:
        return self.nodes * self.scale[..., None]

    def activate(self, x: Tensor) -> Tensor:
        return x

    def forward(self, words: Codes, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        return self.embed(words, adjacency, pool)


def _largest_features(graph: CorpusGraph) -> Tensor:
    """The largest entry of each column of the documents' rows of the squared matrix."""
    whole, num_nodes = graph.adjacency, graph.adjacency.shape[0]
    found = []
    for begin in range(0, num_nodes, _COLUMNS):
        ptr = whole.rowptr[begin : begin + _COLUMNS + 1].long()
        entries = slice(int(ptr[0]), int(ptr[-1]))
        row = torch.arange(len(ptr) - 1).repeat_interleave(ptr.diff())
        # The matrix is symmetric: its rows are its columns.
        columns = whole.weight.new_zeros(num_nodes, len(ptr) - 1)
        columns[whole.col[entries].long(), row] = whole.weight[entries]
        found.append((graph.documents @ columns).amax(dim=0))
    return torch.cat(found)
