"""Labels of data, known to a classifier or not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from quatgraph.data.io.messages import count_noun, quote_some
from quatgraph.errors import UserError


@dataclass(frozen=True, slots=True)
class Labelled:
    """The items of some data that have a label."""

    places: Tensor
    """Their indices, ``(N,)``."""
    labels: Tensor
    """Their classes, by the numbers of ``classes``, ``(N,)``."""
    classes: list[str]
    """The classes of the model, and after them labels that it does not know."""
    notes: list[str]
    """What the user should know about them, a sentence each."""


def match_labels(data: Any, known: Sequence[str]) -> Labelled:
    """Numbers the labels of data by the classes of a model.

    As for scikit-learn's metrics, items with a label that the model does not know stay and count as
    wrong. Items without a label are left out. Notes report both.

    Args:
        data: Data of a task, with labels ``y``, -1 where unknown, and their ``label_names``.
        known: The classes of the model.
    """
    places = (data.y >= 0).nonzero().flatten()
    if not len(places):
        raise UserError(f"{data.name} has no labels to compare predictions with: give it some")
    codes, labels = data.y[places].unique(return_inverse=True)
    names = [data.label_names[code] for code in codes.tolist()]
    new = [name for name in names if name not in known]
    if len(new) == len(names):
        raise UserError(
            f"{data.name} has the labels {quote_some(new)}, none of which is a class of the model; "
            f"its classes are {quote_some(known)}"
        )
    classes = [*known, *new]
    number = {name: place for place, name in enumerate(classes)}
    labels = torch.tensor([number[name] for name in names])[labels]
    notes = []
    if new:
        count = int((labels >= len(known)).sum())
        notes.append(
            f"{count_noun(count, 'item')} of {len(labels):,} with a label that the model does not "
            f"know ({quote_some(new)}) {'counts' if count == 1 else 'count'} as wrong"
        )
    if unlabelled := len(data.y) - len(labels):
        notes.append(f"{count_noun(unlabelled, 'item')} without a label left out")
    return Labelled(places, labels, classes, notes)


def labels_of(data: Any, places: Sequence[int] | Tensor) -> list[str] | None:
    """The label of each item, empty if unknown; None for data without labels."""
    if not bool((data.y >= 0).any()):
        return None
    names = [*data.label_names, ""]  # -1 is the last
    return [names[code] for code in data.y[torch.as_tensor(places)].tolist()]
