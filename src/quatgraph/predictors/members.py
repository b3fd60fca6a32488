"""The members of a bundle, and how their outputs are combined."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from quatgraph.tasks.combination import apply_temperature

Config = TypeVar("Config")
Value = TypeVar("Value")
Attention = list[dict[str, float]]
"""For each text a weight by word."""


class Cache:
    """Values that are computed once, also when several threads ask for them at the same time."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._values: dict[Hashable, Any] = {}

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        with self._lock:
            if key not in self._values:
                self._values[key] = compute()
            found: Value = self._values[key]
            return found


@dataclass(frozen=True, eq=False)
class TrainedMember(Generic[Config]):
    """One of the models whose predictions are combined."""

    config: Config
    split: int
    seed: int
    weight: float
    model: Any
    """A model of the task, in evaluation mode."""
    preparation: Any
    """What its inputs are prepared with: the scaling of features, the vectors of words."""


def combine_logits(
    logits: Tensor, members: Sequence[TrainedMember[Any]], temperature: float = 1.0
) -> Tensor:
    """The logarithms of the weighted mean of the members' probabilities, calibrated by a
    temperature, in float64 on the CPU.

    NaN where a logit is not finite: an infinite one would give probabilities that look fine.

    Shape:
        - logits: ``(M, N, C)``
        - output: ``(N, C)``
    """
    finite = logits.isfinite().all(dim=-1, keepdim=True)
    each = torch.where(finite, logits.double().log_softmax(dim=-1), torch.nan).cpu()
    weights = torch.tensor([member.weight for member in members], dtype=torch.float64)
    combined = (each + (weights / weights.sum()).log()[:, None, None]).logsumexp(dim=0)
    return apply_temperature(combined, temperature)


def split_by_size(
    sizes: Sequence[float], capacity: float, *, padded: bool = False
) -> Iterator[list[int]]:
    """Groups consecutive places whose sizes sum to at most the capacity, or that are alone;
    ``padded`` counts each as large as the largest of its group."""
    group: list[int] = []
    filled = largest = 0.0
    for place, size in enumerate(sizes):
        largest = max(largest, size)
        needed = largest * (len(group) + 1) if padded else filled + size
        if group and needed > capacity:
            yield group
            group, filled, largest = [], 0.0, size
        group.append(place)
        filled += size
    if group:
        yield group


def average_attention(found: Sequence[tuple[float, Attention]]) -> Attention:
    """The weighted mean of members' attention, the weightiest words of a text first."""
    total = sum(weight for weight, _ in found)
    texts = zip(*(attention for _, attention in found), strict=True)
    means = (
        {
            w: sum(weight * own[w] for (weight, _), own in zip(found, text, strict=True)) / total
            for w in text[0]
        }
        for text in texts
    )
    return [dict(sorted(words.items(), key=lambda item: -item[1])) for words in means]
