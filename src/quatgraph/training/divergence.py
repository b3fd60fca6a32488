"""Finds the members of an ensemble that diverged."""

import math

import torch

from quatgraph.training.loop import Fit

LARGEST_WEIGHT = 1e5
"""Networks start with weights around 1, and no useful training takes them this far."""
LARGEST_LOSS = {"train": 1e4, "valid": 1e8}
"""A loss is a mean of cross-entropies, a few units before training. A single validation item may
have a large one, because batch norm uses the statistics of others. Test data is not checked."""
PARTS = {"train": "training", "valid": "validation"}


def find_divergence(fit: Fit) -> list[str]:
    """Why each member diverged at its selected epoch, as ``the training loss is nan``; empty for a
    healthy one."""
    members = len(fit.loss)
    largest = torch.zeros(members)
    for name, value in fit.weights.items():
        if value.numel() and value.is_floating_point():  # integers are never trained
            each = value.detach().reshape(members, -1).abs().amax(dim=1).float().cpu()
            if "running_" in name:  # statistics of the data, of any size
                each = each.where(~each.isfinite(), 0.0)
            largest = torch.maximum(largest, each)  # NaN is the largest
    return [
        _describe(weight, loss, {name: float(value[m]) for name, value in fit.metrics.items()})
        for m, (weight, loss) in enumerate(zip(largest.tolist(), fit.loss.tolist(), strict=True))
    ]


def _describe(weight: float, step_loss: float, metrics: dict[str, float]) -> str:
    if not math.isfinite(weight):
        return "the weights are not finite numbers"
    losses = [("train", step_loss)]
    for part in PARTS:
        empty = math.isnan(metrics.get(f"{part}/accuracy", 0.0))  # has no loss either
        losses += [] if empty else [(part, metrics.get(f"{part}/loss", 0.0))]
    for part, loss in losses:
        if not loss <= LARGEST_LOSS[part]:
            return f"the {PARTS[part]} loss is {loss:.2g}"
    return f"the weights reached {weight:.2g}" if weight > LARGEST_WEIGHT else ""
