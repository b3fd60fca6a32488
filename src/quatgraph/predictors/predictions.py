"""What the predictors of all tasks return; predictions that are not finite are refused."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict

import torch
from torch import Tensor

from quatgraph.data.io.columns import TRIPLE_COLUMNS
from quatgraph.data.io.messages import count_noun
from quatgraph.data.labels import Label
from quatgraph.data.link import Triples
from quatgraph.errors import UserError, did_you_mean
from quatgraph.tasks.overflow import ADVICE

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN = 3
"""Classes that a representation shows."""


class AnyPredictions(Protocol):
    """What the predictors of all tasks return."""

    @property
    def notes(self) -> list[str]:
        """What the user should know about these predictions, a sentence each."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """The predictions, all with the same keys."""

    def to_pandas(self) -> "DataFrame":
        """The rows as a table."""


class Table:
    """Rows that also come as a pandas table."""

    __slots__ = ()

    def rows(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def to_pandas(self) -> "DataFrame":
        """The rows as a table (extra ``[tables]``)."""
        return import_pandas().DataFrame(list(self.rows()))


class Known(TypedDict):
    """What is known of the items that are predicted; see :class:`Predictions`."""

    known_labels: Sequence[Label] | None
    splits: list[str] | None


@dataclass(frozen=True, slots=True, repr=False)
class Predictions(Table):
    """Classes and probabilities, by the ids and labels of the data."""

    ids: list[str]
    classes: Sequence[Label]
    probabilities: Tensor
    """``(N, C)``, in the order of ``ids`` and ``classes``."""
    notes: list[str] = field(default_factory=list)
    """What the user should know about these predictions, a sentence each."""
    known_labels: Sequence[Label] | None = None
    """The label that the data has for each, empty if unknown; None for data without labels."""
    splits: list[str] | None = None
    """The split of each in the training data: train, valid, test or empty; None for new data."""

    def __post_init__(self) -> None:
        refuse_not_finite(self.probabilities, self.ids.__getitem__)

    def __repr__(self) -> str:
        counts = Counter(self.labels).most_common()
        parts = [f"{label!r} {count}" for label, count in counts[:SHOWN]]
        parts += [f"{len(counts) - SHOWN} more classes"] * (len(counts) > SHOWN)
        items = count_noun(len(self.ids), "item")
        return f"{type(self).__name__}({items}{': ' * bool(parts)}{', '.join(parts)})"

    @property
    def labels(self) -> list[Label]:
        """The most probable class of each, in the type that training was given."""
        return [self.classes[index] for index in self.probabilities.argmax(dim=1).tolist()]

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: ``id``, ``prediction``, ``probability``, ``label`` and ``split`` if
        they are known, and ``p(class)`` for all."""
        names = [f"p({label})" for label in self.classes]
        known = {"label": self.known_labels, "split": self.splits}
        for place, (name, label, row) in enumerate(
            zip(self.ids, self.labels, self.probabilities.tolist(), strict=True)
        ):
            each = dict(zip(names, (round(p, 6) for p in row), strict=True))
            more = {key: column[place] for key, column in known.items() if column is not None}
            chosen = {"id": name, "prediction": label, "probability": round(max(row), 6)}
            yield chosen | more | each


