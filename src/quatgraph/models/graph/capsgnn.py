"""Capsule graph neural network."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from quatgraph.blocks import boundaries, max_row, padding_masks
from quatgraph.codes import Codes
from quatgraph.errors import UserError
from quatgraph.layers import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix
from quatgraph.models.common import Count, Rate, layer_sizes
from quatgraph.models.graph.base import GraphModel, LayeredOptions
from quatgraph.ops import lookup
from quatgraph.ops.dense_batch import to_dense_batch

_DENSE, _TINY, _LEAST = 128, 1e-11, 1e-30
_UPPER, _LOWER, _DOWN_WEIGHT = 0.9, 0.1, 0.5  # of the margin loss


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCapsGNNOptions(LayeredOptions):
    name: Literal["capsgnn"] = "capsgnn"
    hidden_quats: Count = 4
    num_layers: Count = 5
    channels: Count = 2
    """Capsules of a node in each layer, which share the width."""
    num_capsules: Count = 16
    """Capsules of a graph."""
    routing_rounds: Count = 3
    """Rounds of routing."""
    num_degrees: Count = 32
    """Degrees with a vector of their own, from 0 on; higher ones share the last."""
    dropout: Rate = 0.3
    """Rate at which a node's tag, its degree or the constant is dropped."""
    reconstruction: Annotated[float, "not_negative"] = 0.1
    """Weight of the reconstruction error in the loss."""

    def __post_init__(self) -> None:
        LayeredOptions.__post_init__(self)
        _check_channels(self.width, self.channels)

    def num_activations(self, nodes: int, entries: int) -> int:
        layers = LayeredOptions.num_activations(self, nodes, entries)
        return layers + 8 * nodes * self.num_layers * self.channels * self.num_capsules

    def num_held(self, nodes: int) -> int:
        votes = nodes * self.num_layers * self.channels * self.num_capsules
        return LayeredOptions.num_held(self, nodes) + 4 * votes


class Routing(nn.Module):
    r"""Dynamic routing: every input capsule :math:`\mathbf{u}` votes for every output capsule,
    with weights that grow where votes agree with the outcome.

    .. math::
        c_{i,j} = \mathrm{softmax}_j(b_{i,j}), \qquad
        \mathbf{s}_j = \frac{1}{n} \sum_i c_{i,j} \mathbf{W}_{k(i),j}^\top \mathbf{u}_i, \qquad
        b_{i,j} \mathrel{+}= \mathbf{u}_i^\top \mathbf{W}_{k(i),j} \, \mathrm{squash}(\mathbf{s}_j)

    where :math:`\mathbf{b}` starts at zero. Inputs of the same kind k share their matrices. As in
    the released code, gradients flow through the last round only, and not through
    :math:`\mathbf{b}`. Inputs are summed before they are multiplied, so no tensor holds the votes.

    Args:
        kinds: Kinds of inputs K.
        outputs: Output capsules J.
        width: Width of a capsule D.
        rounds: Number of rounds.

    Shape:
        - u: ``(G, K, n, D)``, zero for padding
        - scale: the factor :math:`1/n`, ``(G,)``
        - output: :math:`\mathbf{s}`, ``(G, J, D)``
    """

    def __init__(self, kinds: int, outputs: int, width: int, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds
        self.weight = nn.Parameter(torch.empty(outputs, kinds * width, width))
        bound = math.sqrt(3 / (kinds * outputs * width))  # TensorFlow's Xavier counts all of them
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, u: Tensor, scale: Tensor) -> Tensor:
        total: Tensor | None = None  # of the outcomes: the agreement is linear in them
        with torch.no_grad():
            for _ in range(self.rounds - 1):
                v = squash(self._sum_votes(u, total, scale))
                total = v if total is None else total + v
        return self._sum_votes(u, total, scale)

    def _sum_votes(self, u: Tensor, total: Tensor | None, scale: Tensor) -> Tensor:
        """The weighted sums of the votes for each output, ``(G, J, D)``."""
        outputs = self.weight.size(-3)
        if total is None:  # equal weights
            summed = u.sum(dim=-2, keepdim=True) / outputs
            summed = summed.expand(*u.shape[:-2], outputs, -1)  # (G, K, J, D)
        else:
            summed = self._weigh_votes(u, total).mT @ u
        summed = summed.movedim(-2, -4).flatten(-2)  # (J, G, K D)
        return (summed @ self.weight).transpose(-3, -2) * scale[..., None, None]

    @torch.no_grad()
    def _weigh_votes(self, u: Tensor, total: Tensor) -> Tensor:
        """The weight of each vote, ``(G, K, n, J)``."""
        wanted = total.transpose(-3, -2) @ self.weight.mT  # (J, G, K D)
        wanted = wanted.unflatten(-1, (u.size(-3), -1)).movedim(-4, -1)  # (G, K, D, J)
        return torch.softmax(u @ wanted, dim=-1)


