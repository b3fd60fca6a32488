"""Are the probabilities of missing triples true? Holds test triples back and counts them.

A model learns the training triples, validation triples calibrate its probabilities, and all triples
that neither has are ranked. Test triples play no part until they are counted. True triples that no
part has count as false, as in the calibration; CoDEx's negatives are known to be false.

The features of the calibration were chosen while test triples of countries and CoDEx-S were looked
at. UMLS and Nations took no part in that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from benchmarks import choose_datasets
from benchmarks.explain import DATASETS, MODELS, train_models
from quatgraph.data import link as source
from quatgraph.data.link import Triples
from quatgraph.predictors.calibration import Calibration
from quatgraph.predictors.link_combination import CombinedModel
from quatgraph.predictors.missing import MissingTriples
from quatgraph.tasks.link.config import LinkConfig

SEEDS, TOP, BINS, DRAWS = 3, 1000, 10, 1000
VARIANT = "ratio, cross-fitted"
GROUPS = (0, 100, 300, 1000, 3000, 10_000)
"""Ranks between which probabilities and rates are compared."""


def rows(device: torch.device, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """A row for each dataset and model."""
    for dataset in choose_datasets(only, DATASETS):
        triples = source.load(dataset)
        for name, (options, train) in MODELS.items():
            config = LinkConfig(model=options, train=replace(train, patience=None), seeds=SEEDS)
            models = train_models(triples, config, device)
            found = [measure(one, triples, device) for one in models]
            yield {
                "case": f"{triples.name}, {name}",
                "work": f"{len(triples.test)} test triples, {SEEDS} seeds",
                "variant": VARIANT,
                **{key: _mean([one[key] for one in found]) for key in found[0]},
            }


def measure(model: CombinedModel, triples: Triples, device: torch.device) -> dict[str, Any]:
    """How often triples of each rank are test triples, beside their probabilities."""
    held_back = replace(triples, test=triples.test[:0])
    scorer = MissingTriples(model, held_back, device)
    calibration = scorer.calibrate(_ignore)
    relations = range(triples.num_relations)
    ranked, log_odds = scorer.rank(calibration, relations, GROUPS[-1], _ignore)
    stated = calibration.probability(log_odds)
    learned = _keys(torch.cat((triples.train, triples.valid)), triples)
    test = _keys(triples.test, triples).unique()
    test = test[~torch.isin(test, learned)]
    true = torch.isin(_keys(ranked, triples), test).double()
    candidates = triples.num_entities**2 * triples.num_relations - len(learned.unique())
    groups = [slice(*pair) for pair in pairwise(GROUPS)]
    groups = [group for group in groups if group.start < len(true)]
    clean = {} if triples.test_negatives is None else _judge(scorer, calibration, triples, ranked)
    return {
        "random": len(test) / candidates,
        "precision_100": float(true[:100].mean()),
        "stated_100": float(stated[:100].mean()),
        "precision_1000": float(true[:TOP].mean()),
        "stated_1000": float(stated[:TOP].mean()),
        "error": calibration_error(stated[:TOP], true[:TOP]),
        "error_if_exact": _error_if_exact(stated[:TOP]),
        "stated": [float(stated[group].mean()) for group in groups],
        "observed": [float(true[group].mean()) for group in groups],
        **clean,
    }


def calibration_error(stated: Tensor, true: Tensor) -> float:
    """The expected calibration error of probabilities in descending order: the mean difference
    between probability and rate, over bins of equal size."""
    gaps = [(s.mean() - t.mean()).abs() * len(s) for s, t in _bins(stated, true)]
    return float(torch.stack(gaps).sum()) / len(stated)


def _bins(*columns: Tensor) -> Iterator[tuple[Tensor, ...]]:
    yield from zip(*(column.tensor_split(BINS) for column in columns), strict=True)


def _error_if_exact(stated: Tensor) -> float:
    """The calibration error that exact probabilities would have by chance."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(DRAWS, len(stated), generator=generator).double() < stated
    return sum(calibration_error(stated, one.double()) for one in drawn) / DRAWS


def _judge(
    scorer: MissingTriples, calibration: Calibration, triples: Triples, ranked: Tensor
) -> dict[str, float]:
    """How well test triples are told from plausible triples that are false: the area under the ROC
    curve, and the share of the former among those of the top that are either."""
    negatives = triples.test_negatives
    assert negatives is not None
    true, false = (_log_odds(scorer, calibration, part) for part in (triples.test, negatives))
    order = false.sort().values
    below = torch.searchsorted(order, true) + torch.searchsorted(order, true, right=True)
    top = _keys(ranked[:TOP], triples)
    counts = [
        int(torch.isin(top, _keys(part, triples)).sum()) for part in (triples.test, negatives)
    ]
    return {
        "auc": float(below.double().mean() / 2 / len(false)),
        "top_true": counts[0],
        "top_false": counts[1],
    }


@torch.no_grad()
def _log_odds(scorer: MissingTriples, calibration: Calibration, triples: Tensor) -> Tensor:
    found = []
    for relation in triples[:, 1].unique().tolist():
        own = triples[triples[:, 1] == relation]
        for tile in scorer.tiles(relation, own[:, 0].unique()):
            features = tile.features(*tile.locate(own)).cpu()
            found.append(calibration.log_odds(features, torch.full((len(features),), relation)))
    return torch.cat(found)


def _keys(part: Tensor, triples: Triples) -> Tensor:
    head, relation, tail = part.unbind(1)
    return (head * triples.num_relations + relation) * triples.num_entities + tail


def _mean(values: Sequence[Any]) -> Any:
    """The mean of numbers, or of lists of them, over seeds."""
    if isinstance(values[0], list):
        return [_mean(column) for column in zip(*values, strict=True)]
    return float(f"{sum(values) / len(values):.4g}")


def _ignore(done: int, count: int) -> None:
    """Reports nothing."""
