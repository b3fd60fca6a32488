"""Batch normalization of padded batches."""

import torch
from torch import Tensor, nn

from quatgraph.ops.activation import ACTIVATIONS, Activation
from quatgraph.ops.masked_norm import masked_norm


class BatchNorm(nn.Module):
    """:class:`torch.nn.BatchNorm1d` for padded rows, followed by an activation.

    Padding does not enter the statistics. A batch of fewer than two rows has no variance and
    leaves the running statistics unchanged.

    Args:
        features: Width F of a row.
        activation: Applied to the normalized rows.
        affine: Whether scale and shift are learned.

    Shape:
        - x: ``(N, F)``
        - mask: 0 for padding rows, else 1, ``(N,)``; None without padding
        - output: ``(N, F)``
        - with several members, all of these and the parameters have a leading ``M``
    """

    eps, momentum = 1e-5, 0.1
    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self, features: int, activation: Activation = "none", *, affine: bool = True
    ) -> None:
        super().__init__()
        self.activation = activation
        for name, value in (("weight", torch.ones(features)), ("bias", torch.zeros(features))):
            if affine:
                self.register_parameter(name, nn.Parameter(value))
            else:
                self.register_buffer(name, value, persistent=False)
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        vectors = self.weight, self.bias, self.running_mean, self.running_var
        if self.training:
            return masked_norm(
                x, mask, *vectors, eps=self.eps, momentum=self.momentum, activation=self.activation
            )
        weight, bias, mean, var = (vector.unsqueeze(-2) for vector in vectors)
        y = (x - mean) * torch.rsqrt(var + self.eps) * weight + bias
        return ACTIVATIONS[self.activation](y)
