"""Graph classification with attention over nodes."""

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import row_ids
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.linear import Matrix, QuaternionLinear, RealLinear
from quatgraph.ops import attention_pool
from quatgraph.ops.activation import Activation
from quatgraph.ops.attention_pool import Pooling


class AttentionReadout(nn.Module):
    r"""The readout of the paper's appendix: soft attention over nodes, then sum times maximum.

    .. math::
        \alpha_v = \sigma\big(\mathbf{w}^\top \mathrm{Vec}(\mathbf{h}_v) + b\big), \qquad
        \mathbf{e}_v = \alpha_v \, g(\mathbf{W} \otimes \mathbf{h}_v), \qquad
        \mathbf{e}_{\mathcal G} = \Big(\sum_{v \in \mathcal G} \mathbf{e}_v\Big) \odot
        \max_{v \in \mathcal G} \mathbf{e}_v

    A linear map of :math:`\mathbf{e}_{\mathcal G}` gives the logits. The product is element-wise,
    as in the released code. The authors of TextING add the mean and the maximum.

    Args:
        width: Real width of a node's vector.
        num_classes: Number of classes C.
        dropout: Rate on the graphs' vectors; 0 in the paper, 0.5 in the released code.
        bias: Whether to add a learned vector to :math:`\mathbf{W} \otimes \mathbf{h}`.
        activation: g, applied to each component.
        linear: The class of the layer that holds :math:`\mathbf{W}`.
        pooling: ``"sum-times-max"``, or ``"mean-plus-max"`` as in TextING, which does not grow with
            the number of nodes.

    Shape:
        - h: ``(N, width)``
        - pool: ``(G, N)``, the nodes of each graph; see :func:`node_ptr`
        - output: logits ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    def __init__(
        self,
        width: int,
        num_classes: int,
        *,
        dropout: float = 0.0,
        bias: bool = False,
        activation: Activation = "relu",
        linear: type[nn.Module] = QuaternionLinear,
        pooling: Pooling = "sum-times-max",
    ) -> None:
        super().__init__()
        self.score = RealLinear(width, 1)
        self.linear = linear(width, width, bias=bias)
        self.prediction = RealLinear(width, num_classes)
        self.dropout = QuaternionDropout(dropout)
        self.activation, self.pooling = activation, pooling

    def attention(self, h: Tensor) -> Tensor:
        """The weight of each node, ``(N,)``, between 0 and 1."""
        return torch.sigmoid(self.score(h)).squeeze(-1)

    def pool(self, h: Tensor, pool: Matrix) -> Tensor:
        r"""The vectors :math:`\mathbf{e}_{\mathcal G}` of graphs, ``(G, width)``."""
        x, weight, ptr = self.linear(h), self.attention(h), node_ptr(pool)
        return attention_pool(x, weight, ptr, self.activation, self.pooling)

    def forward(self, h: Tensor, pool: Matrix) -> Tensor:
        return self.prediction(self.dropout(self.pool(h, pool), row_ids(pool)))


def node_ptr(pool: Matrix) -> Tensor:
    """The position of each graph's first node, and the number of nodes, ``(..., G + 1)``; ``pool``
    must sort nodes by graph, with padding last."""
    if isinstance(pool, Adjacency):
        return pool.rowptr
    rowptr, row = pool.whole.rowptr, pool.row.clamp(min=0)
    sizes = torch.where(pool.row >= 0, rowptr[row + 1] - rowptr[row], 0)
    return nn.functional.pad(sizes.cumsum(dim=-1, dtype=sizes.dtype), (1, 0))
