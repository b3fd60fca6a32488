"""Real-valued counterparts of the quaternion layers.

They have the parameters and outputs of PyG's layers, but also take sparse and one-hot features, run
in an ensemble, and repeat bit for bit on a GPU. A convolution maps features ``(N, in_channels)`` to
``(N, out_channels)`` on a prepared graph of N nodes.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.blocks import Blocks
from quatgraph.errors import UserError
from quatgraph.hops import own_rows
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.linear import Features, GlorotLinear, Matrix, RealLinear, sums_first
from quatgraph.layers.messages import MessageGraph
from quatgraph.layers.neighbours import attend
from quatgraph.layers.norm import BatchNorm
from quatgraph.ops.members import add_bias


class LinearOfSums(RealLinear):
    r""":class:`torch.nn.Linear` of summed rows: :math:`\mathbf{A X W}^\top + \mathbf{b}`. Sparse
    rows are mapped before they are summed.

    Shape:
        - x: ``(N, in_features)``, dense, sparse or one-hot
        - matrix: ``(R, N)``
        - output: ``(R, out_features)``
    """

    def forward(self, x: Features, matrix: Matrix) -> Tensor:  # type: ignore[override]
        if isinstance(x, Tensor):
            return super().forward(matrix @ x)
        return add_bias(matrix @ (x @ self.weight.mT), self.bias)


class GraphConv(nn.Module):
    r"""PyG's ``GCNConv`` on a prepared graph: :math:`\mathbf{A X W}^\top + \mathbf{b}`."""

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = True) -> None:
        super().__init__()
        self.out_channels = out_channels
        self.linear = GlorotLinear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(self, x: Features, adjacency: Matrix) -> Tensor:
        return self.receive(self.send(x), x, adjacency)

    def send(self, x: Features) -> Tensor:
        """The mapped rows of x, or x itself if :func:`sums_first`."""
        if sums_first(x, self.out_channels):
            return x
        sent: Tensor = self.linear(x)
        return sent

    def receive(self, sent: Tensor, x: Features, matrix: Matrix, begin: int = 0) -> Tensor:
        y = matrix @ sent
        return add_bias(self.linear(y) if sent is x else y, self.bias)


class NeighbourMean(nn.Module):
    r"""PyG's ``SAGEConv`` on a row-normalized graph without self-loops:
    :math:`\mathbf{X U}^\top + \mathbf{A X W}^\top + \mathbf{b}`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.own = RealLinear(in_channels, out_channels)
        self.neighbours = RealLinear(in_channels, out_channels, bias=False)

    def forward(self, x: Features, adjacency: Matrix) -> Tensor:
        return self.own(x) + adjacency @ self.neighbours(x)


class SumPerceptron(nn.Module):
    r"""PyG's ``GINConv`` with a perceptron of one hidden layer, on a graph with self-loops and no
    normalization: :math:`\mathrm{MLP}(\mathbf{A X})`. For ``mask`` see :class:`BatchNorm`. On a
    :class:`MessageGraph`, whose features of edges ``edges`` maps, it is ``GINEConv`` of the first
    layer's output."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.first = LinearOfSums(in_channels, out_channels)
        self.norm = BatchNorm(out_channels, "relu")
        self.second = RealLinear(out_channels, out_channels)

    def forward(
        self,
        x: Features,
        adjacency: Matrix | MessageGraph,
        mask: Tensor | None = None,
        edges: nn.Module | None = None,
    ) -> Tensor:
        if isinstance(adjacency, MessageGraph):
            assert edges is not None
            y = adjacency.sum_messages(RealLinear.forward(self.first, x), edges)
        else:
            y = self.first(x, adjacency)
        return self.second(self.norm(y, mask))


class GraphAttention(nn.Module):
    r"""PyG's ``GATConv`` on a graph with self-loops; entries with weight 0 are ignored.

    .. math::
        \alpha_{v,u} = \mathrm{softmax}_u\big(\mathrm{LeakyReLU}_{0.2}(
        \mathbf{a}^\top \mathbf{W} \mathbf{x}_u + \mathbf{b}^\top \mathbf{W} \mathbf{x}_v)\big),
        \qquad \mathbf{y}_v = \sum_u \alpha_{v,u} \mathbf{W} \mathbf{x}_u

    Args:
        heads: Number of attention heads, which are concatenated.
        dropout: Rate on the attention coefficients.

    Shape:
        - output: ``(N, heads * out_channels)``
        - with several members, x, the parameters and the output have a leading ``M``, and the graph
          is :class:`Blocks` of all of them
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.linear = GlorotLinear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))
        self.dropout = QuaternionDropout(dropout)
        for weight in (self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Features, adjacency: Matrix) -> Tensor:
        return self.receive(self.send(x), x, adjacency)

    def send(self, x: Features) -> Tensor:
        sent: Tensor = self.linear(x)
        return sent.unflatten(-1, (self.heads, -1))  # (N, H, F)

    def receive(self, y: Tensor, x: Features, adjacency: Matrix, begin: int = 0) -> Tensor:
        dropout: Callable[[Tensor], Tensor] = self.dropout
        if isinstance(adjacency, Blocks):
            dropout, own = partial(self._drop_entries, blocks=adjacency), y
            adjacency = adjacency.joined
        else:
            own = own_rows(y, adjacency, begin)
        source = (y * self.att_src.unsqueeze(-3)).sum(dim=-1)  # (N, H)
        target = (own * self.att_dst.unsqueeze(-3)).sum(dim=-1)
        logits = F.leaky_relu(
            adjacency.gather_senders() @ source.flatten(0, -2)
            + adjacency.gather_receivers() @ target.flatten(0, -2),
            0.2,
        )  # (E, H)
        z = attend(adjacency, y.flatten(0, -3), logits, dropout).flatten(-2)
        return add_bias(z.view(*own.shape[:-2], -1), self.bias)

    def _drop_entries(self, score: Tensor, blocks: Blocks) -> Tensor:
        """Dropout of values of entries ``(E, H)``, for which each member has its own masks."""
        if not self.training:
            return score
        place, most = blocks.entry_places
        ones = score.new_ones(*blocks.row.shape[:-1], most, score.size(-1))
        factor: Tensor = self.dropout(ones)
        return score * factor.flatten(0, -2).index_select(0, place)


def check_heads(width: int, heads: int) -> None:
    """Checks that GAT's real width is divisible by its heads."""
    if width % heads:
        raise UserError(
            f"GAT's width of {width} reals cannot be shared among {heads} heads: change heads or "
            "hidden_quats, which is a quarter of the width"
        )
