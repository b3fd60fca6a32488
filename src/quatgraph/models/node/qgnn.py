"""QGNN for node classification (Section 4.2 of the paper)."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.hops import own_rows, run_layer
from quatgraph.layers import QGNNConv, QuaternionDropout, QuaternionLinear
from quatgraph.layers.dropout import Masks
from quatgraph.layers.explain import Explainable
from quatgraph.models.common import layer_sizes
from quatgraph.models.node.base import Edges, Graph, InputOptions, NodeModel, build_input_dropout
from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.ops.members import add_bias


@dataclass(frozen=True, slots=True, kw_only=True)
class QGNNOptions(InputOptions):
    name: Literal["qgnn"] = "qgnn"
    masks: Masks = "quaternion"
    """Whether dropout masks real numbers (four per input feature) or whole quaternions."""
    activation: Activation = "relu"
    """The activation g."""
    skip: bool = True
    """Whether layers have a learned skip connection."""
    bias: bool = False
    """Whether layers have a bias."""
    normalization: Normalization = "symmetric"
    """Normalization of the adjacency matrix with self-loops."""

    @property
    def trains_on_four_copies(self) -> bool:
        return self.masks == "real"


class QGNN(Explainable, NodeModel):
    r"""QGNN layers, then a real prediction layer, which aggregates too (Eq. 11).

    .. math::
        \mathbf{h}^{(l+1)}_v = g\Big(\sum_u a_{v,u} \mathbf{W}^{(l)} \otimes \mathbf{h}^{(l)}_u\Big)
        \qquad
        \hat{\mathbf{y}}_v = \sum_u a_{v,u} \mathbf{W}_1 \mathrm{Vec}(\mathbf{h}^{(L)}_u)

    The paper has one QGNN layer and no skip connections, the defaults here; :class:`QGNNOptions`
    has the defaults of training on your own data. In the paper's equation for the prediction, the
    :math:`\mathbf{h}_v` inside the sum should be the neighbours' :math:`\mathbf{h}_u`.

    Args:
        in_channels: Number of features of a node; each becomes four equal components.
        num_classes: Number of classes C.
        hidden_quats: Quaternions per hidden layer.
        num_layers: QGNN layers before the prediction layer.
        dropout: Rate on the input of every layer.
        input_dropout: Rate on the features; ``dropout`` if None.
        masks: See :class:`QuaternionDropout`; for the input see
            :func:`quatgraph.models.common.four_copies`.
        activation: g, applied to each component.
        skip: Whether each layer adds a linear map of the node's own vector.
        bias: Whether layers have a bias; the paper has none.

    Shape:
        - x: ``(N, in_channels)``, dense or sparse, or four copies of it
        - adjacency: of N nodes, prepared; or ``edge_index`` ``(2, E)``, to which self-loops are
          added
        - edge_weight: ``(E,)``, with ``edge_index``
        - output: logits ``(N, C)``

    Example:
        >>> QGNN(16, 3)(torch.randn(4, 16), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
        torch.Size([4, 3])
    """

    Options = QGNNOptions

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden_quats: int = 4,
        num_layers: int = 1,
        dropout: float = 0.5,
        input_dropout: float | None = None,
        masks: Masks = "real",
        activation: Activation = "relu",
        skip: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__()
        hidden = 4 * hidden_quats
        sizes = layer_sizes(in_channels, hidden, num_layers)
        self.convs = nn.ModuleList(
            QGNNConv(a, b, bias=bias, tiled=not layer) for layer, (a, b) in enumerate(sizes)
        )
        self.owns = nn.ModuleList(
            QuaternionLinear(a, b, tiled=not layer) for layer, (a, b) in enumerate(sizes) if skip
        )
        self.prediction = nn.Linear(hidden, num_classes, bias=False)
        self.bias = nn.Parameter(torch.zeros(num_classes)) if bias else None
        self.own_prediction = nn.Linear(hidden, num_classes, bias=False) if skip else None
        # Input features are always masked one by one.
        self.input_dropout = build_input_dropout(input_dropout, dropout)
        self.dropout = QuaternionDropout(dropout, masks=masks)
        self.activation = ACTIVATIONS[activation]
        nn.init.xavier_uniform_(self.prediction.weight)

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = self.prepare(x, adjacency, edge_weight)

        def receive(sent: Tensor, x: Tensor, matrix: Adjacency, begin: int) -> Tensor:
            logits = matrix @ sent
            if self.own_prediction is not None:
                logits = logits + self.own_prediction(own_rows(x, matrix, begin))
            return add_bias(logits, self.bias)

        y = self.dropout(self.embed(x, graph))
        return run_layer(graph, len(self.convs), y, self.prediction, receive)

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = self.prepare(x, adjacency, edge_weight)
        y = self._convolve(0, self.input_dropout(x), graph)
        for layer in range(1, len(self.convs)):
            y = self._convolve(layer, self.dropout(y), graph)
        return y

    def _convolve(self, layer: int, x: Tensor | Adjacency, graph: Graph) -> Tensor:
        conv: Any = self.convs[layer]

        def receive(sent: Tensor, x: Tensor | Adjacency, matrix: Adjacency, begin: int) -> Tensor:
            y: Tensor = conv.receive(sent, x, matrix)
            if self.own_prediction is not None:
                y = y + self.owns[layer](own_rows(x, matrix, begin))
            return self.activation(y)

        return run_layer(graph, layer, x, conv.send, receive)

    def prepare(
        self, x: Tensor | Adjacency, edges: Edges, edge_weight: Tensor | None = None
    ) -> Graph:
        graph = super().prepare(x, edges, edge_weight)
        if not isinstance(edges, Tensor) or not isinstance(graph, Adjacency):
            return graph
        return self.mask_edges(graph, edges, self_loops=True)
