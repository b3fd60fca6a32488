r"""Ranks the triples that a knowledge graph lacks.

The scores of different queries are not comparable: each query ranks all entities, whether or not it
has an answer. A triple :math:`(h, r, t)` is therefore described by both of its queries,

.. math:: \log p(t \mid h, r), \quad \log p(h \mid r, t), \quad
    \min(0, \log p(t \mid h, r) + \log(1 + n_{hr})), \quad
    \min(0, \log p(h \mid r, t) + \log(1 + n_{rt})),

where :math:`n_{hr}` counts the tails that training has for the head and :math:`n_{rt}` the heads
for the tail, so that a sum is the logarithm of an expected number of triples; and by whether
:math:`n_{hr}` and :math:`n_{rt}` are 0. A logistic regression with an intercept per relation ranks
triples by these features; their probability is that a further part of the size of the validation
part has them, see :mod:`quatgraph.predictors.calibration`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quatgraph.data import link as source
from quatgraph.data.link import Queries, Triples
from quatgraph.errors import UserError
from quatgraph.predictors.calibration import Calibration, LabelledTriples, fit_calibration
from quatgraph.predictors.link_combination import CombinedModel
from quatgraph.predictors.members import Cache

TILE = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Scores of a tile; on a CPU it stays in the cache."""
SAMPLED_SCORES = 1 << 32
"""Triples that a calibration looks at: of a larger graph, those of a sample of heads."""
HARDEST, RANDOM = 100_000, 50_000
"""False triples of a calibration: those with the best scores, and random ones."""

Report = Callable[[int, int], None]
"""Called with the relations done and their number."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The triples of one relation, some heads and all tails."""

    relation: int
    heads: Tensor
    """Sorted, ``(B,)``."""
    tail_score: Tensor
    """The log-probabilities of tails, ``(B, E)``..."""
    head_score: Tensor
    """... and of heads, ``(B, E)``."""
    head_count: Tensor
    """The logarithms of one more than the tails that training has for a head, ``(B,)``..."""
    tail_count: Tensor
    """... and of one more than the heads for a tail, ``(E,)``."""
    excluded: tuple[Tensor, Tensor]
    """Rows and columns of triples that are known, or loops of a relation that has none."""

    def locate(self, triples: Tensor) -> tuple[Tensor, Tensor]:
        """Rows and columns of those triples of the relation whose heads the tile has."""
        own = triples[torch.isin(triples[:, 0], self.heads)].to(self.tail_score.device)
        heads = self.heads.to(own.device)
        return torch.searchsorted(heads, own[:, 0].contiguous()), own[:, 2]

    def features(self, row: Tensor, tail: Tensor) -> Tensor:
        """The features of some triples, ``(N, 6)``."""
        by_tail, by_head = self.tail_score[row, tail], self.head_score[row, tail]
        counts = self.head_count[row], self.tail_count[tail]
        return torch.stack(
            (
                by_tail,
                by_head,
                (by_tail + counts[0]).clamp(max=0),
                (by_head + counts[1]).clamp(max=0),
                (counts[0] > 0).to(by_tail.dtype),
                (counts[1] > 0).to(by_tail.dtype),
            ),
            dim=1,
        )

    def log_odds(self, coefficients: Sequence[float], intercept: float) -> Tensor:
        """The linear combination of the features of all triples, ``(B, E)``, those that are
        excluded last."""
        tail, head, tail_sum, head_sum, seen_head, seen_tail = coefficients
        total = (self.tail_score + self.head_count[:, None]).clamp_(max=0).mul_(tail_sum)
        total.add_(self.tail_score, alpha=tail)
        other = (self.head_score + self.tail_count).clamp_(max=0)
        total.add_(other, alpha=head_sum).add_(self.head_score, alpha=head)
        total += intercept + seen_head * (self.head_count[:, None] > 0)
        total += seen_tail * (self.tail_count > 0)
        total[self.excluded] = -torch.inf
        return total


