"""Graph classification from the summed node vectors of all layers."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.linear import Matrix


class LayerwiseReadout(nn.Module):
    r"""Sums each layer's vectors over the nodes of each graph, then applies a linear map (Eq. 13).

    .. math::
        \mathbf{e}_{\mathcal G} = \sum_{v \in \mathcal G}
        \big[\mathbf{h}^{(1)}_v \parallel \dots \parallel \mathbf{h}^{(L)}_v\big], \qquad
        \hat{\mathbf{y}}_{\mathcal G} = \mathbf{W} \mathbf{e}_{\mathcal G} + \mathbf{b}

    A linear map of the concatenation is the sum of one linear map per layer. The released code has
    one map per layer, each with its own bias and initialization.

    Args:
        widths: Width of each layer's vectors.
        num_classes: Number of classes C.
        dropout: Rate on the summed vectors; 0 in the paper, 0.5 in the released code.
        per_layer: Whether to initialize one map per layer, as in the released code.

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
    ) -> None:
        super().__init__()
        self.widths, self.per_layer = list(widths), per_layer
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
        return torch.cat([pool @ layer for layer in layers], dim=-1)

    def forward(self, layers: Sequence[Tensor], pool: Matrix) -> Tensor:
        summed = self.dropout(self.pool(layers, pool))
        return summed @ self.weight.mT + self.bias.sum(dim=-2, keepdim=True)
