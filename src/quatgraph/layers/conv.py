"""Graph convolutions in quaternion space."""

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.edges import count_nodes, prepare_edges
from quatgraph.layers.explain import Explainable
from quatgraph.layers.linear import Edges, Features, Matrix, QuaternionLinear, sums_first
from quatgraph.ops.members import add_bias


class QGNNConv(Explainable):
    r"""The graph convolution of `Quaternion Graph Neural Networks <https://arxiv.org/abs/2008.05089>`_.

    .. math::
        \mathbf{h}'_v = \sum_{u \in \mathcal{N}_v \cup \{v\}}
        a_{v,u} \, \mathbf{W} \otimes \mathbf{h}_u

    This is Eq. 5 without the activation, which the model applies. The layer is called like PyG's
    ``GCNConv``: it adds self-loops to a plain ``edge_index`` and normalizes it symmetrically. It
    has no bias by default. It uses an :class:`Adjacency` unchanged, so a graph can be prepared
    once. PyG's explainers mask the edges of a plain ``edge_index``.

    Args:
        in_channels: Real width of the input, a multiple of four unless ``tiled``; -1 to take that
            of the first input.
        out_channels: Real width of the output, a multiple of four.
        bias: Whether to add a learned quaternion vector; the paper has none.
        add_self_loops: Whether to add self-loops to a plain ``edge_index``; ``normalize`` by
            default.
        normalize: Whether to normalize a plain ``edge_index`` symmetrically.
        cached: Whether to prepare the first graph and reuse it; only valid for a single graph.
        tiled: Whether x is real, of any width, and stands for all four components of a quaternion
            vector; see :class:`QuaternionLinear`.

    Shape:
        - x: ``(N, in_channels)``; an :class:`Adjacency` if sparse, :class:`Codes` if one-hot
        - edge_index: ``(2, E)``, a sparse matrix, or a prepared :class:`Adjacency` or
          :class:`Blocks` of N nodes
        - edge_weight: ``(E,)``
        - output: ``(N, out_channels)``

    Example:
        >>> conv = QGNNConv(64, 64)
        >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 64])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        bias: bool = False,
        add_self_loops: bool | None = None,
        normalize: bool = True,
        cached: bool = False,
        tiled: bool = False,
    ) -> None:
        super().__init__()
        if not tiled and in_channels > 0 and in_channels % 4:
            raise UserError(
                f"in_channels must be a multiple of four, got {in_channels}: pad x with zeros "
                f"to {-(-in_channels // 4) * 4}, or use tiled=True for real features of any width"
            )
        self.out_channels = out_channels
        self.add_self_loops = normalize if add_self_loops is None else add_self_loops
        self.normalize = normalize
        self.cached = cached
        self.linear = QuaternionLinear(in_channels, out_channels, tiled=tiled)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        self._prepared: Adjacency | None = None

    @property
    def in_channels(self) -> int:
        """-1 before the first input, if it is to be inferred."""
        return self.linear.in_features

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._prepared = None

    def prepare(self, x: Features, edge_index: Edges, edge_weight: Tensor | None = None) -> Matrix:
        """The matrix that the layer multiplies by."""
        if isinstance(edge_index, Blocks):
            return edge_index
        if isinstance(edge_index, Adjacency):
            return prepare_edges(x, edge_index, edge_weight)
        adjacency = self._prepared
        if adjacency is None:
            adjacency = prepare_edges(
                x,
                edge_index,
                edge_weight,
                self_loops=self.add_self_loops,
                normalization="symmetric" if self.normalize else "none",
            )
            self._prepared = adjacency if self.cached else None
        elif (nodes := count_nodes(x)) != (cached := adjacency.shape[0]):
            raise UserError(
                f"this layer caches its first graph, which has {cached} nodes, but x has {nodes}: "
                "remove cached=True"
            )
        return self.mask_edges(adjacency, edge_index, self_loops=self.add_self_loops)

    def forward(self, x: Features, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        matrix = self.prepare(x, edge_index, edge_weight)
        return self.receive(self.send(x, matrix.product_dtype), x, matrix)

    def send(self, x: Features, product_dtype: torch.dtype | None = None) -> Tensor:
        """The mapped rows of x, or x itself if :func:`sums_first`."""
        if sums_first(x, self.out_channels):
            return x
        sent: Tensor = self.linear(x, product_dtype)
        return sent

    def receive(self, sent: Tensor, x: Features, matrix: Matrix) -> Tensor:
        """What the rows of a matrix receive from its columns, which send :meth:`send` of x."""
        y = matrix @ sent
        return add_bias(self.linear(y) if sent is x else y, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}"


class SimplifiedQGNNConv(nn.Module):
    r"""`Simple Graph Convolution <https://arxiv.org/abs/1902.07153>`_ in quaternion space: one
    Hamilton product and several aggregations, without nonlinearities.

    .. math:: \mathbf{H}' = \mathbf{A}^K \, (\mathbf{W} \otimes \mathbf{H})

    Args:
        in_channels, out_channels, bias, tiled: As in :class:`QGNNConv`.
        num_hops: Number of aggregations :math:`K`.

    Shape:
        - as :class:`QGNNConv`
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        num_hops: int = 2,
        bias: bool = False,
        tiled: bool = False,
    ) -> None:
        super().__init__()
        if num_hops < 1:
            raise UserError(f"num_hops must be at least 1, got {num_hops}")
        self.num_hops = num_hops
        self.conv = QGNNConv(in_channels, out_channels, tiled=tiled)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def reset_parameters(self) -> None:
        self.conv.reset_parameters()
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Features, edge_index: Edges, edge_weight: Tensor | None = None) -> Tensor:
        adjacency = self.conv.prepare(x, edge_index, edge_weight)
        y = self.conv(x, adjacency)
        for _ in range(self.num_hops - 1):
            y = adjacency @ y
        return add_bias(y, self.bias)
