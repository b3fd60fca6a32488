"""Graph isomorphism layers in quaternion space."""

import torch
from torch import Tensor
from torch.nn import Module, Parameter, Sequential
from torch.nn.init import constant_

from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.layers.edges import order_edge_features, prepare_edges
from quatgraph.layers.explain import Explainable
from quatgraph.layers.linear import Edges, QuaternionLinear


class QGINConv(Explainable):
    r"""PyG's ``GINConv`` (`How Powerful are Graph Neural Networks?
    <https://arxiv.org/abs/1810.00826>`_) for quaternion features, and with features of edges its
    ``GINEConv``.

    .. math::
        \mathbf{h}'_v = f\Big((1 + \epsilon) \mathbf{h}_v + \sum_{u \in \mathcal{N}_v} \mathbf{h}_u
        \Big)
        \qquad
        \mathbf{h}'_v = f\Big((1 + \epsilon) \mathbf{h}_v + \sum_{u \in \mathcal{N}_v}
        \mathrm{ReLU}(\mathbf{h}_u + \mathbf{V} \otimes \mathbf{e}_{v,u} + \mathbf{b}) \Big)

    The quaternion weights are those of f, such as two :class:`QuaternionLinear` with a ReLU between
    them. Call the layer like ``GINConv``. It adds no self-loops. Messages are multiplied by the
    weights of a sparse matrix or an :class:`Adjacency`.

    Args:
        nn: The module f, applied to ``(N, F)``.
        eps: The initial :math:`\epsilon`.
        train_eps: Whether :math:`\epsilon` is learned.
        edge_dim: Number of real features of an edge, each of which stands for all four components
            of a quaternion; or number of quaternions. Without it, features of edges must be as wide
            as x. f must start with a layer that has ``in_features`` or ``in_channels``.

    Shape:
        - x: ``(N, F)``
        - edge_index: ``(2, E)``, a sparse matrix, or a prepared :class:`Adjacency` or, without
          features of edges, :class:`Blocks` of N nodes
        - edge_attr: ``(E, edge_dim)`` or ``(E, 4 * edge_dim)``, without ``edge_dim`` ``(E, F)``;
          with an :class:`Adjacency` in the order of its entries
        - output: as f

    Example:
        >>> from quatgraph import QuaternionLinear
        >>> conv = QGINConv(QuaternionLinear(64, 32))
        >>> conv(torch.randn(3, 64), torch.tensor([[0, 1, 2], [1, 2, 0]])).shape
        torch.Size([3, 32])
    """

    nn: Module
    eps: Tensor

    def __init__(
        self,
        nn: Module,
        eps: float = 0.0,
        *,
        train_eps: bool = False,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(nn, Module):
            raise UserError(f"nn must be a module, such as QuaternionLinear(64, 32), got {nn!r}")
        self.nn = nn
        self.initial_eps = eps
        if train_eps:
            self.eps = Parameter(torch.tensor([float(eps)]))
        else:
            self.register_buffer("eps", torch.tensor([float(eps)]))
        self.edge_linear = None
        if edge_dim is not None:
            width = _input_width(nn)
            self.edge_linear = QuaternionLinear(edge_dim, width, bias=True, tiled=True)

    def reset_parameters(self) -> None:
        for module in (*self.nn.modules(), self.edge_linear):
            reset = getattr(module, "reset_parameters", None)
            if callable(reset):
                reset()
        constant_(self.eps, self.initial_eps)

    def forward(self, x: Tensor, edge_index: Edges, edge_attr: Tensor | None = None) -> Tensor:
        if not isinstance(x, Tensor):
            raise UserError("QGINConv takes one node matrix, and no sparse one: use to_dense()")
        summed = self._sum_messages(x, edge_index, edge_attr)
        y: Tensor = self.nn((1 + self.eps.unsqueeze(-1)) * x + summed)
        return y

    def _sum_messages(self, x: Tensor, edges: Edges, edge_attr: Tensor | None) -> Tensor:
        if isinstance(edges, Blocks) and edge_attr is None and self.edge_linear is None:
            return edges @ x
        adjacency = self.mask_edges(prepare_edges(x, edges), edges, self_loops=False)
        if edge_attr is None:
            if self.edge_linear is not None:
                raise UserError("this layer has edge_dim: call it with edge_attr")
            return adjacency @ x
        features = order_edge_features(edge_attr, edges, adjacency)
        if self.edge_linear is not None:
            features = self.edge_linear(features)
        elif features.size(-1) != x.size(-1):
            raise UserError(
                f"features of edges are {features.size(-1)} wide and those of nodes {x.size(-1)}: "
                "set edge_dim"
            )
        messages = (adjacency.gather_senders() @ x + features).relu()
        return adjacency.sum_entries().with_weight(adjacency.weight) @ messages


def _input_width(module: Module) -> int:
    """The width of the quaternion vectors that a module takes."""
    first = next(iter(module), None) if isinstance(module, Sequential) else module
    width = getattr(first, "in_features", getattr(first, "in_channels", None))
    if width is None or width < 1 or getattr(first, "tiled", False):
        raise UserError(
            "edge_dim needs an nn that starts with a layer of quaternion features of known width, "
            "such as QuaternionLinear"
        )
    return int(width)
