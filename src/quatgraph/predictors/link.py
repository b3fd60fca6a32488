"""Asks a trained model of triples: which entities complete a triple, and is a triple likely?"""

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.data import link as source
from quatgraph.data.io.messages import quote_some
from quatgraph.data.link import Queries, Triples
from quatgraph.data.splits import PARTS
from quatgraph.errors import Mistake
from quatgraph.models.link import MODELS
from quatgraph.ops import Ranks
from quatgraph.predictors.predictions import Links, refuse_not_finite
from quatgraph.predictors.queries import OPEN, AnyQuestions, example, numbered
from quatgraph.tasks.link import evaluation
from quatgraph.tasks.link.classification import classification_metrics
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.problem import (
    Problem,
    RankingQueries,
    entity_adjacency,
    prepare,
)
from quatgraph.training.bundle import Bundle

Known = Literal["mark", "leave-out"]
SCORES_AT_ONCE = 1 << 24
ROWS_AT_LEAST = 64
"""Rows of a product, the last of them for nothing: a product of few is rounded in another way than
the evaluator's of many, and no rank should depend on how many questions there are. (With half a
million entities or more the evaluator's own products are of few.)"""


class _Found(NamedTuple):
    """The first columns of :class:`Links`."""

    question: Tensor
    triples: Tensor
    scores: Tensor
    ranks: Tensor


