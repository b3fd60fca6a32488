"""Learning rates that follow the validation metric, for an ensemble."""

from dataclasses import dataclass

import torch
from torch import Tensor

THRESHOLD = 1e-4
"""The share by which a metric must rise to be better."""
_LEAST_CHANGE = 1e-8
"""Smaller changes of a learning rate are left out, as by torch."""


@dataclass(frozen=True, slots=True)
class Plateau:
    """Multiplies a member's learning rate by ``factor`` after more than ``patience`` evaluations
    without a better metric."""

    factor: float
    patience: int


class PlateauSchedule:
    """:class:`torch.optim.lr_scheduler.ReduceLROnPlateau` in its mode ``max``, of each member.

    It changes the learning rates ``(M,)`` in place, on their device, without waiting for it.
    """

    def __init__(self, plateau: Plateau, lr: Tensor) -> None:
        self.plateau, self.lr = plateau, lr
        self.best = torch.full_like(lr, -torch.inf, dtype=torch.float64)
        self.num_bad = torch.zeros_like(lr, dtype=torch.int64)

    def step(self, value: Tensor) -> None:
        """Takes the members' metrics ``(M,)`` of an evaluation."""
        value = value.to(self.best.dtype)
        better = value > self.best * (1 + THRESHOLD)
        self.best.copy_(torch.where(better, value, self.best))
        num_bad = torch.where(better, 0, self.num_bad + 1)
        drops = num_bad > self.plateau.patience
        self.num_bad.copy_(torch.where(drops, 0, num_bad))
        lower = self.lr * self.plateau.factor
        drops &= self.lr - lower > _LEAST_CHANGE
        self.lr.copy_(torch.where(drops, lower, self.lr))

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name, but for the learning rates."""
        return {"best": self.best, "num_bad": self.num_bad}
