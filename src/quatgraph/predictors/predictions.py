"""What the predictors of all tasks answer, and what they refuse."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from quatgraph.data.link import Triples
from quatgraph.errors import Mistake, did_you_mean
from quatgraph.tasks.overflow import ADVICE


class Answer(Protocol):
    """What the predictors of all tasks answer."""

    @property
    def notes(self) -> list[str]:
        """What the person should know of these answers, a sentence each."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The answers, all with the same keys."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Classes and probabilities, with the person's own ids and label names."""

    ids: list[str]
    classes: list[str]
    probabilities: Tensor
    """``(N, C)``, in the order of ``ids`` and ``classes``."""
    notes: list[str] = field(default_factory=list)
    """What the person should know of these answers, a sentence each."""

    def __post_init__(self) -> None:
        refuse_not_finite(self.probabilities, self.ids.__getitem__)

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


@dataclass(frozen=True, slots=True)
class TextPredictions(Predictions):
    r"""Classes and probabilities of texts, and how much the model attends to their words."""

    attention: list[dict[str, float]] | None = None
    r"""Of each text its different known words, the weightiest first, each with the weight
    :math:`\alpha_v = \sigma(\mathbf{w}^\top \mathrm{Vec}(\mathbf{h}_v) + b)` of its node in
    :class:`quatgraph.layers.AttentionReadout`, between 0 and 1: how much of the word enters the
    text's vector, whatever class it speaks for. The weights of a text do not sum to 1. None for
    models without attention."""
    support: list[dict[str, float]] | None = None
    """Of each text its different known words, those that speak most for its class first, each with
    what the class has by it: by how much its log-odds, :math:`\\log p / (1 - p)`, are lower where
    the word is left out; below 0 for a word that speaks against it. None unless asked for."""
    named: str = "id"
    """What ``ids`` are: ``id``, or ``text`` where the texts themselves are their names."""

    def __post_init__(self) -> None:
        Predictions.__post_init__(self)
        for found in (self.support or [], self.attention or []):
            worst = [sum(words.values()) for words in found]
            refuse_not_finite(torch.tensor(worst), self.ids.__getitem__)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: as those of :class:`Predictions`, perhaps with ``text`` instead of
        ``id``, and with ``support`` and ``attention``, numbers by word, where there are any."""
        for place, row in enumerate(Predictions.rows(self)):
            made = {self.named: row.pop("id"), **row}
            for key, found in (("support", self.support), ("attention", self.attention)):
                if found is not None:
                    made[key] = {word: round(value, 6) for word, value in found[place].items()}
            yield made


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Triples that answer questions, those of a question together and the best first.

    Attributes:
        graph: What they are about.
        question: Which question, counted from 0, each answers.
        triples: Head, relation and tail.
        scores: Of the answer; of a triple that was given, of both ends as answers, the mean.
        ranks: Expected ranks of the tail and of the head among all entities, other known answers
            not counted; NaN for an end that was given as part of the question.
        known: The part that has the triple, empty where it is new.
        notes: What the person should know of these answers, a sentence each.

    Shape:
        - question, scores: ``(A,)``
        - triples: ``(A, 3)``
        - ranks: ``(A, 2)``
    """

    graph: Triples
    question: Tensor
    triples: Tensor
    scores: Tensor
    ranks: Tensor
    known: list[str]
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = torch.cat((self.scores[:, None], self.ranks.nan_to_num(nan=0.0)), dim=1)
        names = self._names()
        refuse_not_finite(
            numbers,
            lambda row: tuple(
                names[key][1][int(self.triples[row, place])]
                for place, key in enumerate(("head", "relation", "tail"))
            ),
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: what was ``asked`` (``head``, ``tail``, or ``both`` for a triple that
        was given), the names, with ids where those are others, ``score``, ``rank`` (of a triple
        that was given ``tail_rank`` and ``head_rank``) and ``known``."""
        names, given = self._names(), ~self.ranks.isnan().any(dim=1)
        any_given, any_open = bool(given.any()), not bool(given.all())
        for triple, score, (tail, head), both, known in zip(
            self.triples.tolist(),
            self.scores.tolist(),
            self.ranks.tolist(),
            given.tolist(),
            self.known,
            strict=True,
        ):
            end, rank = ("head", head) if math.isnan(tail) else ("tail", tail)
            row: dict[str, Any] = {"asked": "both" if both else end}
            row |= {key: listed[triple[place]] for key, (place, listed) in names.items()}
            row["score"] = float(f"{score:.6g}")
            if any_open:
                row["rank"] = None if both else _shown(rank)
            if any_given:
                row["tail_rank"] = _shown(tail) if both else None
                row["head_rank"] = _shown(head) if both else None
            yield row | {"known": known}

    def _names(self) -> dict[str, tuple[int, list[str]]]:
        """For each column of names its place in a triple, and all the names it may hold."""
        graph = self.graph
        ends, kinds = graph.entity_labels, graph.relation_labels
        columns = {"head": (0, ends), "relation": (1, kinds), "tail": (2, ends)}
        if ends != graph.entities:
            columns |= {"head_id": (0, graph.entities), "tail_id": (2, graph.entities)}
        if kinds != graph.relations:
            columns["relation_id"] = 1, graph.relations
        return columns


def refuse_not_finite(
    numbers: Tensor,
    name: Callable[[int], object],
    explain: Callable[[int], str] = lambda row: "",
) -> None:
    """Checks that all numbers of all predictions are finite.

    Args:
        numbers: ``(N, ...)``.
        name: ``(row)``: what it is the prediction for.
        explain: ``(row)``: names the input that overflowed; empty where it is the model itself.
    """
    if bool(numbers.isfinite().all()):
        return
    bad = ~numbers.isfinite().reshape(len(numbers), -1).all(dim=1)
    row = int(bad.nonzero()[0])
    cause = explain(row)
    why = f"{cause}, {ADVICE}" if cause else "the model overflows: train it with a lower train.lr"
    raise Mistake(f"the prediction for {name(row)!r} is not a finite number: {why}")


def class_probabilities(logits: Tensor) -> Tensor:
    """The softmax over the last dimension; NaN in all of a row of which any logit is not finite,
    for an infinite one would give probabilities that look like others."""
    finite = logits.isfinite().all(dim=-1, keepdim=True)
    return torch.where(finite, logits.softmax(dim=-1), torch.nan)


def without_empty_parts(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of the parts that have data, whose accuracy is a number; refuses one of those
    that is not."""
    found = {
        name: value
        for name, value in metrics.items()
        if not math.isnan(metrics.get(f"{name.partition('/')[0]}/accuracy", 0.0))
    }
    for name, value in found.items():
        if not math.isfinite(value):
            raise Mistake(
                f"{name} is not a finite number, so the model overflows on its training data: "
                "train it with a lower train.lr"
            )
    return found


def _shown(rank: float) -> float:
    return int(rank) if rank.is_integer() else rank


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
            hint = did_you_mean(name, places) or f"; the first is {ids[0]!r}" * bool(ids)
            raise Mistake(missing.format(repr(name)) + hint)
    return [places[name] for name in wanted]


def refuse_moved(path: str) -> None:
    """Checks that a person's training data is where it was."""
    if path and not Path(path).exists():
        raise Mistake(
            f"the model's training data is no longer at {path}: name where it is now, after the "
            "model"
        )


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
