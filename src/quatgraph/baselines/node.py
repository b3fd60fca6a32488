"""The methods QGNN is compared with in Table 2, and a model that sees no graph."""

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.baselines.layers import GraphAttention, GraphConv, Linear
from quatgraph.errors import Mistake
from quatgraph.layers import QuaternionDropout


class GCN(nn.Module):
    """`Graph convolutional network <https://arxiv.org/abs/1609.02907>`_: the real twin of QGNN.

    Args:
        hidden: Width of the hidden layers.
        num_layers: Hidden layers before the prediction layer.
        dropout: Rate on the input of every layer.
        skip: Whether each layer also adds a product of the node's own vector, not aggregated.
        bias: Whether layers add a learned vector.

    Shape:
        - x: ``(N, in_channels)``, dense or sparse
        - output: logits ``(N, C)``
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 1,
        dropout: float = 0.5,
        skip: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        sizes = [in_channels] + [hidden] * num_layers + [num_classes]
        pairs = list(pairwise(sizes))
        self.convs = nn.ModuleList(GraphConv(a, b, bias=bias) for a, b in pairs)
        self.owns = nn.ModuleList(Linear(a, b, bias=False) for a, b in pairs if skip)
        self.dropout = QuaternionDropout(dropout)

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        return _through(self.convs, self.owns, self.dropout, torch.relu, x, adjacency)


class GAT(nn.Module):
    """`Graph attention network <https://arxiv.org/abs/1710.10903>`_; its graph has self-loops
    and no normalisation. One head in the prediction layer.

    Args:
        hidden: Width of the hidden layers, all heads together.
        heads: Attention heads of the hidden layers.
        dropout: Rate on the input of every layer and on the attention coefficients.
        skip: As in :class:`GCN`.
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 64,
        num_layers: int = 1,
        heads: int = 8,
        dropout: float = 0.6,
        skip: bool = False,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        check_heads(hidden, heads)
        sizes = [in_channels] + [hidden] * num_layers + [num_classes]
        pairs = list(pairwise(sizes))
        self.convs = nn.ModuleList(
            GraphAttention(a, b // heads, heads=heads, dropout=dropout) for a, b in pairs[:-1]
        )
        self.convs.append(GraphAttention(hidden, num_classes, dropout=dropout))
        self.owns = nn.ModuleList(Linear(a, b, bias=False) for a, b in pairs if skip)
        self.dropout = QuaternionDropout(dropout)

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        return _through(self.convs, self.owns, self.dropout, F.elu, x, adjacency)


class MLP(nn.Module):
    """A perceptron on the node's own features: what the graph adds is the distance to this."""

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        _check_layers(num_layers)
        sizes = [in_channels] + [hidden] * num_layers + [num_classes]
        self.linears = nn.ModuleList(Linear(a, b) for a, b in pairwise(sizes))
        self.dropout = QuaternionDropout(dropout)

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        y: Tensor = self.linears[0](self.dropout(x))
        for linear in self.linears[1:]:
            y = linear(self.dropout(torch.relu(y)))
        return y


def _through(
    convs: nn.ModuleList,
    owns: nn.ModuleList,
    dropout: QuaternionDropout,
    activation: Callable[[Tensor], Tensor],
    x: Tensor | Adjacency,
    adjacency: Adjacency,
) -> Tensor:
    """Layer by layer, with dropout before and the activation between; ``owns`` may be empty."""
    for layer, conv in enumerate(convs):
        x = dropout(x)
        y = conv(x, adjacency)
        if len(owns):
            y = y + owns[layer](x)
        x = activation(y)
    return y


def _check_layers(num_layers: int) -> None:
    if num_layers < 1:
        raise Mistake(f"the model needs at least one hidden layer, got num_layers={num_layers}")


def check_heads(width: int, heads: int) -> None:
    """Refuses a width of GAT, in reals, that its heads cannot share."""
    if width % heads:
        raise Mistake(
            f"GAT's width of {width} reals cannot be shared among {heads} heads: "
            "change heads, or hidden_quats, of which the width is four times"
        )
