"""Finds inputs that overflow float32 arithmetic within a network."""

from collections.abc import Callable

import torch
from torch import Tensor

from quatgraph.errors import UserError

LARGEST = 1e18
"""The largest input: squares and sums of products of larger ones are infinite."""
SUSPICIOUS = 1e4
"""Scaled inputs stay far below it; a larger one explains an overflow."""
ADVICE = "too large for float32 arithmetic: correct it or scale it down"


def find_beyond(values: Tensor, limit: float) -> tuple[int, ...] | None:
    """The index of the largest magnitude, if it is beyond a limit; NaN is beyond any.

    Example:
        >>> import torch
        >>> find_beyond(torch.tensor([[1.0, -9.0], [2.0, 8.0]]), limit=5.0)
        (0, 1)
        >>> find_beyond(torch.tensor([[1.0, -9.0], [2.0, 8.0]]), limit=10.0)
    """
    if not values.numel():
        return None
    low, high = (float(end) for end in values.aminmax())
    if -low <= limit and high <= limit:
        return None
    largest = values.abs().nan_to_num(nan=float("inf")).argmax()
    return tuple(int(index) for index in torch.unravel_index(largest, values.shape))


def refuse_beyond(values: Tensor, describe: Callable[..., str]) -> None:
    """Refuses inputs beyond :data:`LARGEST`; ``describe`` names the one at an index."""
    if place := find_beyond(values, LARGEST):
        raise UserError(f"{describe(*place)}, {ADVICE}")
