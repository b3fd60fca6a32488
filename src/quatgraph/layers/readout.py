"""Graph classification from the pooled node vectors of all layers."""

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.jumping import Jump, LayerAttention
from quatgraph.layers.linear import Features, Matrix, QuaternionLinear, RealLinear
from quatgraph.layers.pooling import GraphPooling, Pooling, pooled_width

Head = Literal["linear", "perceptron"]
"""What maps a graph's vector to logits: a linear map, or :class:`ReadoutPerceptron` before it."""


class ReadoutPerceptron(nn.Module):
    r"""Two hidden layers on a graph's vector and on the sum of its nodes' features:

    .. math::
        \mathbf{z}_{\mathcal G} = g\Big(\mathbf{W}_2 \otimes g\Big(\mathbf{W}_1 \otimes
        \mathbf{e}_{\mathcal G} + \sum_{v \in \mathcal G} \mathbf{W}_0 \otimes \mathbf{x}_v +
        \mathbf{b}_1\Big) + \mathbf{b}_2\Big)

    So the model can count the labels of nodes, which convolutions blur. g is ReLU.

    Args:
        in_channels: Number of features of a node.
        width: Real width of :math:`\mathbf{e}_{\mathcal G}`.
        hidden: Real width of the hidden layers.
        linear: The class of the maps; real features stand for four equal components of a
            quaternion.

    Shape:
        - pooled: ``(G, width)``
        - x: ``(N, in_channels)``, dense, sparse or one-hot, or four copies for quaternions
        - pool: ``(G, N)``, the nodes of each graph
        - output: ``(G, hidden)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(
        self,
        in_channels: int,
        width: int,
        hidden: int,
        linear: type[RealLinear] | type[QuaternionLinear] = QuaternionLinear,
    ) -> None:
        super().__init__()
        tiled = {"tiled": True} if issubclass(linear, QuaternionLinear) else {}
        self.features = linear(in_channels, hidden, bias=False, **tiled)
        self.pooled = linear(width, hidden, bias=True)
        self.hidden = linear(hidden, hidden, bias=True)

    def forward(self, pooled: Tensor, x: Features, pool: Matrix) -> Tensor:
        first = torch.relu(self.pooled(pooled) + pool @ self.features(x))
        return torch.relu(self.hidden(first))


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
        head: Whether :class:`ReadoutPerceptron` precedes the linear map, for ``in_channels``
            features and as wide as the last layer, with maps of the class ``linear``.

    Shape:
        - layers: the vectors of each layer, ``(N, width)``
        - pool: ``(G, N)``, the nodes of each graph
        - x: ``(N, in_channels)``, the features of the nodes, for a perceptron
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
        head: Head = "linear",
        in_channels: int = 0,
        linear: type[RealLinear] | type[QuaternionLinear] = QuaternionLinear,
    ) -> None:
        super().__init__()
        self.attention = LayerAttention(widths[0], len(widths)) if jump == "attention" else None
        read = widths[:1] if jump == "attention" else widths
        self.poolings = nn.ModuleList(GraphPooling(width, pooling) for width in read)
        self.widths = [pooled_width(width, pooling) for width in read]
        self.per_layer = per_layer and head == "linear"
        self.perceptron: ReadoutPerceptron | None = None
        if head == "perceptron":
            self.perceptron = ReadoutPerceptron(in_channels, sum(self.widths), widths[-1], linear)
            self.widths = [widths[-1]]
        self.weight = nn.Parameter(torch.empty(num_classes, sum(self.widths)))
        parts = len(self.widths) if self.per_layer else 1
        self.bias = nn.Parameter(torch.empty(parts, num_classes))
        self.dropout = QuaternionDropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes like :class:`torch.nn.Linear`: uniform within ``1 / sqrt(width)``."""
        fans = self.widths if self.per_layer else [sum(self.widths)]
        for part, bias, fan in zip(self.weight.split(fans, dim=1), self.bias, fans, strict=True):
            bound = 1 / math.sqrt(fan)
            nn.init.uniform_(part, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def embed(self, layers: Sequence[Tensor], pool: Matrix, x: Features | None = None) -> Tensor:
        r"""The vectors of graphs that the linear map takes: :math:`\mathbf{e}_{\mathcal G}`,
        ``(G, sum of widths)``, or what the perceptron makes of them."""
        if self.attention is not None:
            layers = [self.attention(layers)]
        pairs = zip(self.poolings, layers, strict=True)
        pooled = torch.cat([one(layer, pool) for one, layer in pairs], dim=-1)
        if self.perceptron is None:
            return pooled
        hidden: Tensor = self.perceptron(pooled, x, pool)
        return hidden

    def forward(self, layers: Sequence[Tensor], pool: Matrix, x: Features | None = None) -> Tensor:
        pooled = self.dropout(self.embed(layers, pool, x))
        return pooled @ self.weight.mT + self.bias.sum(dim=-2, keepdim=True)
