"""Splits that keep groups whole: all items of an author, a patient or a scaffold in one part."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from quatgraph.data.splits import Fold, check_seed
from quatgraph.errors import UserError

Counts = NDArray[np.float64]


def encode_groups(names: Sequence[str]) -> Tensor:
    """The number of each item's group, ``(N,)``; an item without a name is a group of its own."""
    numbers: dict[str | int, int] = {}
    keys = (name or row for row, name in enumerate(names))
    return torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys], dtype=torch.long)


def split_groups(y: Tensor, groups: Tensor, shares: Sequence[float], seed: int) -> Tensor:
    """Distributes groups over parts so that each part has its share of every class.

    With equal shares the parts are the folds of scikit-learn's ``StratifiedGroupKFold(len(shares),
    shuffle=True, random_state=seed)``. No part stays empty.

    Args:
        y: Class of each item, ``(N,)``; unlabelled items (``-1``) are in no part.
        groups: Number of each item's group, ``(N,)``.
        shares: Share of each part; they sum to 1.

    Returns:
        The part of each item, ``(N,)``; ``-1`` for none.

    Example:
        >>> y, groups = torch.tensor([0, 1, 0, 1, 1, -1]), torch.tensor([3, 3, 5, 5, 7, 7])
        >>> split_groups(y, groups, (0.5, 0.5), seed=0)
        tensor([ 0,  0,  1,  1,  0, -1])
    """
    check_seed(seed)
    known = (y >= 0).nonzero().flatten()
    classes, labels = np.unique(y[known].numpy(), return_inverse=True)
    names, group_of = np.unique(groups[known].numpy(), return_inverse=True)
    if len(names) < len(shares):
        raise UserError(
            f"{len(names)} groups of labelled items are too few for {len(shares)} parts; group "
            "them by another column, or leave out data.group"
        )
    counts = np.zeros((len(names), len(classes)))
    np.add.at(counts, (group_of, labels), 1)
    order = np.arange(len(names))
    np.random.RandomState(seed).shuffle(order)
    # Groups that upset the balance most come first; the many small ones then restore it.
    order = order[np.argsort(-counts[order].std(axis=1), kind="stable")]
    part_of = np.empty(len(names), dtype=np.int64)
    filled = np.zeros((len(shares), len(classes)))
    wanted = np.outer(np.divide(shares, max(shares)), counts.sum(axis=0))
    for place, group in enumerate(order):
        part = _best_part(filled, wanted, counts[group], left=len(order) - place)
        part_of[group] = part
        filled[part] += counts[group]
    parts = torch.full_like(y, -1)
    parts[known] = torch.from_numpy(part_of[group_of])
    return parts


def group_folds(y: Tensor, groups: Tensor, num_folds: int, seed: int) -> list[Fold]:
    """Folds of the labelled items that keep groups whole, see :func:`split_groups`."""
    parts = split_groups(y, groups, [1 / num_folds] * num_folds, seed)
    return [
        (((parts >= 0) & (parts != fold)).nonzero().flatten(), (parts == fold).nonzero().flatten())
        for fold in range(num_folds)
    ]


def group_validation(y: Tensor, groups: Tensor, train: Tensor, seed: int, fraction: float) -> Fold:
    """Takes whole groups of the training items for validation.

    Returns:
        Indices for training and for validation, both sorted.
    """
    train = train[y[train] >= 0].sort().values
    parts = split_groups(y[train], groups[train], (1 - fraction, fraction), seed)
    return train[parts == 0], train[parts == 1]


def _best_part(filled: Counts, wanted: Counts, counts: Counts, left: int) -> int:
    """The part that a group fits best: after it, parts are filled most evenly, class by class; of
    equal ones the emptiest. If only as many groups are left as parts are empty, an empty one."""
    sizes = filled.sum(axis=1).tolist()
    tried = filled + np.eye(len(filled))[:, :, None] * counts
    uneven = (tried / wanted).std(axis=1).mean(axis=1).tolist()
    empty = [part for part, size in enumerate(sizes) if not size]
    best, *others = empty if left <= len(empty) else range(len(sizes))
    for part in others:
        level = math.isclose(uneven[part], uneven[best], rel_tol=1e-5, abs_tol=1e-8)
        if uneven[part] < uneven[best] or (level and sizes[part] < sizes[best]):
            best = part
    return best
