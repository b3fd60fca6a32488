"""The gated graph network of Li et al."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from quatgraph.blocks import row_ids
from quatgraph.layers import GatedGNNConv, QuaternionDropout
from quatgraph.layers.linear import GlorotLinear, Matrix, RealLinear
from quatgraph.models.common import Count
from quatgraph.models.text.base import TextModel, VectorOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedGNNOptions(VectorOptions):
    name: Literal["gated-gnn"] = "gated-gnn"
    steps: Count = 5
    """Number of updates of the node vectors."""

    def num_activations(self, size: float) -> int:
        return (24 * self.steps + 16) * self.width


class GatedGNN(TextModel):
    r"""The `gated graph network <https://arxiv.org/abs/1511.05493>`_ with its own readout.

    .. math::
        \mathbf{e}_{\mathcal G} = \tanh \sum_{v \in \mathcal G}
        \sigma\big(\mathbf{W}_i [\mathbf{h}_v \parallel \mathbf{x}_v] + \mathbf{b}_i\big) \odot
        \tanh\big(\mathbf{W}_j [\mathbf{h}_v \parallel \mathbf{x}_v] + \mathbf{b}_j\big)

    with a node's vector :math:`\mathbf{x}_v` before and :math:`\mathbf{h}_v` after the steps of
    :class:`quatgraph.layers.GatedGNNConv`, which have biases and :math:`\tanh`. A linear map of
    :math:`\mathbf{e}_{\mathcal G}` gives the logits. A linear map brings word vectors to the width
    of the steps; the released code pads them with zeros.

    TextING differs in its readout, and has ReLU and no biases.

    Args:
        in_channels: Width of a word vector.
        num_classes: Number of classes C.
        hidden: Width of the node vectors.
        steps: Number of updates.
        dropout: Rate on the word vectors.
        pooled_dropout: Rate on the document vectors.

    Shape:
        - x: word vectors of the nodes, ``(N, in_channels)``
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, the nodes of each document
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GatedGNNOptions
    reads_graphs = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 384,
        steps: int = 5,
        dropout: float = 0.5,
        pooled_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.input_dropout = QuaternionDropout(dropout)
        self.projection = GlorotLinear(in_channels, hidden, bias=False)
        self.conv = GatedGNNConv(hidden, steps=steps, bias=True, activation="tanh")
        self.gate = GlorotLinear(2 * hidden, hidden)
        self.value = GlorotLinear(2 * hidden, hidden)
        self.dropout = QuaternionDropout(pooled_dropout)
        self.prediction = RealLinear(hidden, num_classes)

    def forward(self, x: Tensor, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.embed(x, adjacency, pool), row_ids(pool)))

    def embed(  # type: ignore[override]
        self, x: Tensor, adjacency: Matrix, pool: Matrix
    ) -> Tensor:
        x = self.projection(self.input_dropout(x, row_ids(adjacency)))
        both = torch.cat((self.conv(x, adjacency), x), dim=-1)
        return torch.tanh(pool @ (torch.sigmoid(self.gate(both)) * torch.tanh(self.value(both))))
