"""Completes and scores triples with trained models."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, Unpack, get_args

import torch
from torch import Tensor, nn

from quatgraph.callbacks import progress_bar
from quatgraph.data import link as source
from quatgraph.data.link import Queries
from quatgraph.data.splits import PARTS
from quatgraph.errors import UserError
from quatgraph.metrics.ranking import ranking_metrics
from quatgraph.metrics.report import RankingReport
from quatgraph.models.link import GraphModel, build_model
from quatgraph.ops import Ranks
from quatgraph.predictors.base import Predictor, check_part
from quatgraph.predictors.candidates import top_candidates
from quatgraph.predictors.embeddings import Embeddings, Kind, Names, embed_triples
from quatgraph.predictors.link_combination import (
    CombinedModel,
    is_training_data,
    read_bundled_triples,
    triple_keys,
)
from quatgraph.predictors.missing import MissingTriples
from quatgraph.predictors.predictions import Links, MissingLinks
from quatgraph.predictors.queries import (
    OPEN,
    AnyQueries,
    SingleQuery,
    example_query,
    parse_queries,
    parse_triples,
    report_trained,
    report_unseen,
)
from quatgraph.predictors.support import name_support
from quatgraph.query_options import check_options
from quatgraph.tasks.link import LINK, evaluation
from quatgraph.tasks.link.classification import classification_metrics
from quatgraph.tasks.link.config import LinkConfig
from quatgraph.tasks.link.joined import SCORES_AT_ONCE
from quatgraph.tasks.link.problem import Problem, RankingQueries
from quatgraph.training.bundle import Bundle

Known = Literal["mark", "leave-out"]
LinksT = TypeVar("LinksT", Links, MissingLinks)
MIN_ROWS = {"cpu": 16, "cuda": 64}
"""Least rows of a product, padded with zeros: a product of few rows is rounded differently from the
evaluator's of many, and a rank must not depend on the number of queries. (With half a million
entities or more the evaluator's own products have few rows.)"""

_Columns = tuple[Tensor, Tensor, Tensor, Tensor]
"""Queries, triples, scores and ranks, the first columns of :class:`Links`."""


