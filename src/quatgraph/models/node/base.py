"""The interface of node classifiers."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from quatgraph import config as configs
from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.hops import Chunks, Hops, own_rows, run_layer
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import RealLinear
from quatgraph.layers.residual import ResidualConv
from quatgraph.models.common import LOGITS, Count, Model, Options, Rate, layer_sizes
from quatgraph.ops.activation import ACTIVATIONS, Activation

Graph = Adjacency | Hops | Chunks
"""A prepared graph: the whole of it, sampled nodes, or the whole in chunks."""
Edges = Graph | Tensor
"""A prepared graph, or a plain ``edge_index``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOptions(Options):
    """The hyperparameters of a node classifier."""

    @property
    def width(self) -> int:
        return LOGITS

    @property
    def matrix(self) -> Normalization:
        """The normalization of the adjacency matrix with self-loops."""
        return getattr(self, "normalization", "none")

    @property
    def propagations(self) -> int:
        """How often features are multiplied by that matrix before training; if they are, the model
        takes None in its place."""
        return 0

    @property
    def hops(self) -> int:
        """How many layers sum over neighbours, in training; 0 if the model does not take
        :class:`Hops`."""
        return 0

    def num_activations(self, nodes: int, edges: int) -> int:
        """An upper estimate of the numbers that a training step stores per member."""
        return 12 * nodes * self.width


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenOptions(NodeOptions):
    """The hyperparameters of a node classifier with hidden layers."""

    hidden_quats: Count = 16
    """Quaternions per hidden layer; real models have four times as many reals, the same width."""
    num_layers: Count = 2
    """Hidden layers before the prediction layer."""
    dropout: Rate = 0.5
    """Dropout rate on the input of every layer."""

    @property
    def width(self) -> int:
        return 4 * self.hidden_quats

    @property
    def hops(self) -> int:
        return self.num_layers + 1  # the prediction layer aggregates too

    def num_activations(self, nodes: int, edges: int) -> int:
        return NodeOptions.num_activations(self, nodes, edges) * self.num_layers


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions(HiddenOptions):
    """The hyperparameters of a node classifier whose features may have a dropout rate of their
    own."""

    input_dropout: Annotated[float | None, "rates"] = configs.added(None)
    """Dropout rate on the features; model.dropout if none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualOptions(HiddenOptions):
    """The hyperparameters of a :class:`ResidualModel`."""

    num_layers: Count = 16
    """Convolutions between the first linear layer and the prediction layer."""
    alpha: Rate = 0.1
    """Share of the first layer's vectors in the input of every convolution."""
    theta: Annotated[float, "not_negative"] = 0.5
    """How much the convolutions mix channels: the l-th one by log(1 + theta / l)."""
    shared_weights: bool = True
    """Whether sums over neighbours and the first layer's vectors have the same weights."""
    conv_weight_decay: Annotated[float | None, "not_negative"] = None
    """Weight decay of the convolutions; train.weight_decay if none."""
    normalization: Normalization = "symmetric"
    """Normalization of the adjacency matrix with self-loops."""

    @property
    def hops(self) -> int:
        return self.num_layers

    @property
    def weight_decays(self) -> dict[str, float]:
        return {} if self.conv_weight_decay is None else {"convs.": self.conv_weight_decay}

    def num_activations(self, nodes: int, edges: int) -> int:
        # A layer stores the input and the output of its product, and a CPU its dropout mask.
        stored = 3 * nodes * self.width * self.num_layers
        return NodeOptions.num_activations(self, nodes, edges) + stored


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvOptions(InputOptions):
    """The hyperparameters of a stack of real convolutions."""

    skip: bool = True
    """Whether layers have a learned skip connection."""
    bias: bool = False
    """Whether layers have a bias."""
    normalization: Normalization = "symmetric"
    """Normalization of the adjacency matrix with self-loops."""