class GraphCapsGNN(GraphModel):
    r"""`Capsule graph neural network <https://openreview.net/forum?id=Byl8BnRcYm>`_, on a graph
    with self-loops, which the model normalizes.

    A node starts with three vectors, for its features, its degree and a constant. Layers are

    .. math:: \mathbf{H}' = \tanh\big(\mathbf{D}^{-1/2} \mathbf{A} \mathbf{D}^{-1/2}
        (\mathbf{H W}^\top + \mathbf{b})\big)

    and the outputs of all layers are a node's capsules. Attention over the nodes of a graph scales
    them. :class:`Routing` turns them into the capsules of the graph, and then of the classes.

    Class c has the activation :math:`a_c = |\mathbf{s}_c|^2 / (1 + |\mathbf{s}_c|^2)`. Its logit is
    :math:`\log |\mathbf{s}_c|^2`, the log-odds of :math:`a_c`, so probabilities are proportional
    to these odds. In training mode the model returns losses: for the label c

    .. math:: \max(0, 0.9 - a_c)^2 + 0.5 \sum_{k \ne c} \max(0, a_k - 0.1)^2 + \lambda \, r_c

    where :math:`r_c` is a reconstruction error. A perceptron predicts from the capsule of c how
    often the graph has each feature and each degree, with counts divided by the largest. The error
    is the maximum squared difference over those that occur, plus that over those that do not.

    Args:
        hidden: Width of the layers, a multiple of ``channels``.
        num_layers: Number of layers.
        channels: Capsules of a node in each layer.
        num_capsules: Capsules of a graph.
        routing_rounds: Rounds of routing.
        num_degrees: Degrees with a vector of their own.
        dropout: Rate at which one of the three vectors of a node is dropped.
        pooled_dropout: Rate on the capsules of a graph.
        reconstruction: The weight :math:`\lambda`.

    Shape:
        - as in :class:`LayerwiseModel`; in training mode the output is losses ``(G, C)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    Options = GraphCapsGNNOptions
    supports_members = True
    needs_max_row = True
    returns_losses = True

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        *,
        hidden: int = 16,
        num_layers: int = 5,
        channels: int = 2,
        num_capsules: int = 16,
        routing_rounds: int = 3,
        num_degrees: int = 32,
        dropout: float = 0.0,
        pooled_dropout: float = 0.0,
        reconstruction: float = 0.1,
    ) -> None:
        super().__init__()
        _check_channels(hidden, channels)
        self.capsule_width, self.reconstruction = hidden // channels, reconstruction
        width, kinds = self.capsule_width, num_layers * channels
        self.tables = nn.ParameterList(
            torch.randn(rows, width) / 10 for rows in (in_channels, num_degrees, 1)
        )
        sizes = layer_sizes(len(self.tables) * width, hidden, num_layers)
        self.linears = nn.ModuleList(GlorotLinear(a, b) for a, b in sizes)
        between = max(1, num_layers * hidden // 16)
        self.attention = nn.ModuleList(
            (GlorotLinear(num_layers * hidden, between), GlorotLinear(between, kinds))
        )
        self.graph_routing = Routing(kinds, num_capsules, width, routing_rounds)
        self.class_routing = Routing(num_capsules, num_classes, width, routing_rounds)
        self.decoder = nn.ModuleList(
            (GlorotLinear(width, _DENSE), GlorotLinear(_DENSE, in_channels + num_degrees))
        )
        self.dropout = QuaternionDropout(dropout)
        self.pooled_dropout = QuaternionDropout(pooled_dropout)

    def forward(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        degree = self._count_neighbours(adjacency, pool)
        pooled = self.pooled_dropout(self._embed(x, adjacency, pool, degree))
        u = pooled.unflatten(-1, (-1, 1, self.capsule_width))
        s = self.class_routing(u, torch.ones_like(pooled[..., 0]))
        if not self.training:
            return s.square().sum(dim=-1).clamp(min=_LEAST).log()
        counts = pool @ torch.cat((_to_dense(x, s), self._one_hot(degree)), dim=-1)
        return _margin_losses(s) + self.reconstruction * self._errors(s, counts.clamp(min=0))

    def embed(self, x: Features, adjacency: Matrix, pool: Matrix) -> Tensor:
        return self._embed(x, adjacency, pool, self._count_neighbours(adjacency, pool))

    def encode(self, x: Features, adjacency: Matrix, degree: Tensor) -> Tensor:
        """The vectors of all nodes, all layers side by side, ``(N, num_layers * hidden)``."""
        features, by_degree, constant = self.tables
        first = x @ features
        start = [first, lookup(by_degree, self._codes(degree)), constant.expand_as(first)]
        kept = self.dropout(first.new_ones(*first.shape[:-1], len(start)))
        h = (torch.stack(start, dim=-2) * kept[..., None]).flatten(-2)
        scale, layers = (degree + 1).rsqrt()[..., None], []
        for linear in self.linears:
            h = torch.tanh(scale * (adjacency @ (scale * linear(h))))
            layers.append(h)
        return torch.cat(layers, dim=-1)

    def _embed(self, x: Features, adjacency: Matrix, pool: Matrix, degree: Tensor) -> Tensor:
        """The capsules of each graph, ``(G, num_capsules * capsule_width)``."""
        z, ptr, size = self.encode(x, adjacency, degree), boundaries(pool), max_row(pool)
        logits = self.attention[1](torch.tanh(self.attention[0](z)))
        dense = to_dense_batch(torch.cat((z, logits), dim=-1), ptr, size)  # (G, n, ...)
        z, logits = dense.split([z.size(-1), logits.size(-1)], dim=-1)
        count = ptr.diff()
        absent = torch.arange(size, device=z.device) >= count[..., None]
        # Not minus infinity: a graph without nodes would have no softmax.
        logits = logits.masked_fill(absent[..., None], torch.finfo(z.dtype).min)
        count = count.clamp(min=1).to(z.dtype)
        weight = torch.softmax(logits, dim=-2) * count[..., None, None]
        u = z.unflatten(-1, (-1, self.capsule_width)) * weight[..., None]
        return squash(self.graph_routing(u.transpose(-3, -2), 1 / count)).flatten(-2)

    def _count_neighbours(self, adjacency: Matrix, pool: Matrix) -> Tensor:
        """The degree of each node without its self-loop, ``(N,)``."""
        like = self.class_routing.weight[..., 0, 0, 0]
        _, nodes = padding_masks(pool, like)
        ones = like.new_ones(pool.shape[1]) if nodes is None else nodes
        return ((adjacency @ ones[..., None])[..., 0] - 1).clamp(min=0)

    def _codes(self, degree: Tensor) -> Tensor:
        return degree.round().long().clamp(max=self.tables[1].size(-2) - 1)

    def _one_hot(self, degree: Tensor) -> Tensor:
        place = torch.arange(self.tables[1].size(-2), device=degree.device)
        return (self._codes(degree)[..., None] == place).to(degree.dtype)

    def _errors(self, s: Tensor, counts: Tensor) -> Tensor:
        """The error of the reconstruction from each class, ``(G, C)``."""
        hidden = torch.relu(self.decoder[0](squash(s).flatten(-3, -2)))
        found = torch.sigmoid(self.decoder[1](hidden)).unflatten(-2, s.shape[-3:-1])
        wanted = counts / (counts.amax(dim=-1, keepdim=True) + _TINY)
        squares = (found - wanted[..., None, :]).square()
        present = (counts > 0).to(s.dtype)[..., None, :]
        return (squares * present).amax(dim=-1) + (squares * (1 - present)).amax(dim=-1)


def squash(s: Tensor) -> Tensor:
    r"""Shortens vectors to less than 1, :math:`|\mathbf{s}| \mathbf{s} / (1 + |\mathbf{s}|^2)`."""
    square = s.square().sum(dim=-1, keepdim=True)
    return square / (1 + square) * s / (square + _TINY).sqrt()


def _margin_losses(s: Tensor) -> Tensor:
    """The margin loss for each class, from the capsules of classes, ``(G, C, D) -> (G, C)``."""
    square = s.square().sum(dim=-1)
    activation = square / (1 + square)
    own = (_UPPER - activation).clamp(min=0).square()
    other = _DOWN_WEIGHT * (activation - _LOWER).clamp(min=0).square()
    return own + other.sum(dim=-1, keepdim=True) - other


def _to_dense(x: Features, like: Tensor) -> Tensor:
    if isinstance(x, Tensor):
        return x
    if isinstance(x, Codes):
        place = torch.arange(x.num_codes, device=like.device)
        return (x.code[..., None] == place) * x.weight[..., None].to(like.dtype)
    return x @ torch.eye(x.shape[-1], dtype=like.dtype, device=like.device)


def _check_channels(width: int, channels: int) -> None:
    if width % channels:
        raise UserError(
            f"the width of CapsGNN, {width} reals, cannot be shared among {channels} channels: "
            "change channels or hidden_quats, which is a quarter of the width"
        )