class LinkPredictor(Predictor[LinkConfig]):
    """Completes and scores triples with the models of a bundle, which holds the triples too.

    The vectors of entities are computed once.

    Example:
        A bundle completes triples, one or a table of them, scores whole ones, and finds and
        explains those that the graph lacks::

            model = quatgraph.load("my-model")
            model.predict(head="Australia", relation="capital", top=3)
            model.predict(relation="capital", tail="Canberra", known="leave-out")
            model.predict([("Australia", "capital", "Canberra"), ("Peru", "borders", "?")])
            model.predict("queries.tsv")
            model.predict_missing("capital", top=100, explain=True).support
    """

    config_class = LinkConfig

    def __init__(self, bundle: Bundle, device: torch.device) -> None:
        self.triples = read_bundled_triples(bundle)
        super().__init__(bundle, device)
        self.reciprocal = all(member.config.data.reciprocal for member in self.members)
        """Whether all members learned inverse relations, so that heads have scores of their own."""
        self.model = CombinedModel(self.members, self.triples)

    def predict(
        self,
        queries: AnyQueries | None = None,
        *,
        top: int = 10,
        known: Known = "mark",
        explain: bool = False,
        **single: Unpack[SingleQuery],
    ) -> Links:
        """Predicts the missing end of triples, and scores triples that are whole.

        Args:
            queries: Several queries: a file or rows of head, relation and tail, with ``?`` or
                nothing for the end to predict; see :mod:`quatgraph.predictors.queries`.
            top: Number of predictions for a query, at most.
            known: Whether predictions that train, valid or test has are marked or left out. A
                triple that was given is scored in any case.
            explain: Whether to compute the ``support`` of each prediction, see :meth:`explain`.
            single: A single query: ``relation``, and ``head``, ``tail`` or both; the end that is
                not given is predicted.
        """
        check_options("link", single)
        if top < 1:
            raise UserError(f"top must be at least 1, got {top}")
        if known not in get_args(Known):
            raise UserError(f"known must be one of {', '.join(get_args(Known))}, got {known!r}")
        row = [single.get("head"), single.get("relation"), single.get("tail")]
        if queries is not None and row != [None] * 3:
            raise UserError("give a single query or a file of queries, not both")
        if queries is None and row == [None] * 3:
            example = example_query(self.triples)
            raise UserError(f"give a query, such as {example}, or a file of queries")
        notes: list[str] = []
        asked = [row] if queries is None else queries
        rows = parse_queries(asked, self.triples, notes, self.config.data.columns)
        links = self.predict_rows(rows, top=top, known=known)
        links = replace(links, notes=notes + self.notes_on(rows))
        return self.explain(links) if explain else links

    def predict_rows(self, rows: Tensor, *, top: int = 10, known: Known = "mark") -> Links:
        """Predicts as :meth:`predict`, for queries ``(Q, 3)`` as numbers, without notes; see
        :func:`quatgraph.predictors.queries.parse_queries`."""
        whole = (rows != OPEN).all(dim=1)
        found = [
            *self._score(rows, whole.nonzero().flatten()),
            *self._complete(rows, (~whole).nonzero().flatten(), top, known == "leave-out"),
        ]
        query, triples, scores, ranks = map(torch.cat, zip(*found, strict=True))
        order = query.argsort(stable=True)
        query, triples, scores, ranks = (c[order] for c in (query, triples, scores, ranks))
        return Links(self.triples, query, triples, scores, ranks, self._find_parts(triples))

    def notes_on(self, rows: Tensor) -> list[str]:
        """Notes on the entities and relations of queries ``(Q, 3)`` that training never saw."""
        by_features = any(isinstance(member.model, GraphModel) for member in self.members)
        return report_unseen(rows, self.triples, by_features=by_features)

    def predict_missing(
        self,
        relation: str | Sequence[str] | None = None,
        *,
        top: int = 1000,
        explain: bool = False,
        progress: bool = False,
    ) -> MissingLinks:
        """Ranks all triples that train, valid and test lack, the most probable first.

        The probability is that a further part of the size of the validation part has the triple:
        the number of validation triples that rank alike, over the number of triples that rank alike
        and that training and validation lack. A graph that is complete has no further part, and
        then none of these triples is true. The first call calibrates, which takes longer than
        ranking all relations. A triple whose head is its tail is a candidate if training has one of
        its relation.

        Args:
            relation: The relations to rank; all by default.
            top: Number of triples, at most.
            explain: Whether to compute the ``support`` of each triple, see :meth:`explain`.
            progress: Whether to show a progress bar, on a terminal or in a notebook.
        """
        if top < 1:
            raise UserError(f"top must be at least 1, got {top}")
        graph = self.triples
        if self.card.get("refit"):
            raise UserError(
                "the model was refitted on all labels, so no validation triples are left to "
                "calibrate probabilities with: use the model from before the refit"
            )
        names = [relation] if isinstance(relation, str) else relation
        chosen = range(graph.num_relations)
        numbers = chosen if names is None else sorted({graph.relation(name) for name in names})
        bar: Any = progress_bar("relations") if progress else nullcontext(lambda *_: None)
        scorer = self._cache.get("missing", lambda: MissingTriples(self.model, graph, self.device))
        with bar as update:
            calibration = scorer.calibration(partial(update, "calibrating"))
            found, scores = scorer.rank(calibration, numbers, top, partial(update, "ranking"))
        links = MissingLinks(graph, found, calibration.probability(scores), scores)
        return self.explain(links) if explain else links

    def explain(self, links: LinksT, top: int = 3) -> LinksT:
        """The same predictions with their ``support``: of the triples that the model was trained on
        and that share an entity with a prediction, those that support it most.

        The strength of a triple is how much its score rises if the vectors of entities move so that
        the prediction's rises by 1; a training step on the triple moves the prediction likewise.
        See :mod:`quatgraph.predictors.support`.

        Args:
            links: What ``predict`` or ``predict_missing`` returned.
            top: Number of triples for each prediction, at most; only those of positive strength.
        """
        if top < 1:
            raise UserError(f"top must be at least 1, got {top}")
        graph = self.triples
        parts = (graph.train, graph.valid, graph.test) if self.card.get("refit") else (graph.train,)
        found = name_support(self.model, links.triples, torch.cat(parts), top)
        return replace(links, support=found)

    @torch.no_grad()
    def embed(
        self, kind: Kind = "entities", *, names: Names = None, member: int | None = None
    ) -> Embeddings:
        """The vectors of entities or relations; see :func:`embed_triples`."""
        members = self._choose_members(member)
        vectors: dict[Kind, list[Tensor]] = {
            "entities": [self.model.encode(one) for one in members],
            "relations": [one.model.embed_relations() for one in members],
        }
        return embed_triples(self.triples, vectors, members, kind, names)

    def evaluate(self, data: object = None) -> dict[str, float]:
        """Recomputes the bundle's metrics, those of all members combined, from its weights and
        triples; metrics of a part without triples are left out. No data needs to be given."""
        if data is not None and not self.adopt(data):
            raise UserError(
                "a link bundle holds its triples: evaluate it without data, or rank new triples "
                "with report"
            )
        self._refuse_refitted()
        found = classification_metrics(self.model, self._problem)
        for part in self._problem.parts:
            seen = evaluation.find_seen(self._problem, part)
            found |= evaluation.summarize_ranks(self.ranks(part), part, seen)
        recorded = self.card["metrics"]
        return {n: value for n, value in found.items() if n in recorded and not math.isnan(value)}

    def adopt(self, data: Any) -> bool:
        """Whether data has the triples that the bundle holds, those of all parts, in any order."""
        return is_training_data(data, self.config, self.triples)

    def report(self, triples: AnyQueries | None = None, part: str = "test") -> RankingReport:
        """Ranks the tails and heads of triples, filtered by all known triples and by these.

        Args:
            triples: New triples: a path, a frame, or rows of head, relation and tail; of a folder
                those of ``test``. Those with an entity or a relation that the model does not know
                are left out, with a note.
            part: ``valid`` or ``test``, ranked if no triples are given, or the training data.
        """
        notes: list[str] = []
        if isinstance(triples, Iterator):
            triples = list(triples)
        if triples is None or self.adopt(triples):
            self._refuse_refitted()
            ranks, queries = self.ranks(part), self._problem.parts[part]
        else:
            new = parse_triples(triples, self.triples, notes, self.config.data.columns)
            notes += report_trained(self._find_parts(new))
            ranks, queries = self._rank_new(new)
        return RankingReport(
            num_triples=len(queries.head) // 2,
            metrics={name: value.item() for name, value in ranking_metrics(ranks).items()},
            relations=evaluation.by_relation(ranks, queries, self._relation_names),
            notes=notes,
        )

    def by_relation(self, part: str = "test") -> dict[str, dict[str, float]]:
        """The metrics of each relation, and the number of its ``triples``.

        Args:
            part: ``valid`` or ``test``.
        """
        return self.report(part=part).relations

    @torch.no_grad()
    def ranks(self, part: str = "test") -> Ranks:
        """The filtered ranks of the triples of a part, of their tails and then of their heads.

        Args:
            part: ``valid`` or ``test``.
        """
        check_part(part, PARTS[1:])
        return self._rank(self._problem.parts[part])

    @torch.no_grad()
    def _rank(self, queries: RankingQueries) -> Ranks:
        query, candidates = self.model.combine_vectors(queries.head, queries.relation)
        return evaluation.rank_candidates(query, candidates, queries)

    def _rank_new(self, rows: Tensor) -> tuple[Ranks, RankingQueries]:
        """The ranks of new triples, and the triples as queries."""
        graph = self.triples
        whole = torch.cat((graph.train, graph.valid, graph.test, rows))
        known = source.queries(whole, graph.num_entities, graph.num_relations)
        padded = self._rank(RankingQueries.of(_pad(rows, self.device), known, self.device))
        greater, equal = (
            counts.view(2, -1)[:, : len(rows)].flatten()
            for counts in (padded.greater, padded.equal)
        )
        return Ranks(greater, equal), RankingQueries.of(rows, known, self.device)

    def _build(
        self, config: LinkConfig, card: Mapping[str, Any], tensors: dict[str, Tensor]
    ) -> tuple[nn.Module, None]:
        model = build_model(config.model, self.triples, reciprocal=config.data.reciprocal)
        model.load_state_dict(tensors)
        return model, None

    @torch.no_grad()
    def _score(self, rows: Tensor, places: Tensor) -> Iterator[_Columns]:
        """Scores whole triples at either end, in the evaluator's own way."""
        if not len(places):
            return
        triples = rows[places]
        queries = RankingQueries.of(_pad(triples, self.device), self._known, self.device)
        pairs = queries.head, queries.relation
        query, candidates = self.model.combine_vectors(*pairs)
        ranks = evaluation.rank_candidates(query, candidates, queries).realistic
        scores = (query * candidates.index_select(0, queries.truth)).sum(dim=-1)
        scores = scores + self.model.compute_constants(*pairs)
        scores, ranks = (side.view(2, -1)[:, : len(triples)].cpu() for side in (scores, ranks))
        yield places, triples, scores[: 1 + self.reciprocal].mean(dim=0), ranks.T

    @torch.no_grad()
    def _complete(
        self, rows: Tensor, places: Tensor, top: int, only_new: bool
    ) -> Iterator[_Columns]:
        """Predicts the missing end of triples, some queries at a time."""
        if not len(places):
            return
        queries = _pad(rows[places], self.device)
        head, relation, tail = queries.unbind(1)
        heads = head == OPEN
        inverse = heads * self.triples.num_relations
        pairs = torch.stack((torch.where(heads, tail, head), relation + inverse), dim=1)
        on_device = pairs.to(self.device).unbind(1)
        query, candidates = self.model.combine_vectors(*on_device)
        constants = self.model.compute_constants(*on_device)[:, None].cpu()
        pieces = -(-len(pairs) * self.triples.num_entities // SCORES_AT_ONCE)
        for some_rows in torch.arange(len(pairs)).tensor_split(pieces):
            scores = query[some_rows.to(self.device)] @ candidates.mT
            some_rows = some_rows[some_rows < len(places)]
            known = self._find_known(pairs[some_rows])
            entities, best, ranks, new = (
                column.cpu()
                for column in top_candidates(scores[: len(some_rows)], known, top, only_new)
            )
            wanted = new | (not only_new)
            row = some_rows[wanted.nonzero()[:, 0]]
            triples = queries[row]
            is_open = triples == OPEN  # one end of each
            triples[is_open] = entities[wanted]
            sides = torch.where(is_open[:, [2, 0]], ranks[wanted][:, None], math.nan)
            best = best + constants[some_rows]
            yield places[row], triples, best[wanted], sides

    def _find_known(self, pairs: Tensor) -> Tensor:
        """Whether an entity is known to complete each query, ``(Q, E)``."""
        found = self._known.select(pairs)
        query = torch.arange(len(pairs)).repeat_interleave(found.ptr.diff())
        known = torch.zeros(len(pairs), self.triples.num_entities, dtype=torch.bool)
        known[query, found.tails] = True
        return known.to(self.device)

    def _find_parts(self, triples: Tensor) -> list[str]:
        """The part that has each triple, the first of several; empty for none."""
        keys, parts = self._cache.get("parts", self._sort_parts)
        wanted = triple_keys(triples, self.triples)
        place = torch.searchsorted(keys, wanted).clamp(max=max(0, len(keys) - 1))
        found = zip((keys[place] == wanted).tolist(), parts[place].tolist(), strict=True)
        return [PARTS[number] if known else "" for known, number in found]

    def _sort_parts(self) -> tuple[Tensor, Tensor]:
        """The keys of all triples, sorted, and the parts that they are in, ``(N,)`` each."""
        keys = [triple_keys(getattr(self.triples, name), self.triples) for name in PARTS]
        sizes = torch.tensor([len(part) for part in keys])
        ordered, order = torch.cat(keys).sort(stable=True)
        return ordered, torch.arange(len(PARTS)).repeat_interleave(sizes)[order]

    @property
    def _relation_names(self) -> list[str]:
        """The labels of relations, or their ids if labels repeat."""
        graph = self.triples
        distinct = len(set(graph.relation_labels)) == graph.num_relations
        return graph.relation_labels if distinct else graph.relations

    @property
    def _known(self) -> Queries:
        return self._cache.get("known", lambda: source.known(self.triples))

    @property
    def _problem(self) -> Problem:
        """The triples as members take them that learned as few relations as any."""
        config = min((m.config for m in self.members), key=lambda c: c.data.reciprocal)
        return self._cache.get("problem", lambda: LINK.prepare(self.triples, config, self.device))


def _pad(rows: Tensor, device: torch.device) -> Tensor:
    """Appends zeros up to :data:`MIN_ROWS`."""
    return torch.cat((rows, rows.new_zeros(max(0, MIN_ROWS[device.type] - len(rows)), 3)))
