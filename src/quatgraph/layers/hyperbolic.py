"""Graph convolutions in the Poincaré ball."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from quatgraph.adjacency import Adjacency
from quatgraph.layers.dropout import QuaternionDropout
from quatgraph.layers.linear import Matrix
from quatgraph.poincare import clip_factor, clip_tangent, exp0, log0, mobius_add, norm, project


class HyperbolicConv(nn.Module):
    r"""The graph convolution of `Hyperbolic Graph Convolutional Neural Networks
    <https://arxiv.org/abs/1910.12933>`_, without attention, in a ball of learned curvature.

    .. math::
        \mathbf{x}_v = \exp_0(\mathbf{W} \mathbf{u}_v) \oplus \exp_0(\mathbf{b}), \qquad
        \mathbf{u}'_v = g\Big(\sum_u a_{v,u} \log_0 \mathbf{x}_u\Big)

    Points of the ball are given by their tangent vectors at the origin. The paper's layer starts
    and ends with points, but its :math:`\log_0` undoes the :math:`\exp_0` before it. What remains
    of both is :func:`quatgraph.poincare.clip_tangent`. So without bias, and while no vector is
    clipped, the layer is a GCN layer, whatever the curvature.

    Args:
        in_channels, out_channels: Widths of the tangent vectors.
        bias: Whether to add a learned point, the only part that is not linear in the tangent space.
        dropout: Rate on the weights.
        curvature: The curvature c at the start.
        learned_curvature: Whether c is learned; it stays positive.

    Shape:
        - u: ``(N, in_channels)``, dense or sparse
        - matrix: of N nodes, usually row-normalized
        - output: ``(N, out_channels)``
    """

    curvature: Tensor
    """The inverse of softplus at c, ``(1, 1)``."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        curvature: float = 1.0,
        learned_curvature: bool = True,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels)) if bias else None
        raw = torch.full((1, 1), curvature + math.log(-math.expm1(-curvature)))
        if learned_curvature:
            self.curvature = nn.Parameter(raw)
        else:
            self.register_buffer("curvature", raw)
        self.dropout = QuaternionDropout(dropout)
        nn.init.xavier_uniform_(self.weight, gain=math.sqrt(2))

    def forward(self, u: Tensor | Adjacency, matrix: Matrix) -> Tensor:
        return self.receive(self.send(u), matrix)

    def send(self, u: Tensor | Adjacency) -> Tensor:
        """The tangent vectors of the points before the sums, ``(N, out_channels)``."""
        c = F.softplus(self.curvature)
        length = norm(u) if isinstance(u, Tensor) else _row_norms(u)
        v = (u @ self.dropout(self.weight).mT) * clip_factor(length, c)
        if self.bias is None:
            v = clip_tangent(v, c)
        else:
            shift = project(exp0(self.bias.unsqueeze(-2), c), c)
            v = log0(project(mobius_add(project(exp0(v, c), c), shift, c), c), c)
        return v

    def receive(self, sent: Tensor, matrix: Matrix) -> Tensor:
        return torch.relu(clip_tangent(matrix @ sent, F.softplus(self.curvature)))


def _row_norms(x: Adjacency) -> Tensor:
    """The length of each row of a sparse matrix, ``(N, 1)``."""
    squares = x.with_weight(x.weight.square()) @ x.weight.new_ones(x.shape[1], 1)
    return squares.clamp(min=torch.finfo(squares.dtype).tiny).sqrt()