@dataclass(frozen=True, slots=True, repr=False)
class GraphPredictions(Predictions):
    """Classes and probabilities of graphs, and what their nodes contribute."""

    drops: list[list[float]] | None = None
    """For each graph and node, the drop of the probability of the predicted class when the node and
    its edges are left out; below 0 for a node that speaks against the class. Empty for a graph that
    is too large. None unless ``explain=True``."""
    node_names: list[list[str]] | None = None
    """For each graph the names of its nodes: tag and number, as ``N:3``."""

    def __post_init__(self) -> None:
        Predictions.__post_init__(self)
        for own in self.drops or []:
            refuse_not_finite(torch.tensor(own), lambda _: "a node")

    @property
    def support(self) -> list[dict[str, float]] | None:
        """For each graph its nodes with their ``drops``, the strongest support first."""
        if self.drops is None or self.node_names is None:
            return None
        found = []
        for names, drops in zip(self.node_names, self.drops, strict=True):
            pairs = zip(names, drops, strict=False)
            found.append(dict(sorted(pairs, key=lambda pair: -pair[1])))
        return found

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each, like those of :class:`Predictions`, with ``support``, numbers by node,
        if it was computed."""
        support = self.support
        for place, row in enumerate(Predictions.rows(self)):
            if support is not None:
                row["support"] = {key: round(value, 6) for key, value in support[place].items()}
            yield row


@dataclass(frozen=True, slots=True, repr=False)
class TextPredictions(Predictions):
    r"""Classes and probabilities of texts, and what their words contribute."""

    attention: list[dict[str, float]] | None = None
    r"""For each text its different known words, the weightiest first, each with the weight
    :math:`\alpha_v = \sigma(\mathbf{w}^\top \mathrm{Vec}(\mathbf{h}_v) + b)` of its node in
    :class:`quatgraph.layers.AttentionReadout`, between 0 and 1: how much of the word enters the
    text's vector, whatever class it speaks for. The weights of a text do not sum to 1. With several
    members, the weighted mean over those that have attention. None if no member has."""
    support: list[dict[str, float]] | None = None
    """For each text its different known words, the strongest support first, each with the drop of
    the probability of the predicted class when the word is left out, as a fraction; below 0 for a
    word that speaks against the class. None unless ``explain=True``."""
    id_name: str = "id"
    """What ``ids`` are: ``id``, or ``text`` if they are the texts themselves."""

    def __post_init__(self) -> None:
        Predictions.__post_init__(self)
        for found in (self.support or [], self.attention or []):
            worst = [sum(words.values()) for words in found]
            refuse_not_finite(torch.tensor(worst), self.ids.__getitem__)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each, like those of :class:`Predictions`, perhaps with ``text`` instead of
        ``id``, and with ``support`` and ``attention``, numbers by word, if there are any."""
        for place, row in enumerate(Predictions.rows(self)):
            named = {self.id_name: row.pop("id"), **row}
            for key, found in (("support", self.support), ("attention", self.attention)):
                if found is not None:
                    named[key] = {word: round(value, 6) for word, value in found[place].items()}
            yield named


class Support(NamedTuple):
    """A known triple, by its labels, and how strongly it supports a prediction."""

    head: str
    relation: str
    tail: str
    strength: float
    """See :meth:`quatgraph.LinkPredictor.explain`."""

    def __str__(self) -> str:
        return f"{self.head} {self.relation} {self.tail}"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Links(Table):
    """Predicted or scored triples, query by query, the best first.

    Attributes:
        graph: The knowledge graph.
        query: The query, counted from 0, that each triple belongs to.
        triples: Head, relation and tail.
        scores: Score of the predicted end. With one member, the raw score of its decoder; with
            several, the weighted mean of their log-softmax scores over all entities. Of a triple
            that was given, the mean over both ends, if inverse relations were learned, or else the
            score of the tail.
        ranks: Expected ranks of the tail and of the head among all entities, other known triples
            filtered; NaN for an end that the query gave.
        known: The part that has the triple, empty if it is new.
        notes: What the user should know about these predictions, a sentence each.
        support: The known triples that support each triple most; None unless they were computed, by
            :meth:`quatgraph.LinkPredictor.explain`.

    Shape:
        - query, scores: ``(A,)``
        - triples: ``(A, 3)``
        - ranks: ``(A, 2)``
    """

    graph: Triples
    query: Tensor
    triples: Tensor
    scores: Tensor
    ranks: Tensor
    known: list[str]
    notes: list[str] = field(default_factory=list)
    support: list[list[Support]] | None = None

    def __post_init__(self) -> None:
        numbers = torch.cat((self.scores[:, None], self.ranks.nan_to_num(nan=0.0)), dim=1)
        columns = list(_name_columns(self.graph).values())[:3]
        refuse_not_finite(
            numbers,
            lambda row: tuple(names[int(self.triples[row, place])] for place, names in columns),
        )

    def __repr__(self) -> str:
        first = next(self.rows(), None)
        if first is None:
            return "Links(no triples)"
        triple = tuple(first[key] for key in TRIPLE_COLUMNS)
        count = count_noun(len(self.query), "triple")
        return f"Links({count}, the first {triple} with score {first['score']:g})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: the end that is ``predicted`` (``head``, ``tail``, or ``both`` for a
        triple that was given), the names, with ids if these differ, ``score``, ``rank`` (for a
        triple that was given ``tail_rank`` and ``head_rank``) and ``known``; and ``support``, the
        strengths of triples by their words, if it was computed."""
        names, given = _name_columns(self.graph), ~self.ranks.isnan().any(dim=1)
        any_given, any_open = bool(given.any()), not bool(given.all())
        for triple, score, (tail, head), both, known, support in zip(
            self.triples.tolist(),
            self.scores.tolist(),
            self.ranks.tolist(),
            given.tolist(),
            self.known,
            _support_columns(self.support, len(self.known)),
            strict=True,
        ):
            end, rank = ("head", head) if math.isnan(tail) else ("tail", tail)
            row: dict[str, Any] = {"predicted": "both" if both else end}
            row |= {key: listed[triple[place]] for key, (place, listed) in names.items()}
            row["score"] = float(f"{score:.6g}")
            if any_open:
                row["rank"] = None if both else _whole_if_integer(rank)
            if any_given:
                row["tail_rank"] = _whole_if_integer(tail) if both else None
                row["head_rank"] = _whole_if_integer(head) if both else None
            yield row | {"known": known} | support


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MissingLinks(Table):
    """Triples that the graph lacks, the most probable first.

    Attributes:
        graph: The knowledge graph.
        triples: Head, relation and tail.
        probabilities: See :meth:`quatgraph.LinkPredictor.predict_missing`.
        scores: The log-odds that triples are ranked by, which differ where probabilities do not.
        notes: What the user should know about these predictions, a sentence each.
        support: As in :class:`Links`.

    Shape:
        - triples: ``(A, 3)``
        - probabilities, scores: ``(A,)``
    """

    graph: Triples
    triples: Tensor
    probabilities: Tensor
    scores: Tensor
    notes: list[str] = field(default_factory=list)
    support: list[list[Support]] | None = None

    def __repr__(self) -> str:
        first = next(self.rows(), None)
        if first is None:
            return "MissingLinks(no triples)"
        triple = tuple(first[key] for key in TRIPLE_COLUMNS)
        count = count_noun(len(self.scores), "triple")
        return f"MissingLinks({count}, the first {triple} with probability {first['probability']})"

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each: the names, with ids if these differ, ``probability``, ``score``, and
        ``support`` if it was computed."""
        names = _name_columns(self.graph)
        for triple, probability, score, support in zip(
            self.triples.tolist(),
            self.probabilities.tolist(),
            self.scores.tolist(),
            _support_columns(self.support, len(self.scores)),
            strict=True,
        ):
            row: dict[str, Any] = {
                key: listed[triple[place]] for key, (place, listed) in names.items()
            }
            row["probability"] = round(probability, 6)
            yield row | {"score": float(f"{score:.6g}")} | support


