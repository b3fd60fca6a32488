"""The methods QGNN is compared with in graph classification.

All are called as :class:`quatgraph.models.graph.GraphQGNN` is; each says how the matrix of its
graphs has to be prepared.
"""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.baselines.layers import (
    Features,
    GraphAttention,
    GraphConv,
    LinearOfSums,
    Matrix,
    NeighbourMean,
    SparseLinear,
    SumPerceptron,
)
from quatgraph.baselines.node import _check_layers, check_heads
from quatgraph.blocks import Blocks, present
from quatgraph.errors import Mistake
from quatgraph.layers import BatchNorm, LayerwiseReadout, QuaternionDropout


class _Layerwise(nn.Module):
    """Layers one after the other; the vectors of all of them, summed over a graph, tell its class.

    Args:
        layer: Makes a layer of the given widths.
        activation: Of every layer.
        hidden: Width of the layers.
        num_layers: Number of layers.
        dropout: Rate on the input of every layer.
        pooled_dropout: Rate on the summed vectors.
        per_layer: See :class:`LayerwiseReadout`.

    Shape:
        - x: ``(N, in_channels)``, dense, sparse or one-hot
        - adjacency: of N nodes, prepared
        - pool: ``(G, N)``, which nodes each graph has
        - output: logits ``(G, C)``
    """

    def __init__(
        self,
        layer: Callable[[int, int], nn.Module],
        activation: Callable[[Tensor], Tensor],
        in_channels: int,
        num_classes: int,
        *,
        hidden: int,
        num_layers: int,
        dropout: float,
        pooled_dropout: float,
        per_layer: bool,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        widths = [hidden] * num_layers
        self.convs = nn.ModuleList(layer(a, b) for a, b in pairwise([in_channels, *widths]))
        self.activation = activation
        self.dropout = QuaternionDropout(dropout)
        self.readout = LayerwiseReadout(
            widths, num_classes, dropout=pooled_dropout, per_layer=per_layer
        )

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        layers: list[Tensor] = []
        for conv in self.convs:
            x = self.activation(conv(self.dropout(x), adjacency))
            layers.append(x)
        return self.readout(layers, pool)


class GraphGCN(_Layerwise):
    """`Graph convolutional network <https://arxiv.org/abs/1609.02907>`_: the real twin of QGNN, on
    the same matrix, with self-loops.

    Args:
        hidden, num_layers, dropout, pooled_dropout, per_layer: As in :class:`GraphQGNN`, with
            ``hidden`` counted in reals.

    Shape:
        - as :class:`GraphQGNN`
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
    ) -> None:
        super().__init__(
            lambda a, b: GraphConv(a, b, bias=False),
            torch.relu,
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
        )


class GraphSAGE(_Layerwise):
    """`GraphSAGE <https://arxiv.org/abs/1706.02216>`_ with the mean of all neighbours; its matrix
    is row-normalised and has no self-loops.

    Args:
        hidden, num_layers, dropout, pooled_dropout, per_layer: As in :class:`GraphGCN`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
    ) -> None:
        super().__init__(
            NeighbourMean,
            torch.relu,
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
        )


class GraphGAT(_Layerwise):
    """`Graph attention network <https://arxiv.org/abs/1710.10903>`_; its matrix has self-loops and
    no normalisation, and is an :class:`Adjacency`: attention needs numbers of the entries, so a
    batch has to be :meth:`Blocks.expanded`.

    Args:
        hidden: Width of the layers, all heads together.
        heads: Attention heads of every layer.
        dropout: Rate on the input of every layer and on the attention coefficients.
        num_layers, pooled_dropout, per_layer: As in :class:`GraphGCN`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        per_layer: bool = False,
    ) -> None:
        check_heads(hidden, heads)
        super().__init__(
            lambda a, b: GraphAttention(a, b // heads, heads=heads, dropout=dropout),
            F.elu,
            in_channels,
            num_classes,
            hidden=hidden,
            num_layers=num_layers,
            dropout=dropout,
            pooled_dropout=pooled_dropout,
            per_layer=per_layer,
        )

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        if isinstance(adjacency, Blocks):
            raise Mistake("GAT needs its batch as a matrix of its own: use adjacency.expanded(...)")
        return super().forward(x, adjacency, pool)


class GraphGIN(nn.Module):
    """`Graph isomorphism network <https://arxiv.org/abs/1810.00826>`_ (GIN-0); its matrix has
    self-loops and no normalisation.

    The sums of every layer's vectors, the input included, each go through a linear map of their
    own, and their results add up.

    Args:
        hidden: Width of the layers.
        num_layers: Layers, each a perceptron of the sums over neighbours.
        pooled_dropout: Rate on the class scores of each layer.

    Shape:
        - as :class:`GraphGCN`
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        widths = [in_channels] + [hidden] * num_layers
        self.convs = nn.ModuleList(SumPerceptron(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.convs)
        self.predictions = nn.ModuleList(LinearOfSums(width, num_classes) for width in widths)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        first, *others = self.predictions
        _, nodes = present(pool, self.dropout.rate)
        scores = self.dropout(first(x, pool))
        for conv, norm, prediction in zip(self.convs, self.norms, others, strict=True):
            x = norm(conv(x, adjacency, nodes), nodes)
            scores = scores + self.dropout(prediction(x, pool))
        return scores


class GraphGFN(nn.Module):
    """`Graph feature network <https://arxiv.org/abs/1905.04579>`_: a set of nodes, whose features
    hold all it knows of the graph, namely degrees and features propagated by the graph.

    Args:
        hidden: Width of the layers.
        num_layers: Layers that see one node each.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as :class:`GraphGCN`; adjacency is not looked at
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 128,
        num_layers: int = 2,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        widths = [in_channels] + [hidden] * num_layers
        self.linears = nn.ModuleList(SparseLinear(a, b) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(BatchNorm(hidden, "relu") for _ in self.linears)
        self.graph_linear = LinearOfSums(hidden, hidden)
        self.graph_norm = BatchNorm(hidden, "relu")
        self.prediction = nn.Linear(hidden, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        graphs, nodes = present(pool, self.dropout.rate)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = norm(linear(x), nodes)
        y = self.graph_norm(self.graph_linear(x, pool), graphs)
        return self.prediction(self.dropout(y))


class StructureFree(nn.Module):
    """`The baselines that see no edges <https://arxiv.org/abs/1912.09893>`_: what the graph adds is
    the distance to this.

    Args:
        vertex: Whether a layer sees each node before the sum, as for social sets; without it the
            features themselves are summed, the fingerprint of a molecule.
        hidden: Width of the layers.
        num_layers: Layers after the sum.
        pooled_dropout: Rate on the graphs' vectors before the last linear map; the method has none.

    Shape:
        - as :class:`GraphGCN`; adjacency is not looked at
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        vertex: bool = False,
        hidden: int = 128,
        num_layers: int = 1,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        self.vertex = SparseLinear(in_channels, hidden) if vertex else None
        self.pooled = LinearOfSums(hidden if vertex else in_channels, hidden)
        self.linears = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(num_layers - 1))
        self.prediction = nn.Linear(hidden, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        if self.vertex is not None:
            x = torch.relu(self.vertex(x))
        y = torch.relu(self.pooled(x, pool))
        for linear in self.linears:
            y = torch.relu(linear(y))
        return self.prediction(self.dropout(y))
