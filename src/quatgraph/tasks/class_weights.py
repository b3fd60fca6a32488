"""Weights of the classes in the loss of a classifier: the setting ``train.class_weights``."""

import math
import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from quatgraph.data.io.files import to_plain, to_word
from quatgraph.errors import UserError, check_known

_PAIR = re.compile(r"\s*(.+?)\s*:\s*([^:,]+)\s*(?:,|$)")


def parse_class_weights(setting: str) -> dict[str, float]:
    """The weights that a setting gives by name; none for the words ``none`` and ``balanced``.

    A name may hold commas and colons, as long as no number follows them.

    Example:
        >>> parse_class_weights("spam:3, ham:0.5")
        {'spam': 3.0, 'ham': 0.5}
        >>> parse_class_weights("balanced")
        {}
    """
    if setting in ("none", "balanced"):
        return {}
    weights: dict[str, float] = {}
    place = 0
    while place < len(setting) or not setting:
        pair = _PAIR.match(setting, place)
        weight = _to_weight(pair[2]) if pair else None
        if pair is None or weight is None:
            raise ValueError(
                "train.class_weights must be none, balanced, or a positive number for each class "
                f"name, as in spam:3,ham:1, got {setting!r}"
            )
        if pair[1] in weights:
            raise ValueError(f"train.class_weights names the class {pair[1]!r} twice")
        weights[pair[1]] = weight
        place = pair.end()
    return weights


def format_class_weights(weights: object) -> str:
    """The setting that gives weights by class, the inverse of :func:`parse_class_weights`; for None
    it is ``none``.

    Example:
        >>> format_class_weights({"spam": 3, "ham": 0.5})
        'spam:3,ham:0.5'
        >>> format_class_weights({0: 1, 1: 10})
        '0:1,1:10'
    """
    if weights is None:
        return "none"
    if not isinstance(weights, Mapping):
        raise UserError(
            "class_weights must be 'balanced', None, or a dictionary of class and weight, got "
            f"{weights!r}"
        )
    pairs = []
    for label, weight in (map(to_plain, pair) for pair in weights.items()):
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or _to_weight(str(weight)) is None:
            raise UserError(f"class_weights[{label!r}] must be a positive number, got {weight!r}")
        name = to_word(label)
        pair = f"{name}:{weight}"
        read = _PAIR.match(pair)
        if read is None or (read[1], read[0]) != (name, pair):
            raise UserError(f"class_weights cannot name the class {label!r}: rename it")
        pairs.append(pair)
    if not pairs:
        raise UserError("class_weights is empty: give the classes to weigh, or leave it out")
    return ",".join(pairs)


def _to_weight(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0 < weight < math.inf else None


def class_weights(setting: str, names: Sequence[str], parts: Sequence[Tensor]) -> Tensor | None:
    """The weight of each class for each member, ``(M, C)``; None if all are 1.

    ``balanced`` gives a class the weight ``n / (classes * own)``, as scikit-learn does, where
    ``own`` of the ``n`` training items of the member have it. A class without one weighs 0 and does
    not count.

    Args:
        names: The classes.
        parts: The labels of each member's training items.
    """
    if setting == "none":
        return None
    if setting == "balanced":
        counts = torch.stack([part.bincount(minlength=len(names)) for part in parts]).double()
        present = (counts > 0).sum(dim=1, keepdim=True)
        weights = counts.sum(dim=1, keepdim=True) / (present * counts)
        return torch.where(counts > 0, weights, 0).float()
    given = parse_class_weights(setting)
    for name in given:
        check_known(name, names, f"train.class_weights names {name!r}, which is not a class")
    return torch.tensor([[given.get(name, 1.0) for name in names]] * len(parts))


def weighted_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """The mean of losses ``(M, N)`` with weights of the items, not all 0, of the same shape."""
    return (losses * weights).sum(dim=-1) / weights.sum(dim=-1)
