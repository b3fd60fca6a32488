"""GraphSAGE in quaternion space."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Normalization
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.edges import prepare_edges
from quatgraph.layers.explain import Explainable
from quatgraph.layers.linear import Edges, Features, Matrix, QuaternionLinear
from quatgraph.layers.neighbours import neighbour_max
from quatgraph.ops.members import add_bias

Aggregation = Literal["mean", "sum", "max"]


class QSAGEConv(Explainable):
    r"""PyG's ``SAGEConv`` (`GraphSAGE <https://arxiv.org/abs/1706.02216>`_) with quaternion
    weights.

    .. math::
        \mathbf{h}'_v = \mathbf{W} \otimes \mathrm{mean}_{u \in \mathcal{N}_v} \mathbf{h}_u
        + \mathbf{U} \otimes \mathbf{h}_v + \mathbf{b}

    Means and sums commute with :math:`\mathbf{W} \otimes`, and with the multiplication of all
    features by one quaternion from the right. The maximum is taken of each real component, and
    commutes with neither: it depends on the axes.

    Call the layer like ``SAGEConv``. It adds no self-loops. Weights of edges weigh means and sums;
    a maximum ignores them, and entries of weight zero. Means and sums use an :class:`Adjacency`
    unchanged, so prepare it with ``self_loops=False`` and for means with ``normalization="row"``.

    Args:
        in_channels: Real width of the input, a multiple of four unless ``tiled``; -1 to take that
            of the first input.
        out_channels: Real width of the output, a multiple of four.
        aggr: ``"mean"``, ``"sum"`` or ``"max"``.
        normalize: Whether to scale each output vector to length 1.
        root_weight: Whether to add :math:`\mathbf{U} \otimes \mathbf{h}_v`.
        project: Whether neighbours first go through a linear layer and a ReLU.
        bias: Whether to add a learned quaternion vector.
        tiled: As in :class:`QGNNConv`.

    Shape:
        - x: ``(N, in_channels)``; an :class:`Adjacency` if sparse, :class:`Codes` if one-hot,
          unless ``aggr="max"``
        - edge_index: ``(2, E)``, a sparse matrix, or a prepared :class:`Adjacency` or
          :class:`Blocks` of N nodes
        - edge_weight: ``(E,)``; for means and sums
        - output: ``(N, out_channels)``

    Example:
        >>> conv = QSAGEConv(64, 32)
        >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 32])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        aggr: Aggregation = "mean",
        *,
        normalize: bool = False,
        root_weight: bool = True,
        project: bool = False,
        bias: bool = True,
        tiled: bool = False,
    ) -> None:
        super().__init__()
        if aggr not in get_args(Aggregation):
            raise UserError(f"there is no aggregation {aggr!r}; choose mean, sum or max")
        if project and (tiled or in_channels == -1):
            raise UserError(
                "project=True needs in_channels, a multiple of four: it cannot be inferred"
            )
        self.out_channels = out_channels
        self.aggr = aggr
        self.normalize = normalize
        self.neighbours = QuaternionLinear(in_channels, out_channels, tiled=tiled)
        self.own = QuaternionLinear(in_channels, out_channels, tiled=tiled) if root_weight else None
        self.project = QuaternionLinear(in_channels, in_channels, bias=True) if project else None
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    @property
    def in_channels(self) -> int:
        """-1 before the first input, if it is to be inferred."""
        return self.neighbours.in_features

    def reset_parameters(self) -> None:
        for linear in (self.neighbours, self.own, self.project):
            if linear is not None:
                linear.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        sent = x if self.project is None else self.project(x).relu()
        y = self._aggregate(sent, edge_index, edge_weight)
        y = add_bias(y if self.own is None else y + self.own(x), self.bias)
        return F.normalize(y, dim=-1) if self.normalize else y

    def _aggregate(self, x: Features, edges: Edges, edge_weight: Tensor | None) -> Tensor:
        if self.aggr == "max":
            adjacency = prepare_edges(x, edges)
            if not isinstance(x, Tensor) or edge_weight is not None:
                raise UserError("the maximum takes dense features and no edge_weight")
            factors = self.edge_factors(adjacency, edges, self_loops=False)
            return self.neighbours(neighbour_max(adjacency, x, factors))
        matrix = self._prepare(x, edges, edge_weight)
        return matrix @ self.neighbours(x, matrix.product_dtype)

    def _prepare(self, x: Features, edges: Edges, edge_weight: Tensor | None) -> Matrix:
        """The matrix of means or sums."""
        if isinstance(edges, Blocks):
            return edges
        kind: Normalization = "row" if self.aggr == "mean" else "none"
        adjacency = prepare_edges(x, edges, edge_weight, normalization=kind)
        return self.mask_edges(adjacency, edges, self_loops=False)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, aggr={self.aggr!r}"
