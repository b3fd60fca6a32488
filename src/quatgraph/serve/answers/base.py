"""Shared code of the answers of all tasks."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from quatgraph.errors import UserError
from quatgraph.predictors.members import Cache
from quatgraph.predictors.predictions import Predictions
from quatgraph.serve.cards import describe_bundle
from quatgraph.serve.names import NameIndex

Keywords = Mapping[str, Any]
Reply = dict[str, Any]
MAX_DRAWN = 200
"""Nodes of a drawing, at most."""
MAX_EXPLAINED = 100
"""Answers that are explained at once, at most."""


class Answers(ABC):
    """A loaded model that answers requests; called by one thread, except for :meth:`search`.

    Args:
        predictor: The model.
        path: The folder of its bundle.
    """

    task: str
    kinds: tuple[str, ...]
    """What can be searched by name."""

    def __init__(self, predictor: Any, path: Path) -> None:
        self.predictor, self.path = predictor, path
        self._cache = Cache()

    def predict(self, requests: Sequence[Keywords]) -> list[bytes | Exception]:
        """The replies to some requests, as JSON."""
        return self._reply(requests, explain=False)

    def explain(self, requests: Sequence[Keywords]) -> list[bytes | Exception]:
        """The replies to some requests, with what supports each answer."""
        return self._reply(requests, explain=True)

    def search(self, query: str, kind: str, limit: int) -> Reply:
        """The names that start with a query or resemble it, the best first."""
        if kind not in self.kinds:
            raise UserError(f"kind must be one of {', '.join(self.kinds)}, got {kind!r}")
        return {"kind": kind, "results": self.index(kind).search(query, limit)}

    def index(self, kind: str) -> NameIndex:
        """The names of a kind, prepared once."""
        return self._cache.get(("names", kind), lambda: NameIndex(*self._names(kind)))

    def summary(self) -> Reply:
        """An entry of the list of models."""
        card = self.predictor.card
        counts = Counter(entry["config"]["model"]["name"] for entry in card["members"])
        return {
            "data": card["data"]["name"],
            "methods": list(counts),
            "metrics": card["metrics"],
        }

    def describe(self) -> Reply:
        """All about the model: its card, its names, and an example of a query."""
        return describe_bundle(self.predictor, self.path) | {
            "kinds": list(self.kinds),
            "example": self.example,
        }

    @cached_property
    def example(self) -> Reply | None:
        """A request for ``predict`` out of the model's own data; None if that is not at hand."""
        try:
            return self._example()
        except UserError:
            return None

    def warm_up(self) -> None:
        """Answers the example, so that nothing is left to prepare."""
        if self.example is not None:
            with suppress(UserError):
                self.predict([self.example])
        for kind in self.kinds:
            with suppress(UserError):
                self.search("a name", kind, 1)

    @abstractmethod
    def draw(self, name: str, hops: int, limit: int) -> Reply:
        """A graph to draw: around an entity or a node, or the graph of this id."""

    def draw_molecule(self, smiles: str) -> Reply:
        """The graph of a molecule to draw."""
        raise UserError(f"a model of the task {self.task!r} draws no molecules")

    def items(self, filters: Mapping[str, str], offset: int, limit: int) -> Reply:
        """A page of the table of the training data's items."""
        raise UserError(f"a model of the task {self.task!r} has no table of items")

    def items_csv(self, filters: Mapping[str, str]) -> str:
        """The whole table as CSV."""
        raise UserError(f"a model of the task {self.task!r} has no table of items")

    @abstractmethod
    def _answer(self, keywords: Keywords, explain: bool) -> Reply:
        """The reply to one request."""

    @abstractmethod
    def _example(self) -> Reply:
        """See :attr:`example`."""

    @abstractmethod
    def _names(self, kind: str) -> tuple[Sequence[str], Sequence[str]]:
        """The ids and labels of a kind."""

    def _reply(self, requests: Sequence[Keywords], *, explain: bool) -> list[bytes | Exception]:
        return [self._reply_to_one(one, explain) for one in requests]

    def _reply_to_one(self, keywords: Keywords, explain: bool) -> bytes | Exception:
        try:
            return encode(self._answer(keywords, explain))
        except Exception as error:
            return error


def check_explained(count: int, most: int = MAX_EXPLAINED) -> None:
    """Refuses to explain so many answers that others would have to wait for them."""
    if count > most:
        raise UserError(f"at most {most} answers are explained at once, not {count:,}")


def encode(reply: Reply) -> bytes:
    """JSON; a number that is not finite is null."""
    return to_json(reply, inf_nan_mode="null")


def exact(number: float) -> float:
    """A float32 with as many digits as tell it from all others."""
    return float(f"{number:.9g}")


def classified(predictions: Predictions) -> Iterator[Reply]:
    """The answers of a classifier, one for each item."""
    known = {"label": predictions.known_labels, "split": predictions.splits}
    rows = zip(predictions.ids, predictions.labels, predictions.probabilities.tolist(), strict=True)
    for place, (name, label, row) in enumerate(rows):
        each = [exact(p) for p in row]
        answer = {"id": name, "prediction": label, "probability": max(each), "probabilities": each}
        yield answer | {key: column[place] for key, column in known.items() if column is not None}


def reply_of(predictions: Predictions) -> Reply:
    """The reply of a classifier."""
    return {
        "classes": list(predictions.classes),
        "answers": list(classified(predictions)),
        "notes": predictions.notes,
    }
