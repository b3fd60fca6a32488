"""Differentiable pooling."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, max_row, padding_masks
from quatgraph.layers import BatchNorm, QuaternionDropout
from quatgraph.layers.linear import Features, Matrix, RealLinear
from quatgraph.models.common import Count, layer_sizes
from quatgraph.models.graph.base import GraphModel, GraphNormalization, LayeredOptions
from quatgraph.ops.dense_batch import to_dense_batch
from quatgraph.ops.segments import segment_max

_DENSE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDiffPoolOptions(LayeredOptions):
    name: Literal["diffpool"] = "diffpool"
    num_clusters: Count = 16
    """Clusters that the nodes of a graph are softly assigned to."""
    penalty: Annotated[float, "not_negative"] = 1.0
    """Weight of the two auxiliary losses: neighbours share clusters, and nodes have one each."""

    @property
    def matrix(self) -> GraphNormalization:
        return "adjacency"

    def num_activations(self, nodes: int, entries: int) -> int:
        layers = 2 * LayeredOptions.num_activations(self, nodes, entries)
        return layers + 16 * nodes * self.num_clusters

    def num_held(self, nodes: int) -> int:
        return 2 * LayeredOptions.num_held(self, nodes) + 4 * nodes * self.num_clusters


class SAGEStack(nn.Module):
    r"""Layers of PyG's ``DenseSAGEConv``, :math:`\mathbf{X U}^\top + \mathbf{b} +
    \mathbf{D}^{-1} \mathbf{A X W}^\top`, with ReLU and batch normalization between them. The
    outputs of all layers are concatenated.

    Args:
        widths: Input and output width of each layer.

    Shape:
        - x: ``(N, F)``
        - mean: computes :math:`\mathbf{D}^{-1} \mathbf{A X}`
        - mask: 0 for padding, else 1, ``(N,)``; None without padding
        - output: ``(N, sum of output widths)``
    """

    def __init__(self, widths: list[tuple[int, int]]) -> None:
        super().__init__()
        self.own = nn.ModuleList(RealLinear(a, b) for a, b in widths)
        self.neighbours = nn.ModuleList(RealLinear(a, b, bias=False) for a, b in widths)
        self.norms = nn.ModuleList(BatchNorm(b) for _, b in widths[:-1])

    def forward(self, x: Features, mean: Callable[[Tensor], Tensor], mask: Tensor | None) -> Tensor:
        layers: list[Tensor] = []
        for depth, (own, neighbours) in enumerate(zip(self.own, self.neighbours, strict=True)):
            y = own(x) + mean(neighbours(x))
            if depth < len(self.norms):
                y = self.norms[depth](torch.relu(y), mask)
            layers.append(y)
            x = y
        return torch.cat(layers, dim=-1)


class GraphDiffPool(GraphModel):
    r"""`Differentiable pooling <https://arxiv.org/abs/1806.08804>`_ with one pooling, PyG's
    ``dense_diff_pool``, on a graph without self-loops added and no normalization.

    .. math::
        \mathbf{S} = \mathrm{softmax}(\mathrm{GNN}_1(\mathbf{A}, \mathbf{X})), \qquad
        \mathbf{Z} = \mathrm{GNN}_2(\mathbf{A}, \mathbf{X}), \qquad
        \mathbf{X}' = \mathbf{S}^\top \mathbf{Z}, \qquad
        \mathbf{A}' = \mathbf{S}^\top \mathbf{A S}

    A third GNN maps :math:`\mathbf{A}'` and :math:`\mathbf{X}'`. The maxima over the nodes and over
    the clusters of a graph go through a perceptron. In training mode, the model also returns the
    penalty of a batch: with N nodes and P pairs of nodes in the same graph,

    .. math::
        \frac{1}{P} \lVert \mathbf{A} - \mathbf{S S}^\top \rVert_F
        - \frac{1}{N} \sum_{v,c} s_{v,c} \log s_{v,c}, \qquad
        \lVert \mathbf{A} - \mathbf{S S}^\top \rVert_F^2 = \lVert \mathbf{A} \rVert_F^2
        - 2 \, \mathrm{tr} \, \mathbf{A}' + \lVert \mathbf{S}^\top \mathbf{S} \rVert_F^2

    for unweighted graphs, so no matrix has an entry per pair of nodes.

    Args:
        hidden: Width of the layers.
        num_layers: Layers of each GNN.
        num_clusters: Clusters of a graph.
        penalty: Weight of the penalty.
        pooled_dropout: Rate on the graphs' vectors before the last linear map.

    Shape:
        - as in :class:`LayerwiseModel`
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphDiffPoolOptions
    supports_members = True
    needs_max_row = True
    has_penalty = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 64,
        num_layers: int = 3,
        num_clusters: int = 16,
        penalty: float = 1.0,
        pooled_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.num_clusters, self.penalty = num_clusters, penalty
        sizes, width = layer_sizes(in_channels, hidden, num_layers), num_layers * hidden
        self.embedding = SAGEStack(sizes)
        self.assignment = SAGEStack([*sizes[:-1], (sizes[-1][0], num_clusters)])
        self.assign = RealLinear(width - hidden + num_clusters, num_clusters)
        self.clusters = SAGEStack(layer_sizes(width, hidden, num_layers))
        self.dense = RealLinear(2 * width, _DENSE)
        self.prediction = RealLinear(_DENSE, num_classes)
        self.dropout = QuaternionDropout(pooled_dropout)

    def forward(
        self, x: Features, adjacency: Matrix, pool: Matrix
    ) -> Tensor | tuple[Tensor, Tensor]:
        vectors, penalty = self._embed(x, adjacency, pool)
        logits: Tensor = self.prediction(self.dropout(vectors))
        return (logits, self.penalty * penalty) if self.training else logits

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self._embed(x, adjacency, pool)[0]

    def _embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> tuple[Tensor, Tensor]:
        """The vectors of graphs and the penalty of the batch."""
        like = self.dense.weight[..., 0]
        graphs, nodes = padding_masks(pool, like)
        kept = like.new_ones(pool.shape[1]) if nodes is None else nodes.to(like.dtype)
        degree = adjacency @ kept[..., None]
        divisor = degree.clamp(min=1)

        def mean(y: Tensor) -> Tensor:
            return adjacency @ y / divisor

        z = self.embedding(x, mean, nodes)
        s = torch.softmax(self.assign(self.assignment(x, mean, nodes)), dim=-1) * kept[..., None]
        ptr = boundaries(pool)
        joined = torch.cat((s, z, adjacency @ s), dim=-1)
        dense = to_dense_batch(joined, ptr, max_row(pool))  # (G, n, ...)
        products = dense[..., : self.num_clusters].mT @ dense
        widths = [self.num_clusters, z.size(-1), self.num_clusters]
        gram, vectors, links = products.split(widths, dim=-1)
        clusters = self._map_clusters(vectors, links, graphs)
        pooled = torch.cat((segment_max(z, kept, ptr), clusters.amax(dim=-2)), dim=-1)
        edges = degree.sum(dim=(-2, -1))
        penalty = _link_loss(edges, ptr, gram, links) + _entropy(s, kept)
        return torch.relu(self.dense(pooled)), penalty

    def _map_clusters(self, x: Tensor, links: Tensor, graphs: Tensor | None) -> Tensor:
        """The vectors of clusters, ``(G, K, F)``.

        Shape:
            - x: ``(G, K, F)``
            - links: ``(G, K, K)``
            - graphs: 0 for padding, else 1, ``(G,)``; None without padding
        """
        each = x.shape[-3:-1]
        degree = links.sum(dim=-1, keepdim=True).clamp(min=1)

        def mean(y: Tensor) -> Tensor:
            return (links @ y.unflatten(-2, each) / degree).flatten(-3, -2)

        mask = None if graphs is None else graphs.repeat_interleave(each[1], dim=-1)
        y: Tensor = self.clusters(x.flatten(-3, -2), mean, mask)
        return y.unflatten(-2, each)


def _link_loss(edges: Tensor, ptr: Tensor, gram: Tensor, links: Tensor) -> Tensor:
    r"""How far common clusters are from links, for each member.

    Shape:
        - edges: the number of edges, ``()``
        - ptr: the boundaries of the graphs' nodes, ``(G + 1,)``
        - gram, links: :math:`\mathbf{S}^\top \mathbf{S}` and :math:`\mathbf{A}'`, ``(G, K, K)``
    """
    common = links.diagonal(dim1=-2, dim2=-1).sum(dim=(-2, -1))
    squares = edges - 2 * common + gram.square().sum(dim=(-3, -2, -1))
    pairs = ptr.diff().to(gram.dtype).square().sum(dim=-1).clamp(min=1)
    return squares.clamp(min=1e-12).sqrt() / pairs


def _entropy(s: Tensor, nodes: Tensor) -> Tensor:
    """The mean entropy of the nodes' clusters ``(N, K)``, for each member."""
    total = -(s * (s + 1e-15).log()).sum(dim=(-2, -1))
    return total / nodes.sum(dim=-1).clamp(min=1)
