"""TextGCN."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from quatgraph.codes import Codes
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import GlorotLinear, Matrix
from quatgraph.models.common import Count, Rate
from quatgraph.models.text.transductive import CorpusModel, CorpusOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TextGCNOptions(CorpusOptions):
    name: Literal["textgcn"] = "textgcn"
    hidden_quats: Count = 50
    """A quarter of the reals of a node vector: 50 for the 200 of the published model."""
    dropout: Rate = 0.5
    """Dropout rate on the node vectors."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats


class TextGCN(CorpusModel):
    r"""`TextGCN <https://arxiv.org/abs/1809.05679>`_: a GCN on one graph of words and documents.

    .. math:: \hat{\mathbf{Y}} = \mathbf{S}_D \, \mathrm{ReLU}(\mathbf{S} \mathbf{T}) \mathbf{W}

    See :class:`CorpusModel`, also for new documents.

    Args:
        num_words: Number of words V.
        num_classes: Number of classes C.
        hidden: Width of the vectors of nodes.
        dropout: Rate on them.
        edge_weight, degree: See :class:`CorpusModel`.
    """

    Options = TextGCNOptions

    def __init__(
        self,
        num_words: int,
        num_classes: int,
        *,
        edge_weight: Tensor,
        degree: Tensor,
        hidden: int = 200,
        dropout: float = 0.5,
    ) -> None:
        super().__init__(num_words, hidden, edge_weight, degree)
        nn.init.xavier_uniform_(self.nodes)
        self.dropout = QuaternionDropout(dropout)
        self.prediction = GlorotLinear(hidden, num_classes, bias=False)

    def forward(self, words: Codes, adjacency: Matrix | None, pool: Matrix) -> Tensor:
        return self.prediction(self.embed(words, adjacency, pool))

    def activate(self, x: Tensor) -> Tensor:
        return x.relu()

    def drop(self, hidden: Tensor) -> Tensor:
        return self.dropout(hidden)
