"""Splits into train, valid and test: drawn per class, and checked."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from quatgraph.errors import UserError, did_you_mean

MANY = 20
"""Classes from which on each needs more than two items on average."""
Fold = tuple[Tensor, Tensor]
"""Indices of the items for training, and of those for testing or validation."""
SplitMasks = tuple[Tensor, Tensor, Tensor]
PARTS = ("train", "valid", "test")
SPLIT_WORDS = {
    **dict.fromkeys(("train", "training"), 0),
    **dict.fromkeys(("valid", "val", "validation", "dev", "development"), 1),
    **dict.fromkeys(("test", "testing"), 2),
    "": -1,
}
"""Index into ``PARTS`` of each word for a split, in lower case; -1 for none."""


def part_numbers(
    words: Sequence[str], known: Mapping[str, int], at: Callable[[int], str]
) -> list[int]:
    """The split that each word names, in any letter case; for the words see :data:`SPLIT_WORDS`."""
    folded = [word.casefold() for word in words]
    for row, word in enumerate(folded):
        if word not in known:
            raise UserError(
                f"{at(row)} has the unknown split {words[row]!r}; "
                f"write {', '.join(PARTS)} or leave it empty{did_you_mean(word, PARTS)}"
            )
    return [known[word] for word in folded]


def spelling_notes(words: Iterable[str]) -> list[str]:
    """Reports words for a split that some read differently."""
    found = dict.fromkeys(word for word in words if word.casefold() in ("dev", "development"))
    return [f"the split {word!r} is read as valid" for word in found]


def check_classes(y: Tensor, names: Sequence[object], noun: str) -> None:
    """Refuses labels that nearly all differ, as measured numbers or ids do.

    Args:
        y: Class of each item, ``(N,)``, negative if unknown.
        noun: The plural of an item.
    """
    count = int((y >= 0).sum())
    if len(names) > MANY and count <= 2 * len(names):
        raise UserError(
            f"{count:,} labelled {noun} have {len(names):,} different labels, such as "
            f"{str(names[0])!r}, too many to learn as classes: group them, numbers into ranges, "
            "or name another column with --set data.label=NAME"
        )


def drawn_note(sizes: Sequence[int], noun: str, where: str, seed: int) -> str:
    """Reports a drawn split by the sizes of its parts.

    Example:
        >>> drawn_note([20, 7, 7], "nodes", "nodes.csv", seed=0)
        'nodes.csv has no split: drawn with seed 0, 20 nodes for train, 7 for valid and 7 for test'
    """
    train, valid, test = (f"{size:,}" for size in sizes)
    parts = f"{train} {noun} for train, {valid} for valid and {test} for test"
    return f"{where} has no split: drawn with seed {seed}, {parts}"


def stratified_split(
    y: Tensor, seed: int, fractions: tuple[float, float, float] = (0.6, 0.2, 0.2)
) -> SplitMasks:
    """Draws train, valid and test masks ``(N,)``, class by class.

    A class of three or more nodes has at least one in each split; a smaller class is in train only.
    Unlabelled nodes (``-1``) are in none.

    Example:
        >>> train, valid, test = stratified_split(torch.tensor([0, 0, 0, 1, 1, 1, -1]), seed=0)
        >>> int(train.sum()), int(valid.sum()), int(test.sum())
        (2, 2, 2)
    """
    if seed < 0:
        raise UserError(f"the seed of a split must be 0 or more, got {seed}")
    if min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-6:
        raise UserError(f"the fractions of a split must be positive and sum to 1, got {fractions}")
    masks = [torch.zeros(y.numel(), dtype=torch.bool) for _ in PARTS]
    for nodes in _shuffled_classes(y, seed):
        sizes = _sizes(nodes.numel(), fractions)
        for mask, part in zip(masks, nodes.split(sizes), strict=True):
            mask[part] = True
    return masks[0], masks[1], masks[2]


def inner_validation(y: Tensor, train: Tensor, seed: int, fraction: float = 0.1) -> Fold:
    """Takes a stratified part of the training items for validation.

    The part has its share of every class, rounded, and at least one item of a class with two or
    more; at least one item of every class is left to train on.

    Args:
        y: Class of each item, ``(G,)``.
        train: Indices of the training items, ``(K,)``; unlabelled ones are dropped.
        fraction: Share of the part, between 0 and 1.

    Returns:
        Indices for training and for validation, both sorted.
    """
    check_seed(seed)
    if not 0 < fraction < 1:
        raise UserError(f"the validation share must be between 0 and 1, got {fraction}")
    train = train[y[train] >= 0].sort().values
    is_valid = torch.zeros(train.numel(), dtype=torch.bool)
    for members in _shuffled_classes(y[train], seed):
        count = min(max(1, int(members.numel() * fraction + 0.5)), members.numel() - 1)
        is_valid[members[:count]] = True
    if not bool(is_valid.any()):
        raise UserError("no class has two items to train on, so none can be held out; add some")
    return train[~is_valid], train[is_valid]


def check_split(y: Tensor, masks: SplitMasks, label_names: list[str], *, where: str) -> list[str]:
    """Refuses masks ``(N, S)`` with an empty part, or with training nodes of a single class.

    Unlabelled nodes (``-1``) are ignored. ``where`` is the source of the split, for messages.

    Returns:
        Notes on classes without a training node, which no model can learn.
    """
    if len(label_names) < 2:
        raise UserError(
            f"all labelled nodes in {where} have one class; training needs at least two"
        )
    train, valid, test = parts = tuple(mask & (y >= 0).unsqueeze(1) for mask in masks)
    if bool(((train & valid) | (train & test) | (valid & test)).any()):
        raise UserError(f"{where} puts a node into two parts of one split; let each be in one")
    for part, mask in zip(PARTS, parts, strict=True):
        if not bool(mask.any(dim=0).all()):
            raise UserError(
                f"{where} leaves no labelled node for the {part} part; "
                "label more nodes or give a split of your own"
            )
    of_class = torch.stack([(y == label).unsqueeze(1) for label in range(len(label_names))])
    untrained = ~(of_class & train).any(dim=1)  # (C, S)
    if bool(((~untrained).sum(dim=0) < 2).any()):
        raise UserError(
            f"all training nodes in {where} have one class; mark nodes of another class as train"
        )
    notes = []
    for label in untrained.any(dim=1).nonzero().flatten().tolist():
        if not bool(of_class[label].any()):
            notes.append(f"no node has the class {label_names[label]!r}")
            continue
        splits = untrained[label]
        own = (of_class[label] & test)[:, splits].sum(dim=0).double()
        share = float((own / test[:, splits].sum(dim=0)).mean())
        among = f" in {int(splits.sum())} of {splits.numel()} splits" if splits.numel() > 1 else ""
        notes.append(
            f"class {label_names[label]!r} has no training node in {where}{among}: its nodes count "
            f"as errors, among them {100 * share:.1f} % of the test nodes"
        )
    return notes


def _shuffled_classes(y: Tensor, seed: int) -> Iterator[Tensor]:
    """The items of each class in a random order."""
    random = np.random.default_rng(seed)
    for label in y[y >= 0].unique():
        items = (y == label).nonzero().flatten()
        yield items[torch.from_numpy(random.permutation(items.numel()))]


def _sizes(count: int, fractions: tuple[float, float, float]) -> list[int]:
    if count < len(PARTS):
        return [count, 0, 0]
    valid, test = (max(1, int(count * share + 0.5)) for share in fractions[1:])
    while valid + test >= count:
        valid, test = (valid - 1, test) if valid > test else (valid, test - 1)
    return [count - valid - test, valid, test]


def check_seed(seed: int) -> None:
    """Refuses a seed that numpy's generators do not accept."""
    if not 0 <= seed < 2**32:
        raise UserError(f"a seed must be a whole number from 0 to {2**32 - 1}, got {seed}")