class MissingTriples:
    """Scores all triples of a graph, a tile at a time.

    Args:
        model: The model.
        triples: The knowledge graph; the triples of all its parts are known.
        device: The device to compute on.
    """

    def __init__(self, model: CombinedModel, triples: Triples, device: torch.device) -> None:
        self.model, self.triples, self.device = model, triples, device
        self.known = source.known(triples)
        sizes = triples.num_entities, triples.num_relations
        self.trained = source.queries(triples.train, *sizes)
        self._cache, self._normalizers = Cache(), Cache()

    def calibration(self, report: Report) -> Calibration:
        """The calibration, fitted at the first call."""
        return self._cache.get("calibration", lambda: self.calibrate(report))

    @torch.no_grad()
    def rank(
        self, calibration: Calibration, relations: Sequence[int], top: int, report: Report
    ) -> tuple[Tensor, Tensor]:
        """The triples with the best log-odds, ``(top, 3)``, and these, ``(top,)``."""
        best = _Best(top)
        coefficients = calibration.coefficients.tolist()
        for done, relation in enumerate(relations):
            intercept = float(calibration.intercepts[relation])
            for tile in self.tiles(relation, torch.arange(self.triples.num_entities)):
                best.add(tile, tile.log_odds(coefficients, intercept))
            report(done + 1, len(relations))
        found, features = best.take()
        log_odds = calibration.log_odds(features, found[:, 1])
        order = log_odds.argsort(descending=True, stable=True)
        return found[order], log_odds[order]

    @torch.no_grad()
    def calibrate(self, report: Report) -> Calibration:
        """Fits the probability that a further part has a triple, as the validation part might.

        Negatives are the triples with the best scores and a weighted sample of all others. Test
        triples are not known here: they are among the others, as those of a further part would be.
        """
        graph, generator = self.triples, torch.Generator().manual_seed(0)
        valid = self._select_untrained(graph.valid)
        if not len(valid):
            raise UserError(
                "the model has no validation triples to calibrate probabilities with: train it "
                "with some"
            )
        entities, relations = graph.num_entities, graph.num_relations
        count = max(1, min(entities, SAMPLED_SCORES // (entities * relations)))
        heads = torch.randperm(entities, generator=generator)
        sampled = heads[:count].sort().values
        if not bool(torch.isin(valid[:, 0], sampled).any()):  # without one nothing can be fitted
            sampled = torch.cat((sampled, valid[:1, 0])).unique()
        learned = source.queries(torch.cat((graph.train, graph.valid)), entities, relations)
        drawn = _draw_triples(sampled, relations, entities, generator)
        hardest = _Best(HARDEST)
        positive, random, random_relation, num_cells = [], [], [], 0
        positive_relation = []
        for relation in range(relations):
            own, others = (some[some[:, 1] == relation] for some in (valid, drawn))
            for tile in self.tiles(relation, sampled, learned):
                scores = tile.log_odds((1.0,) * 6, 0.0)
                hardest.add(tile, scores)
                row, tail = tile.locate(own)
                positive.append(tile.features(row, tail).cpu())
                positive_relation.append(torch.full((len(row),), relation))
                cells = tile.locate(others)
                random.append(torch.cat((tile.features(*cells), scores[cells][:, None]), 1).cpu())
                random_relation.append(torch.full((len(cells[0]),), relation))
                num_cells += scores.numel() - len(tile.excluded[0])
            report(relation + 1, relations)
        found, features = hardest.take()
        rest, rest_relation = torch.cat(random), torch.cat(random_relation)
        left = (rest[:, -1] < hardest.threshold) & rest[:, -1].isfinite()
        rest, rest_relation = rest[left, :-1], rest_relation[left]
        weight = max(0, num_cells - len(found)) / max(1, len(rest))
        true = torch.cat(positive)
        sizes = len(true), len(found), len(rest)
        return fit_calibration(
            LabelledTriples(
                features=torch.cat((true, features, rest)),
                relation=torch.cat((*positive_relation, found[:, 1], rest_relation)),
                positive=torch.arange(sum(sizes)) < sizes[0],
                weight=torch.tensor([1.0, 1.0, weight]).repeat_interleave(torch.tensor(sizes)),
            ),
            relations,
        )

    def tiles(self, relation: int, heads: Tensor, known: Queries | None = None) -> Iterator[Tile]:
        """The triples of a relation with some heads, which are sorted; ``known`` ones are excluded,
        by default those of all parts."""
        graph, device = self.triples, self.device
        everyone = torch.arange(graph.num_entities, device=device)
        inverse = torch.full_like(everyone, relation + graph.num_relations)
        query, candidates = self.model.combine_vectors(everyone, inverse)
        normalizer = self._normalizers.get(
            relation, lambda: self.model.log_normalizers(everyone, inverse)
        )
        counts = [
            self._count_trained(everyone.cpu(), relation + side * graph.num_relations)
            for side in (0, 1)
        ]
        excluded = (known or self.known).select(_with_relation(heads, relation))
        own = graph.train[graph.train[:, 1] == relation]
        has_loops = bool((own[:, 0] == own[:, 2]).any())
        rows = max(1, TILE[device.type] // graph.num_entities)
        for start in range(0, len(heads), rows):
            some = heads[start : start + rows]
            on_device = some.to(device)
            relations = torch.full_like(on_device, relation)
            yield Tile(
                relation,
                some,
                self.model.log_probabilities(on_device, relations),
                candidates[on_device] @ query.mT - normalizer,
                counts[0][some].to(device),
                counts[1].to(device),
                _exclude(excluded, start, some, has_loops, device),
            )

    def _count_trained(self, entities: Tensor, relation: int) -> Tensor:
        """The logarithms of one more than the answers that training has to queries, ``(E,)``."""
        found = self.trained.select(_with_relation(entities, relation))
        return found.ptr.diff().float().log1p()

    def _select_untrained(self, triples: Tensor) -> Tensor:
        """The triples that training lacks, each once."""
        own = triples.unique(dim=0)
        trained = self.trained.select(own[:, :2])
        query = torch.arange(len(own)).repeat_interleave(trained.ptr.diff())
        learned = torch.zeros(len(own), dtype=torch.bool)
        learned[query[trained.tails == own[query, 2]]] = True
        return own[~learned]


class _Best:
    """The triples with the best scores so far, and their features."""

    def __init__(self, count: int) -> None:
        self.count, self.threshold = count, -torch.inf
        self._scores: list[Tensor] = []
        self._triples: list[Tensor] = []
        self._features: list[Tensor] = []

    def add(self, tile: Tile, scores: Tensor) -> None:
        """Adds the triples of a tile; those with a score of minus infinity are left out."""
        row, tail = (scores > self.threshold).nonzero().unbind(1)
        if len(row) > self.count:
            first = scores[row, tail].sort(descending=True, stable=True).indices[: self.count]
            row, tail = row[first], tail[first]
        if not len(row):
            return
        heads = tile.heads[row.cpu()]
        relation = torch.full_like(heads, tile.relation)
        self._triples.append(torch.stack((heads, relation, tail.cpu()), dim=1))
        self._scores.append(scores[row, tail].cpu())
        self._features.append(tile.features(row, tail).cpu())
        if sum(map(len, self._scores)) > 2 * self.count:
            self._cut()

    def take(self) -> tuple[Tensor, Tensor]:
        """The triples, the best first, ``(K, 3)``, and their features, ``(K, 6)``."""
        if not self._scores:
            return torch.empty(0, 3, dtype=torch.int64), torch.empty(0, 6)
        self._cut()
        return self._triples[0], self._features[0]

    def _cut(self) -> None:
        scores = torch.cat(self._scores)
        order = scores.sort(descending=True, stable=True).indices[: self.count]
        self._scores = [scores[order]]
        self._triples = [torch.cat(self._triples)[order]]
        self._features = [torch.cat(self._features)[order]]
        if len(order) == self.count:
            self.threshold = float(self._scores[0][-1])


def _with_relation(entities: Tensor, relation: int) -> Tensor:
    return torch.stack((entities, torch.full_like(entities, relation)), dim=1)


def _exclude(
    known: Queries, start: int, heads: Tensor, has_loops: bool, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Rows and columns of the triples of a tile that are no candidates, each once."""
    ptr = known.ptr[start : start + len(heads) + 1]
    row = torch.arange(len(heads)).repeat_interleave(ptr.diff())
    tail = known.tails[int(ptr[0]) : int(ptr[-1])]
    if not has_loops:  # then validation or test may still have one, which is known
        cells = torch.cat(
            (torch.stack((row, tail)), torch.stack((torch.arange(len(heads)), heads))), 1
        )
        row, tail = cells.unique(dim=1).unbind(0)
    return row.to(device), tail.to(device)


def _draw_triples(
    heads: Tensor, relations: int, entities: int, generator: torch.Generator
) -> Tensor:
    """Random triples with these heads, with replacement, ``(RANDOM, 3)``: the same, in the same
    order, for tiles of any size."""
    sizes = len(heads), relations, entities
    place, relation, tail = (torch.randint(n, (RANDOM,), generator=generator) for n in sizes)
    return torch.stack((heads[place.sort().values], relation, tail), dim=1)
