"""The interface of node classifiers."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from quatgraph.adjacency import Adjacency, Normalization
from quatgraph.layers import QuaternionDropout
from quatgraph.models.common import LOGITS, Count, Model, Options, Rate
from quatgraph.ops.activation import ACTIVATIONS, Activation


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

    def num_activations(self, nodes: int, edges: int) -> int:
        return NodeOptions.num_activations(self, nodes, edges) * self.num_layers


class NodeModel(Model):
    """A node classifier: ``forward(x, adjacency)`` returns logits ``(N, C)``."""

    Options: ClassVar[type[NodeOptions]]


class ConvModel(NodeModel):
    """A stack of convolutions, with dropout before and activations between them."""

    activation: ClassVar[Activation] = "relu"
    convs: nn.ModuleList
    owns: nn.ModuleList
    """The skip connections: a linear map of a node's own vector per layer, or none."""
    dropout: QuaternionDropout

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        activation = ACTIVATIONS[self.activation]
        for layer, conv in enumerate(self.convs):
            x = self.dropout(x)
            y = conv(x, adjacency)
            if len(self.owns):
                y = y + self.owns[layer](x)
            x = activation(y)
        return y
