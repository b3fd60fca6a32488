"""Graph attention in quaternion space."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.algebra import inner_product
from quatgraph.errors import UserError
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.edges import order_edge_features, prepare_edges
from quatgraph.layers.explain import Explainable
from quatgraph.layers.linear import Edges, Features, QuaternionLinear
from quatgraph.layers.neighbours import attend
from quatgraph.ops.members import add_bias


class QGATConv(Explainable):
    r"""PyG's ``GATConv`` (`Graph Attention Networks <https://arxiv.org/abs/1710.10903>`_) with
    quaternion weights.

    .. math::
        \mathbf{h}'_v = \sum_{u \in \mathcal{N}_v \cup \{v\}}
        \alpha_{v,u} \, \mathbf{W} \otimes \mathbf{h}_u
        \qquad
        \alpha_{v,u} = \mathrm{softmax}_u \, \mathrm{LeakyReLU} \big(
        \mathbf{a} \bullet (\mathbf{W} \otimes \mathbf{h}_u)
        + \mathbf{b} \bullet (\mathbf{W} \otimes \mathbf{h}_v)
        + \mathbf{c} \bullet (\mathbf{V} \otimes \mathbf{e}_{v,u}) \big)

    A softmax needs real numbers. Each head has quaternion vectors a, b and c, and takes the
    quaternion-inner product :math:`\bullet` (Eq. 3 of the paper) with them. This is well-defined:
    each real-valued linear functional of quaternion vectors is the inner product with exactly one
    vector. It is not invariant when all features are multiplied by one quaternion.

    Call the layer like ``GATConv``. As there, a plain ``edge_index`` loses its self-loops and gets
    one per node, whose features are the mean of the node's incoming edges. An :class:`Adjacency` is
    used unchanged; only which of its weights are zero matters, as such entries are ignored.

    Args:
        in_channels: Real width of the input, a multiple of four unless ``tiled``; -1 to take that
            of the first input.
        out_channels: Real width of each head, a multiple of four.
        heads: Number of attention heads.
        concat: Whether to concatenate the heads, by components; else they are averaged.
        negative_slope: Of the LeakyReLU.
        dropout: Rate on the attention coefficients.
        add_self_loops: Whether to add self-loops to a plain ``edge_index``.
        edge_dim: Number of real features of an edge, each of which stands for all four components
            of a quaternion; or number of quaternions.
        bias: Whether to add a learned quaternion vector.
        tiled: As in :class:`QGNNConv`.

    Shape:
        - x: ``(N, in_channels)``; an :class:`Adjacency` if sparse, :class:`Codes` if one-hot
        - edge_index: ``(2, E)``, a sparse matrix, or a prepared :class:`Adjacency` of N nodes
        - edge_attr: ``(E, edge_dim)`` or ``(E, 4 * edge_dim)``; with an :class:`Adjacency` in the
          order of its entries
        - output: ``(N, heads * out_channels)``, or ``(N, out_channels)`` without ``concat``

    Example:
        >>> conv = QGATConv(64, 16, heads=4)
        >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 64])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        *,
        concat: bool = True,
        negative_slope: float = 0.2,
        dropout: float = 0.0,
        add_self_loops: bool = True,
        edge_dim: int | None = None,
        bias: bool = True,
        tiled: bool = False,
    ) -> None:
        super().__init__()
        if heads < 1:
            raise UserError(f"heads must be at least 1, got {heads}")
        self.out_channels = out_channels
        self.heads = heads
        self.concat = concat
        self.negative_slope = negative_slope
        self.add_self_loops = add_self_loops
        width = heads * out_channels
        self.linear = QuaternionLinear(in_channels, width, tiled=tiled)
        self.att_src = nn.Parameter(torch.empty(heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, out_channels))
        self.edge_linear: QuaternionLinear | None = None
        self.att_edge: nn.Parameter | None = None
        if edge_dim is not None:
            self.edge_linear = QuaternionLinear(edge_dim, width, tiled=True)
            self.att_edge = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = nn.Parameter(torch.empty(width if concat else out_channels)) if bias else None
        self.dropout = QuaternionDropout(dropout)
        self.reset_parameters()

    @property
    def in_channels(self) -> int:
        """-1 before the first input, if it is to be inferred."""
        return self.linear.in_features

    def reset_parameters(self) -> None:
        for linear in (self.linear, self.edge_linear):
            if linear is not None:
                linear.reset_parameters()
        for weight in (self.att_src, self.att_dst, self.att_edge):
            if weight is not None:
                nn.init.xavier_uniform_(weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, edge_index: Edges, edge_attr: Tensor | None = None) -> Tensor:
        adjacency = prepare_edges(x, edge_index, self_loops=self.add_self_loops)
        values = self._split_heads(self.linear(x))  # (N, H, F)
        logits = adjacency.gather_senders() @ inner_product(
            values, self.att_src
        ) + adjacency.gather_receivers() @ inner_product(values, self.att_dst)  # (E, H)
        if self.edge_linear is not None or edge_attr is not None:
            logits = logits + self._edge_logits(edge_index, adjacency, edge_attr)
        logits = F.leaky_relu(logits, self.negative_slope)
        factors = self.edge_factors(adjacency, edge_index, self_loops=self.add_self_loops)
        y = attend(adjacency, values, logits, self.dropout, factors)
        return add_bias(self._join_heads(y) if self.concat else y.mean(dim=-2), self.bias)

    def _edge_logits(self, edges: Edges, adjacency: Adjacency, edge_attr: Tensor | None) -> Tensor:
        """The part of the logits ``(E, H)`` that comes from the features of edges."""
        if self.edge_linear is None or self.att_edge is None or edge_attr is None:
            raise UserError(
                "edge features need both: edge_dim in the layer and edge_attr in a call"
            )
        has_loops = self.add_self_loops and isinstance(edges, Tensor)
        features = order_edge_features(edge_attr, edges, adjacency, self_loops=has_loops)
        logits = inner_product(self._split_heads(self.edge_linear(features)), self.att_edge)
        if not has_loops:
            return logits
        # The logits are linear in the features, so those of a mean are the mean of the logits.
        present = (adjacency.weight != 0).to(logits.dtype)[:, None]
        sums = adjacency.sum_entries()
        others = (sums @ present - 1).clamp(min=1)  # without the loop itself, whose features are 0
        mean = adjacency.gather_receivers() @ (sums @ (logits * present) / others)
        is_loop = (adjacency.sender == adjacency.receiver)[:, None]
        return torch.where(is_loop, mean, logits)

    def _split_heads(self, y: Tensor) -> Tensor:
        """The quaternion vector of each head: ``(..., H * F) -> (..., H, F)``."""
        return y.unflatten(-1, (4, self.heads, -1)).movedim(-3, -2).flatten(-2)

    def _join_heads(self, y: Tensor) -> Tensor:
        return y.unflatten(-1, (4, -1)).movedim(-2, -3).flatten(-3)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, heads={self.heads}"
