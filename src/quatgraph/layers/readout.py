"""Graph classification from the pooled node vectors of all layers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.jumping import Jump, LayerAttention
from quatgraph.layers.linear import Matrix
from quatgraph.layers.pooling import GraphPooling, Pooling, pooled_width


class LayerwiseReadout(nn.Module):
    r"""Pools each layer's vectors over the nodes of each graph, then applies a linear map (Eq. 13).

    .. math::
        \mathbf{e}_{\mathcal G} = \sum_{v \in \mathcal G}
        \big[\mathbf{h}^{(1)}_v \parallel \dots \parallel \mathbf{h}^{(L)}_v\big], \qquad
        \hat{\mathbf{y}}_{\mathcal G} = \mathbf{W} \mathbf{e}_{\mathcal G} + \mathbf{b}

    A linear map of the concatenation is the sum of one linear map per layer. The released code has
    one map per layer, each with its own bias and initialization.

    Args:
        widths: Width of each layer's vectors.
        num_classes: Number of classes C.
        dropout: Rate on the pooled vectors; 0 in the paper, 0.5 in the released code.
        per_layer: Whether to initialize one map per layer, as in the released code.
        pooling: How the nodes of a graph are pooled.
        jump: Whether the layers are pooled one by one, or as :class:`LayerAttention` weighs them;
            then all of them have one width.

    Shape:
        - layers: the vectors of each layer, ``(N, width)``
        - pool: ``(G, N)``, the nodes of each graph
        - output: logits ``(G, C)``
    """

    def __init__(
        self,
        widths: Sequence[int],
        num_classes: int,
        *,
        dropout: float = 0.0,
        per_layer: bool = False,
        pooling: Pooling = "sum",
        jump: Jump = "concat",
    ) -> None:
        super().__init__()
        self.attention = LayerAttention(widths[0], len(widths)) if jump == "attention" else None
        read = widths[:1] if jump == "attention" else widths
        self.poolings = nn.ModuleList(GraphPooling(width, pooling) for width in read)
        self.widths = [pooled_width(width, pooling) for width in read]
        self.per_layer = per_layer
        self.weight = nn.Parameter(torch.empty(num_classes, sum(self.widths)))
        self.bias = nn.Parameter(torch.empty(len(self.widths) if per_layer else 1, num_classes))
        self.dropout = QuaternionDropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes like :class:`torch.nn.Linear`: uniform within ``1 / sqrt(width)``."""
        fans = self.widths if self.per_layer else [sum(self.widths)]
        for part, bias, fan in zip(self.weight.split(fans, dim=1), self.bias, fans, strict=True):
            bound = 1 / math.sqrt(fan)
            nn.init.uniform_(part, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def pool(self, layers: Sequence[Tensor], pool: Matrix) -> Tensor:
        r"""The vectors :math:`\mathbf{e}_{\mathcal G}` of graphs, ``(G, sum of widths)``."""
        if self.attention is not None:
            layers = [self.attention(layers)]
        pairs = zip(self.poolings, layers, strict=True)
        return torch.cat([one(layer, pool) for one, layer in pairs], dim=-1)

    def forward(self, layers: Sequence[Tensor], pool: Matrix) -> Tensor:
        pooled = self.dropout(self.pool(layers, pool))
        return pooled @ self.weight.mT + self.bias.sum(dim=-2, keepdim=True)
