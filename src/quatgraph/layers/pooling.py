"""Pools the vectors of a graph's nodes into one vector per graph."""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, padding_masks, spread
from quatgraph.layers.linear import Matrix, RealLinear
from quatgraph.ops.segments import segment_max

Pooling = Literal["sum", "mean", "max", "set"]
"""The sum, the mean or the maximum over the nodes of a graph, or :class:`Set2Set`."""
_STEPS = 3


class GraphPooling(nn.Module):
    """Pools the nodes of each graph.

    Args:
        width: Width of a node's vector.
        kind: The kind of pooling; only ``"set"`` has weights, and it doubles the width.

    Shape:
        - x: ``(N, width)``
        - pool: ``(G, N)``, the nodes of each graph, sorted by graph with padding last
        - output: ``(G, F)``, see :func:`pooled_width`; zero without nodes, except for ``"set"``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(self, width: int, kind: Pooling = "sum") -> None:
        super().__init__()
        self.kind = kind
        self.set2set = Set2Set(width) if kind == "set" else None

    def forward(self, x: Tensor, pool: Matrix) -> Tensor:
        if self.set2set is not None:
            pooled: Tensor = self.set2set(x, pool)
            return pooled
        if self.kind == "max":
            return _segment_max(x, pool)
        return mean_over_nodes(x, pool) if self.kind == "mean" else pool @ x


class Set2Set(nn.Module):
    r"""PyG's ``Set2Set`` (`Order Matters <https://arxiv.org/abs/1511.06391>`_): an LSTM attends
    to the nodes in three steps.

    .. math::
        \mathbf{q}_t = \mathrm{LSTM}([\mathbf{q}_{t-1} \parallel \mathbf{r}_{t-1}]), \qquad
        \mathbf{r}_t = \sum_{v \in \mathcal G} \mathrm{softmax}_v
        (\mathbf{q}_t^\top \mathbf{h}_v) \, \mathbf{h}_v

    Shape:
        - as in :class:`GraphPooling`; output ``(G, 2 * width)``, the last
          :math:`[\mathbf{q} \parallel \mathbf{r}]`
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inputs = RealLinear(2 * width, 4 * width)
        self.states = RealLinear(width, 4 * width)
        bound = 1 / math.sqrt(width)
        for weight in self.parameters():
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor, pool: Matrix) -> Tensor:
        q = cell = x.new_zeros(*x.shape[:-2], pool.shape[0], x.size(-1))
        asked = torch.cat((q, q), dim=-1)
        for _ in range(_STEPS):
            gates = self.inputs(asked) + self.states(q)
            i, f, g, o = gates.chunk(4, dim=-1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            q = torch.sigmoid(o) * torch.tanh(cell)
            asked = torch.cat((q, _attend(q, x, pool)), dim=-1)
        return asked


def pooled_width(width: int, kind: Pooling) -> int:
    """The width of a graph's vector."""
    return 2 * width if kind == "set" else width


def mean_over_nodes(x: Tensor, pool: Matrix) -> Tensor:
    """The mean over the nodes of each graph, ``(N, F) -> (G, F)``; zero without nodes."""
    count = boundaries(pool).diff().clamp(min=1).to(x.dtype)
    return (pool @ x) / count[..., None]


def _attend(query: Tensor, x: Tensor, pool: Matrix) -> Tensor:
    """The mean of each graph's nodes, weighted by the softmax of their products with its query."""
    logits = (spread(pool, query) * x).sum(dim=-1, keepdim=True)  # (N, 1)
    with torch.no_grad():  # against overflow
        shift = spread(pool, _segment_max(logits, pool))
    score = (logits - shift).exp()
    total = (pool @ score).clamp(min=torch.finfo(x.dtype).tiny)
    return (pool @ (score * x)) / total


def _segment_max(x: Tensor, pool: Matrix) -> Tensor:
    _, nodes = padding_masks(pool, x)
    kept = torch.ones_like(x[..., 0]) if nodes is None else nodes
    return segment_max(x, kept, boundaries(pool))
