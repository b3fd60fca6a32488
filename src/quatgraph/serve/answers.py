"""What the predictors of all tasks answer, and what they refuse."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from quatgraph.errors import Mistake, did_you_mean


@dataclass(frozen=True, slots=True)
class Predictions:
    """Classes and probabilities, with the person's own ids and label names."""

    ids: list[str]
    classes: list[str]
    probabilities: Tensor
    """``(N, C)``, in the order of ``ids`` and ``classes``."""
    notes: list[str] = field(default_factory=list)
    """What the person should know of these answers, a sentence each."""

    @property
    def labels(self) -> list[str]:
        """The most probable class of each."""
        return [self.classes[index] for index in self.probabilities.argmax(dim=1).tolist()]

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: ``id``, ``prediction``, ``probability`` and ``p(class)`` for all."""
        names = [f"p({label})" for label in self.classes]
        for name, label, row in zip(
            self.ids, self.labels, self.probabilities.tolist(), strict=True
        ):
            shown = dict(zip(names, (round(p, 6) for p in row), strict=True))
            yield {"id": name, "prediction": label, "probability": round(max(row), 6), **shown}


def positions(asked: Sequence[str] | None, ids: list[str], missing: str) -> list[int]:
    """Places of the ids that were asked for; of all where none were.

    Args:
        missing: What to say of an unknown one, with ``{}`` for it: ``"there is no node {}"``.
    """
    if asked is None:
        return list(range(len(ids)))
    places = {name: index for index, name in enumerate(ids)}
    wanted = [str(name) for name in asked]
    for name in wanted:
        if name not in places:
            raise Mistake(missing.format(repr(name)) + did_you_mean(name, places))
    return [places[name] for name in wanted]


def refuse_changed(data: Any, card: Mapping[str, Any], place: str) -> None:
    """Checks that data is what the model of a card was trained on.

    Args:
        data: With a ``digest``.
        place: What a person's data is in: ``"folder"``.
    """
    if data.digest != card["data"]["digest"]:
        raise Mistake(
            f"the data of {card['data']['name']!r} is no longer what the model was "
            f"trained on: restore it, or name the {place} it is in now"
        )