class NodeModel(Model):
    """A node classifier: ``forward(x, adjacency)`` returns logits ``(N, C)``.

    ``adjacency`` is prepared once for many calls. A model also takes what PyG's models take, a
    plain ``edge_index`` and perhaps ``edge_weight``, which it prepares in every call. Models with
    :attr:`NodeOptions.hops` take :class:`Hops` and :class:`Chunks` too.
    """

    Options: ClassVar[type[NodeOptions]]

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        """The vectors of nodes before the prediction layer, ``(N, D)``; the logits of a model
        without such vectors."""
        return self(x, self.prepare(x, adjacency, edge_weight))

    def prepare(
        self, x: Tensor | Adjacency, edges: Edges, edge_weight: Tensor | None = None
    ) -> Graph:
        """The matrix that the model multiplies by: a prepared one unchanged, a plain
        ``edge_index`` with self-loops and the normalization that is the default of its options."""
        if isinstance(edges, Graph) and edge_weight is None:
            return edges
        assert isinstance(edges, Adjacency | Tensor)
        dtype = x.dtype if isinstance(x, Tensor) else x.weight.dtype
        options: Any = self.Options
        return Adjacency.of(
            edges,
            x.shape[-2],
            edge_weight,
            normalization=options().matrix,
            dtype=dtype if dtype == torch.float64 else None,
        )


def build_input_dropout(rate: float | None, others: float) -> QuaternionDropout:
    """Dropout of the features one by one, with a rate of their own or that of the other layers."""
    return QuaternionDropout(others if rate is None else rate)


class ConvModel(NodeModel):
    """A stack of convolutions, with dropout before and activations between them."""

    activation: ClassVar[Activation] = "relu"
    convs: nn.ModuleList
    owns: nn.ModuleList
    """The skip connections: a linear map of a node's own vector per layer, or none."""
    dropout: QuaternionDropout
    input_dropout: QuaternionDropout
    """That of the features."""

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        matrix = self.prepare(x, adjacency, edge_weight)
        return self._convolve(len(self.convs) - 1, self.embed(x, matrix), matrix)

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = self.prepare(x, adjacency, edge_weight)
        y = self._convolve(0, x, graph)
        for layer in range(1, len(self.convs) - 1):
            y = self._convolve(layer, y, graph)
        return y

    def _convolve(self, layer: int, x: Tensor | Adjacency, graph: Graph) -> Tensor:
        conv: Any = self.convs[layer]

        def receive(sent: Tensor, x: Tensor | Adjacency, matrix: Adjacency, begin: int) -> Tensor:
            y: Tensor = conv.receive(sent, x, matrix, begin)
            if len(self.owns):
                y = y + self.owns[layer](own_rows(x, matrix, begin))
            return ACTIVATIONS[self.activation](y) if layer < len(self.convs) - 1 else y

        dropout = self.dropout if layer else self.input_dropout
        return run_layer(graph, layer, dropout(x), conv.send, receive)


class ResidualModel(NodeModel):
    """A linear layer, many convolutions that also read its output, and a prediction layer, with
    dropout before each.

    Args:
        first: The first layer, of which ``hidden`` is the width.
        others: As in :class:`GCNII`.
    """

    Conv: ClassVar[type[ResidualConv]]

    def __init__(
        self,
        first: nn.Module,
        hidden: int,
        num_classes: int,
        *,
        num_layers: int,
        dropout: float,
        alpha: float,
        theta: float,
        shared_weights: bool,
    ) -> None:
        super().__init__()
        self.first = first
        self.convs = nn.ModuleList(
            self.Conv(width, alpha, theta, layer, shared_weights)
            for layer, (width, _) in enumerate(layer_sizes(hidden, hidden, num_layers), 1)
        )
        self.prediction = RealLinear(hidden, num_classes)
        self.dropout = QuaternionDropout(dropout)

    def forward(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        logits: Tensor = self.prediction(self.dropout(self.embed(x, adjacency, edge_weight)))
        return logits

    def embed(
        self, x: Tensor | Adjacency, adjacency: Edges, edge_weight: Tensor | None = None
    ) -> Tensor:
        graph = self.prepare(x, adjacency, edge_weight)
        y = start = torch.relu(self.first(self.dropout(x)))
        for layer in range(len(self.convs)):
            y = self._convolve(layer, self.dropout(y), start, graph)
        return y

    def _convolve(self, layer: int, x: Tensor, start: Tensor, graph: Graph) -> Tensor:
        conv: Any = self.convs[layer]

        def receive(sent: Tensor, x: Tensor, matrix: Adjacency, begin: int) -> Tensor:
            return torch.relu(conv.update(matrix @ sent, own_rows(start, matrix, begin)))

        return run_layer(graph, layer, x, lambda x: x, receive)
