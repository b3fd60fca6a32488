"""Folds for cross-validation: drawn per class, or the published lists of a dataset."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from quatgraph.data.io import store
from quatgraph.data.io.numbers import whole_numbers
from quatgraph.data.labels import leave_out
from quatgraph.data.splits import Fold, check_classes, check_seed
from quatgraph.errors import UserError


def stratified_folds(
    y: Tensor, num_folds: int = 10, seed: int = 0, *, names: Sequence[str] | None = None
) -> list[Fold]:
    """Splits the labelled graphs into folds with the same class proportions.

    The folds are those of scikit-learn's ``StratifiedKFold(num_folds, shuffle=True,
    random_state=seed)``, which published results use. Unlabelled graphs (``-1``) are in none.

    Args:
        y: Class of each graph, ``(G,)``.
        num_folds: Number of folds; each class needs as many graphs.
        names: Names of the classes, for messages.

    Example:
        >>> stratified_folds(torch.tensor([0, 1, 0, 1, -1]), num_folds=2)
        [(tensor([0, 3]), tensor([1, 2])), (tensor([1, 2]), tensor([0, 3]))]
    """
    check_seed(seed)
    if num_folds < 2:
        raise UserError(f"there must be at least 2 folds, got {num_folds}")
    known = (y >= 0).nonzero().flatten()
    labels = y[known].numpy()
    if not len(labels):
        raise UserError("no graph has a label; folds need labelled graphs")
    if names:
        check_classes(y, names, "graphs")
    classes, first_seen, sizes = np.unique(labels, return_index=True, return_counts=True)
    label, size = int(classes[sizes.argmin()]), int(sizes.min())
    if size < num_folds:
        fewer = f"take fewer with data.num_folds={size}, " if size > 1 else ""
        name = names[label] if names else label
        raise UserError(
            f"the class {name!r} has {size} "
            f"{'graph' if size == 1 else 'graphs'}, too few for {num_folds} folds: {fewer}"
            f"add graphs, or {leave_out(str(name))}"
        )
    # As in scikit-learn: graphs sorted by class, in order of first appearance, are dealt to the
    # folds in turn, which sets the number of each class per fold; then each class is shuffled.
    random = np.random.RandomState(seed)
    fold_of = np.empty(len(labels), dtype=np.int64)
    dealt = 0
    for place in np.argsort(first_seen):
        cards = np.sort(np.arange(dealt, dealt + sizes[place]) % num_folds)
        random.shuffle(cards)
        fold_of[labels == classes[place]] = cards
        dealt += sizes[place]
    parts = torch.from_numpy(fold_of)
    return [(known[parts != fold], known[parts == fold]) for fold in range(num_folds)]


def fixed_folds(name: str) -> list[Fold]:
    """The ten published folds of a dataset of the catalog.

    Each test fold has a tenth of the graphs, rounded down; the rest is in every training fold and
    is never tested.
    """
    entry = store.entry(name)
    if not any(file.path.startswith("10fold_idx/") for file in entry.files):
        raise UserError(f"{name} has no published folds; draw them with stratified_folds")
    num_graphs = entry.statistics["graphs"]
    folds = []
    for number in range(1, 11):
        paths = [f"10fold_idx/{part}_idx-{number}.txt" for part in ("train", "test")]
        train, test = (_read_list(name, path) for path in paths)
        if wrong := _find_error(torch.cat((train, test)), num_graphs):
            raise UserError(
                f"{paths[0]} and {paths[1]} of {name} do not share out its {num_graphs} graphs: "
                f"{wrong}; run 'quatgraph data check {name}'"
            )
        folds.append((train, test))
    return folds


def _find_error(places: Tensor, num_graphs: int) -> str:
    """The error in a list that should have every graph once; empty if there is none."""
    outside = places[(places < 0) | (places >= num_graphs)]
    if len(outside):
        return f"there is no graph {int(outside[0])}"
    counts = places.bincount(minlength=num_graphs)
    if bool((counts > 1).any()):
        return f"graph {int((counts > 1).nonzero()[0])} comes twice"
    return f"graph {int((counts < 1).nonzero()[0])} is missing" if bool((counts < 1).any()) else ""


def _read_list(name: str, path: str) -> Tensor:
    rows = whole_numbers(store.read_bytes(name, path), f"{path} of {name}")
    return torch.from_numpy(cast(np.ndarray, rows.matrix(1)).flatten())
