"""Do explanations name what a prediction rests on? Removes triples, trains again and compares.

For held-out triples that a model predicts well, ``explain`` names the three training triples that
support each most. A model trained without these predicts it worse than one trained without three
other triples: random ones that share an entity with it, or random ones that share the same entity
of it as those named.

The method was chosen on countries; the other datasets took no part in it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from benchmarks import choose_datasets
from quatgraph.data import link as source
from quatgraph.data.link import Queries, Triples
from quatgraph.models.link import LinkOptions
from quatgraph.models.link.embeddings import EmbeddingsOptions
from quatgraph.models.link.simqgnn import SimQGNNOptions
from quatgraph.predictors.link_combination import CombinedModel, triple_keys
from quatgraph.predictors.members import TrainedMember
from quatgraph.predictors.support import find_neighbours, find_support
from quatgraph.tasks.link import LINK
from quatgraph.tasks.link.config import LinkConfig, TrainConfig
from quatgraph.tasks.link.evaluation import rank_candidates
from quatgraph.tasks.link.problem import RankingQueries
from quatgraph.tasks.runs import run
from quatgraph.training.context import Context

DATASETS = ("countries", "codex-s", "umls", "nations")
QUERIES, SEEDS, REMOVED, RESAMPLES = 200, 3, 3, 10_000
MIN_TRAINED = 16
"""Training triples for each prediction, at least: all predictions lose theirs at once, and most of
the graph must stay."""
WELL = 0.2
"""The least mean reciprocal rank of a prediction, over both ends."""
NAMED, NEAR, SAME_END = "supporting triples", "random neighbours", "random, of the same end"

MODELS: dict[str, tuple[LinkOptions, TrainConfig]] = {
    "ComplEx": (
        EmbeddingsOptions(decoder="complex", dim_quats=16, norm=False, dropout=0.3),
        TrainConfig(epochs=60, lr=0.02, batch_size=1024, n3=1e-2, select="last"),
    ),
    "SimQGNN": (
        SimQGNNOptions(dim_quats=16),
        TrainConfig(epochs=60, lr=0.01, batch_size=1024, select="last"),
    ),
}


def rows(device: torch.device, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """A row for each dataset, model and control."""
    for dataset in choose_datasets(only, DATASETS):
        triples = source.load(dataset)
        for name, (options, train) in MODELS.items():
            config = LinkConfig(model=options, train=replace(train, patience=None), seeds=SEEDS)
            yield from _compare(name, triples, config, device)


def _compare(
    name: str, triples: Triples, config: LinkConfig, device: torch.device
) -> Iterator[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    known = source.known(triples)
    whole = train_models(triples, config, device)
    held_out = torch.cat((triples.valid, triples.test))
    well = (_reciprocal_ranks(whole, held_out, known) >= WELL).nonzero().flatten()
    count = min(QUERIES, len(triples.train) // MIN_TRAINED)
    chosen = held_out[well[torch.randperm(len(well), generator=generator)[:count]]]
    began = time.perf_counter()
    named = [find_support(whole[0], one, triples.train, REMOVED)[0] for one in chosen]
    seconds = (time.perf_counter() - began) / len(chosen)
    near = [find_neighbours(triple, triples.train) for triple in chosen]
    removed = {
        NAMED: named,
        NEAR: [_draw(own, REMOVED, generator) for own in near],
        SAME_END: [
            _draw_alike(*three, generator) for three in zip(chosen, named, near, strict=True)
        ],
    }
    before = _scores(whole, chosen)
    drops, ranks = {}, {}
    for kind, sets in removed.items():
        models = train_models(_without(triples, torch.cat(sets)), config, device)
        drops[kind] = before - _scores(models, chosen)
        ranks[kind] = _reciprocal_ranks(models, chosen, known)
    for kind in (NEAR, SAME_END):
        more = drops[NAMED] - drops[kind]
        low, high = _interval(more, generator)
        rank_low, rank_high = _interval(ranks[kind] - ranks[NAMED], generator)
        yield {
            "case": f"{triples.name}, {name}",
            "work": f"{len(chosen)} predictions, {SEEDS} seeds",
            "variant": kind,
            "drop": round(float(drops[NAMED].mean()), 3),
            "drop_control": round(float(drops[kind].mean()), 3),
            "difference": round(float(more.mean()), 3),
            "low": round(low, 3),
            "high": round(high, 3),
            "mrr": round(float(_reciprocal_ranks(whole, chosen, known).mean()), 3),
            "mrr_removed": round(float(ranks[NAMED].mean()), 3),
            "mrr_control": round(float(ranks[kind].mean()), 3),
            "mrr_low": round(rank_low, 3),
            "mrr_high": round(rank_high, 3),
            "ms": round(1e3 * seconds, 2),
        }


def train_models(triples: Triples, config: LinkConfig, device: torch.device) -> list[CombinedModel]:
    """Models of several seeds, each for itself."""
    found = []
    for outcome in run(LINK, LINK.members(config, triples), triples, Context(device)):
        problem = LINK.prepare(triples, config, device)
        for place, seed in enumerate(outcome.members):
            model = LINK.build(config, problem)
            weights = outcome.fit.weights
            model.load_state_dict({name: weights[name][place] for name in model.state_dict()})
            member = TrainedMember(config, 0, seed.seed, 1.0, model.to(device).eval(), None)
            found.append(CombinedModel([member], triples))
    return found


def _without(triples: Triples, removed: Tensor) -> Triples:
    """The graph without some training triples, with the same entities and relations."""
    keys, gone = (triple_keys(part, triples) for part in (triples.train, removed))
    return replace(triples, train=triples.train[~torch.isin(keys, gone)])


def _draw(rows: Tensor, count: int, generator: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=generator)[:count]]


def _draw_alike(triple: Tensor, named: Tensor, near: Tensor, generator: torch.Generator) -> Tensor:
    """For each named triple another one that shares the same entities with the prediction."""

    def shared(rows: Tensor) -> Tensor:
        ends = [torch.isin(rows[:, [0, 2]], end).any(dim=1) for end in triple[[0, 2]]]
        return ends[0] + 2 * ends[1].long()

    others = near[~(near[:, None] == named).all(dim=2).any(dim=1)]
    kinds, found = shared(others), []
    for kind in shared(named).unique():
        found.append(_draw(others[kinds == kind], int((shared(named) == kind).sum()), generator))
    return torch.cat(found) if found else named[:0]


@torch.no_grad()
def _scores(models: Sequence[CombinedModel], triples: Tensor) -> Tensor:
    """The log-probabilities of triples at both ends, the mean over models, ``(N,)``."""
    total = torch.zeros(len(triples))
    for one in models:
        both = source.with_inverses(triples, one.triples.num_relations)
        both = both.to(one.encode(one.members[0]).device)
        found = one.log_probabilities(*both[:, :2].unbind(1))
        total += found.gather(1, both[:, 2:]).view(2, -1).sum(dim=0).cpu()
    return total / len(models)


@torch.no_grad()
def _reciprocal_ranks(models: Sequence[CombinedModel], triples: Tensor, known: Queries) -> Tensor:
    """The mean reciprocal ranks of triples over models and both ends, filtered by all triples that
    are known, removed ones included, ``(N,)``."""
    total = torch.zeros(len(triples))
    for one in models:
        device = one.encode(one.members[0]).device
        queries = RankingQueries.of(triples, known, device)
        query, candidates = one.combine_vectors(queries.head, queries.relation)
        ranks = rank_candidates(query, candidates, queries).realistic
        total += (1 / ranks).view(2, -1).mean(dim=0).cpu()
    return total / len(models)


def _interval(values: Tensor, generator: torch.Generator) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    draws = torch.randint(len(values), (RESAMPLES, len(values)), generator=generator)
    low, high = values[draws].mean(dim=1).quantile(torch.tensor([0.025, 0.975])).tolist()
    return low, high