class LinkPredictor:
    """A model of triples out of a bundle, which holds the triples too.

    Example:
        A bundle completes triples, one or a table of them, and judges whole ones::

            model = quatgraph.load("my-model")
            model.predict(head="Australia", relation="capital", top=3)
            model.predict(relation="capital", tail="Canberra", known="leave-out")
            model.predict([("Australia", "capital", "Canberra"), ("Peru", "borders", "?")])
            model.predict("questions.tsv")
    """

    def __init__(self, bundle: Bundle, device: torch.device) -> None:
        self.card = bundle.card
        self.device = device
        self.config = configs.build(LinkConfig, self.card["config"])
        self.triples = bundled_triples(bundle)
        entities, relations = self.triples.num_entities, self.triples.num_relations
        options, reciprocal = self.config.model, self.config.data.reciprocal
        self.model = MODELS[options.name].from_options(
            options, entities, relations, reciprocal=reciprocal
        )
        self.model.load_state_dict({name: bundle.tensors[name] for name in self.model.state_dict()})
        self.model.to(device).eval()

    def predict(
        self,
        questions: AnyQuestions | None = None,
        *,
        head: str | None = None,
        relation: str | None = None,
        tail: str | None = None,
        top: int = 10,
        known: Known = "mark",
    ) -> Links:
        """Completes triples, and judges those that are whole.

        Args:
            questions: Several at once: a file or rows of head, relation and tail, with ``?`` or
                nothing for what is asked, see :func:`quatgraph.predictors.queries.numbered`.
            head: Of a single question; unless given, heads are asked for.
            relation: Of a single question.
            tail: Of a single question; unless given, tails are asked for.
            top: Answers to a question, at most.
            known: What becomes of answers that train, valid or test has: they are marked, or left
                out. A triple that was given is judged in any case.
        """
        if top < 1:
            raise Mistake(f"at least one answer must be asked for, got top {top}")
        if known not in get_args(Known):
            raise Mistake(f"known answers are one of {', '.join(get_args(Known))}, got {known!r}")
        single = (head, relation, tail)
        if questions is not None and single != (None,) * 3:
            raise Mistake("ask a single question, or name a file of them, not both")
        if questions is None and single == (None,) * 3:
            raise Mistake(f"ask something, as {example(self.triples)}, or name a file of questions")
        notes: list[str] = []
        asked = numbered([single] if questions is None else questions, self.triples, notes)
        whole = (asked != OPEN).all(dim=1)
        found = [
            *self._judged(asked, whole.nonzero().flatten()),
            *self._completed(asked, (~whole).nonzero().flatten(), top, known == "leave-out"),
        ]
        joined = _Found(*map(torch.cat, zip(*found, strict=True)))
        order = joined.question.argsort(stable=True)
        links = _Found(*(column[order] for column in joined))
        notes += self._notes(asked)
        return Links(self.triples, *links, self._parts(links.triples), notes)

    def evaluate(self, data: object = None) -> dict[str, float]:
        """The bundle's metrics, computed again from its weights and triples; those of a part
        without triples are left out."""
        if data is not None:
            raise Mistake("a bundle of triples holds its data: evaluate it without naming any")
        found = classification_metrics(self.model, self._problem)
        for part in self._problem.parts:
            found |= evaluation.summarize_ranks(self.ranks(part), part)
        there = found.keys() & self.card["metrics"].keys()
        return {
            name: found[name] for name in found if name in there and not math.isnan(found[name])
        }

    def by_relation(self, part: str = "test") -> dict[str, dict[str, float]]:
        """The metrics of the questions of each relation, and the number of its ``triples``.

        Args:
            part: ``valid`` or ``test``.
        """
        graph = self.triples
        told_apart = len(set(graph.relation_labels)) == graph.num_relations
        return evaluation.by_relation(
            self.ranks(part),
            self._problem.parts[part],
            graph.relation_labels if told_apart else graph.relations,
        )

    def ranks(self, part: str = "test") -> Ranks:
        """The ranks of the right answers of a part, of tails and then of heads.

        Args:
            part: ``valid`` or ``test``.
        """
        if part not in self._problem.parts:
            raise Mistake(f"there are questions of valid and of test, not of {part!r}")
        questions = self._problem.parts[part]
        with torch.no_grad():
            self._vectors(questions.head, questions.relation)
        return evaluation.rank_part(self.model, self._problem, part)

    def _vectors(self, head: Tensor, relation: Tensor) -> tuple[Tensor, Tensor]:
        """Queries ``(Q, D)`` and candidates ``(E, D)``, of which all products are finite: with a
        NaN among them, ranks would look like any others."""
        query, candidates = self.model.decoder(self._entities, head, relation)
        bounds = query.abs() @ candidates.abs().amax(dim=0)

        def name(row: int) -> tuple[str, str]:
            graph, number = self.triples, int(relation[row]) % self.triples.num_relations
            return graph.entity_labels[int(head[row])], graph.relation_labels[number]

        refuse_not_finite(bounds, name)
        return query, candidates

    @torch.no_grad()
    def _judged(self, asked: Tensor, places: Tensor) -> Iterator[_Found]:
        """Triples that are whole, as answers at either end, in the evaluator's own way."""
        if not len(places):
            return
        triples = asked[places]
        questions = RankingQueries.of(_enough(triples), self._known, self.device)
        query, candidates = self._vectors(questions.head, questions.relation)
        ranks = evaluation.rank_candidates(query, candidates, questions).realistic
        scores = (query * candidates.index_select(0, questions.truth)).sum(dim=-1)
        scores, ranks = (side.view(2, -1)[:, : len(triples)].cpu() for side in (scores, ranks))
        # Without inverse relations of its own a model has learned to answer with tails only.
        learned = 2 if self.config.data.reciprocal else 1
        yield _Found(places, triples, scores[:learned].mean(dim=0), ranks.T)

    @torch.no_grad()
    def _completed(
        self, asked: Tensor, places: Tensor, top: int, only_new: bool
    ) -> Iterator[_Found]:
        """The best answers to questions for one end, some questions at a time."""
        if not len(places):
            return
        questions = _enough(asked[places])
        head, relation, tail = questions.unbind(1)
        heads = head == OPEN
        inverse = heads * self.triples.num_relations
        pairs = torch.stack((torch.where(heads, tail, head), relation + inverse), dim=1)
        query, candidates = self._vectors(*pairs.to(self.device).unbind(1))
        pieces = -(-len(pairs) * self.triples.num_entities // SCORES_AT_ONCE)
        for rows in torch.arange(len(pairs)).tensor_split(pieces):
            scores = query[rows.to(self.device)] @ candidates.mT
            known = self._known_answers(pairs[rows])
            answers, best, ranks, new = (
                column.cpu() for column in best_answers(scores, known, top, only_new)
            )
            kept = (rows < len(places))[:, None] & (new | (not only_new))
            row = rows[kept.nonzero()[:, 0]]
            triples = questions[row]
            open_ = triples == OPEN  # one end of each
            triples[open_] = answers[kept]
            sides = torch.where(open_[:, [2, 0]], ranks[kept][:, None], math.nan)
            yield _Found(places[row], triples, best[kept], sides)

    def _known_answers(self, pairs: Tensor) -> Tensor:
        """Whether an entity is a known answer to each question, ``(Q, E)``."""
        found = self._known.select(pairs)
        owner = torch.arange(len(pairs)).repeat_interleave(found.ptr.diff())
        known = torch.zeros(len(pairs), self.triples.num_entities, dtype=torch.bool)
        known[owner, found.tails] = True
        return known.to(self.device)

    def _parts(self, triples: Tensor) -> list[str]:
        """The part that has each triple, the first of several; empty for none."""
        sizes = self.triples.num_relations, self.triples.num_entities
        part = torch.zeros(len(triples), dtype=torch.int64)
        for number, name in reversed(list(enumerate(PARTS, 1))):
            there = _keys(getattr(self.triples, name), *sizes)
            part[torch.isin(_keys(triples, *sizes), there)] = number
        return [("", *PARTS)[number] for number in part.tolist()]

    def _notes(self, asked: Tensor) -> list[str]:
        train, strange = self.triples.train, []
        labels = self.triples.entity_labels, self.triples.relation_labels
        for columns, names in zip(([0, 2], [1]), labels, strict=True):
            given = asked[:, columns].unique()
            new = given[~torch.isin(given, train[:, columns]) & (given != OPEN)]
            strange += [names[number] for number in new.tolist()]
        if not strange:
            return []
        return [f"no training triple has {quote_some(strange)}: what is said of it is a guess"]

    @cached_property
    def _entities(self) -> Tensor:
        """The vectors of all entities: the same for all queries."""
        adjacency = entity_adjacency(self.triples, self.config.model.matrix).to(self.device)
        with torch.no_grad():
            return self.model.encode(adjacency)

    @cached_property
    def _known(self) -> Queries:
        return source.known(self.triples)

    @cached_property
    def _problem(self) -> Problem:
        return prepare(self.triples, self.config, self.device)


def best_answers(
    scores: Tensor, known: Tensor, top: int, only_new: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The entities with the best scores, and the rank of each: one more than the rivals ahead of
    it, and half of those level with it, where rivals are all that are no known answers.

    Args:
        scores: Of all entities as answers to each question.
        known: Which of them are known answers.
        top: Answers to give, K; fewer where there are fewer entities.
        only_new: Whether known answers come last, instead of where their score puts them.

    Shape:
        - scores, known: ``(Q, E)``
        - output: answers, their scores, their ranks, and whether they are new, ``(Q, K)`` each

    Example:
        >>> scores = torch.tensor([[3.0, 1.0, 2.0, 1.0]])
        >>> known = torch.tensor([[True, False, False, False]])
        >>> answers, _, ranks, _ = best_answers(scores, known, top=3)
        >>> answers[0, :2].tolist(), ranks.tolist()
        ([0, 2], [[1.0, 1.0, 2.5]])
    """
    top = min(top, scores.size(1))
    rivals = scores.masked_fill(known, -torch.inf)
    answers = (rivals if only_new else scores).topk(top).indices
    best, new = scores.gather(1, answers), ~known.gather(1, answers)
    # A rival that is ahead of one of the first K is one of the first K rivals.
    first = rivals.topk(top).values.flip(1)
    ahead = top - torch.searchsorted(first, best, right=True)
    level = top - torch.searchsorted(first, best) - ahead
    # Of those level with the last of them there may be more.
    last = first[:, :1]
    level = torch.where(best == last, (rivals == last).sum(dim=1, keepdim=True), level)
    ranks = 1 + ahead + (level - new.long()).double() / 2
    # Of answers with the same score, a known one has more rivals level with it than a new one.
    order = ranks.argsort(dim=1, stable=True)
    answers, best, ranks, new = (one.gather(1, order) for one in (answers, best, ranks, new))
    return answers, best, ranks, new


def bundled_triples(bundle: Bundle) -> Triples:
    """The triples that a bundle holds, checked against its card."""
    card, begin = bundle.card, "data."
    kept: dict[str, Any] = {
        name.removeprefix(begin): part.long()
        for name, part in bundle.tensors.items()
        if name.startswith(begin)
    }
    for name in ("entities", "relations", "entity_labels", "relation_labels", "notes"):
        kept[name] = card[name]
    triples = Triples(card["data"]["name"], **kept)
    if triples.digest != card["data"]["digest"]:
        raise Mistake(
            f"the bundle's triples of {triples.name!r} are not those its card describes: "
            "the bundle was changed, so train it again"
        )
    return triples


def _enough(rows: Tensor) -> Tensor:
    """The rows, and zeros to make them :data:`ROWS_AT_LEAST`."""
    return torch.cat((rows, rows.new_zeros(max(0, ROWS_AT_LEAST - len(rows)), rows.size(1))))


def _keys(triples: Tensor, num_relations: int, num_entities: int) -> Tensor:
    head, relation, tail = triples.unbind(1)
    return (head * num_relations + relation) * num_entities + tail
