"""Batch normalisation of the nodes of a batch, which may be padded."""

import torch
from torch import Tensor, nn

from quatgraph.ops.masked_norm import masked_norm


class BatchNorm(nn.Module):
    """:class:`torch.nn.BatchNorm1d` for rows of which some are padding.

    Padding never enters the statistics. A batch of fewer than two rows has no variance: it leaves
    the running statistics as they are.

    Args:
        features: Width F of a row.

    Shape:
        - x: ``(N, F)``
        - present: 0 for the rows that are padding, else 1, ``(N,)``; None where none is
        - output: ``(N, F)``
        - of several members each with a leading ``M``, the parameters too
    """

    eps, momentum = 1e-5, 0.1
    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, present: Tensor | None = None) -> Tensor:
        if not self.training:
            scale = torch.rsqrt(self.running_var + self.eps).unsqueeze(-2)
            centred = x - self.running_mean.unsqueeze(-2)
            return centred * scale * self.weight.unsqueeze(-2) + self.bias.unsqueeze(-2)
        y, mean, var = masked_norm(x, present, self.weight, self.bias, self.eps)
        if present is None:
            self._follow_all(mean, var, x.size(-2))
        else:
            self._follow(mean, var, present.sum(dim=-1, keepdim=True, dtype=x.dtype))
        return y

    @torch.no_grad()
    def _follow_all(self, mean: Tensor, var: Tensor, count: int) -> None:
        """As :meth:`_follow`, where the number of rows is known without asking the device."""
        if count > 1:
            unbiased = self.momentum * count / (count - 1)
            self.running_mean.mul_(1 - self.momentum).add_(mean, alpha=self.momentum)
            self.running_var.mul_(1 - self.momentum).add_(var, alpha=unbiased)

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, count: Tensor) -> None:
        """Brings the running statistics a step closer to those of so many rows, ``(1,)``."""
        step = self.momentum * (count > 1).to(mean.dtype)
        unbiased = var * count / (count - 1).clamp(min=1)
        self.running_mean.add_(step * (mean - self.running_mean))
        self.running_var.add_(step * (unbiased - self.running_var))
