"""Activations by name, and their derivatives."""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Activation = Literal["relu", "tanh", "elu", "none"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "elu": F.elu,
    "none": lambda x: x,
}
ACTIVATION_GRADS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": lambda y: (y > 0).to(y.dtype),
    "tanh": lambda y: 1 - y.square(),
    "elu": lambda y: y.clamp(max=0) + 1,
    "none": torch.ones_like,
}
"""The derivative of each as a function of its output y."""
