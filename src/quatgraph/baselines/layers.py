"""Real-valued layers in the form the quaternion ones have, so that comparisons share all code.

They hold PyG's parameters and equal PyG's convolutions number for number (the tests compare), but
take sparse features, run inside an ensemble and repeat bit for bit on a GPU.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers import QuaternionDropout


class Linear(nn.Linear):
    """:class:`torch.nn.Linear` with Glorot's start that also takes sparse rows."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | Adjacency) -> Tensor:
        if isinstance(x, Tensor):
            return super().forward(x)
        y = x @ self.weight.mT
        return y if self.bias is None else y + self.bias


class GraphConv(nn.Module):
    r"""PyG's ``GCNConv`` on a prepared graph: :math:`\mathbf{A X W}^\top + \mathbf{b}`.

    Shape:
        - x: ``(N, in_channels)``, dense or sparse
        - output: ``(N, out_channels)``
    """

    def __init__(self, in_channels: int, out_channels: int, *, bias: bool = True) -> None:
        super().__init__()
        self.linear = Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        y = adjacency @ self.linear(x)
        return y if self.bias is None else y + self.bias


class GraphAttention(nn.Module):
    r"""PyG's ``GATConv`` on a prepared graph with self-loops.

    .. math::
        \alpha_{v,u} = \mathrm{softmax}_u\big(\mathrm{LeakyReLU}_{0.2}(
        \mathbf{a}^\top \mathbf{W} \mathbf{x}_u + \mathbf{b}^\top \mathbf{W} \mathbf{x}_v)\big),
        \qquad \mathbf{y}_v = \sum_u \alpha_{v,u} \mathbf{W} \mathbf{x}_u

    Args:
        heads: Independent attentions, concatenated.
        dropout: Rate on the attention coefficients.

    Shape:
        - x: ``(N, in_channels)``, dense or sparse
        - output: ``(N, heads * out_channels)``
    """

    def __init__(
        self, in_channels: int, out_channels: int, *, heads: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.heads = heads
        self.linear = Linear(in_channels, heads * out_channels, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, out_channels))
        self.att_dst = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = nn.Parameter(torch.zeros(heads * out_channels))
        self.dropout = QuaternionDropout(dropout)
        for weight in (self.att_src, self.att_dst):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor | Adjacency, adjacency: Adjacency) -> Tensor:
        y = self.linear(x).unflatten(-1, (self.heads, -1))  # (N, H, F)
        receivers = adjacency.gather_receivers()
        logits = F.leaky_relu(
            adjacency.gather_senders() @ (y * self.att_src).sum(dim=-1)
            + receivers @ (y * self.att_dst).sum(dim=-1),
            0.2,
        )  # (E, H)
        with torch.no_grad():  # the largest logit of each row, only against overflow
            row = receivers.col.long()[:, None].expand_as(logits)
            lowest = torch.full_like(y[:, :, 0], -torch.inf)
            peak = lowest.scatter_reduce(0, row, logits, reduce="amax")
            shift = peak.gather(0, row)
        present = (adjacency.weight != 0).to(y.dtype)[:, None]
        score = (logits - shift).exp() * present
        total = receivers.transpose() @ score  # (N, H)
        summed = torch.vmap(
            lambda weight, values: adjacency.with_weight(weight) @ values, randomness="different"
        )(self.dropout(score).mT, y.movedim(1, 0))  # (H, N, F)
        mean = summed.movedim(0, 1) / total.clamp(min=1e-16)[..., None]
        return mean.flatten(-2) + self.bias