def _name_columns(graph: Triples) -> dict[str, tuple[int, list[str]]]:
    """For each column of names its place in a triple, and the names to choose from."""
    ends, kinds = graph.entity_labels, graph.relation_labels
    columns = {"head": (0, ends), "relation": (1, kinds), "tail": (2, ends)}
    entities_differ, relations_differ = graph.has_labels
    if entities_differ:
        columns |= {"head_id": (0, graph.entities), "tail_id": (2, graph.entities)}
    if relations_differ:
        columns["relation_id"] = 1, graph.relations
    return columns


def _support_columns(
    found: list[list[Support]] | None, count: int
) -> Iterator[dict[str, dict[str, float]]]:
    """The column ``support`` of each row, if there is one."""
    if found is None:
        yield from ({} for _ in range(count))
        return
    for own in found:
        yield {"support": {str(one): round(one.strength, 6) for one in own}}


def import_pandas() -> Any:
    """pandas, which is imported only for its tables."""
    try:
        import pandas
    except ImportError:
        raise UserError(
            "to_pandas needs pandas; install it with pip install 'quatgraph[tables]'"
        ) from None
    return pandas


def refuse_not_finite(
    numbers: Tensor,
    name: Callable[[int], object],
    explain: Callable[[int], str] = lambda row: "",
) -> None:
    """Checks that the numbers of all predictions, ``(N, ...)``, are finite.

    Of a row, ``name`` says what it predicts, and ``explain`` names the input that overflowed;
    it is empty where the model itself overflows.
    """
    if bool(numbers.isfinite().all()):
        return
    bad = ~numbers.isfinite().reshape(len(numbers), -1).all(dim=1)
    row = int(bad.nonzero()[0])
    cause = explain(row)
    why = f"{cause}, {ADVICE}" if cause else "the model overflows: train it with a lower train.lr"
    raise UserError(f"the prediction for {name(row)!r} is not a finite number: {why}")


def _whole_if_integer(rank: float) -> float:
    return int(rank) if rank.is_integer() else rank


def find_positions(wanted: Sequence[str] | None, ids: list[str], missing: str) -> list[int]:
    """Places of the wanted ids, of all if None; ``missing`` is the message about an unknown one."""
    if wanted is None:
        return list(range(len(ids)))
    places = {name: index for index, name in enumerate(ids)}
    names = [str(name) for name in wanted]
    for name in names:
        if name not in places:
            hint = did_you_mean(name, places) or f"; the first is {ids[0]!r}" * bool(ids)
            raise UserError(missing.format(repr(name)) + hint)
    return [places[name] for name in names]
