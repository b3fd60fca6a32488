"""Selection on validation data: the one rule for epochs, runs and configurations.

``train``, ``search``, ``reproduce`` and the bundle all follow it. Test data plays no part.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.training.record import RunRecord

SELECTION_SCORE = "valid/merit"
"""The metric that holds an epoch's selection score; stored records know it by this name."""
DIVERGED = (-1.0, 0.0)
"""The selection score of a run that diverged: lower than any other."""


def selection_score(metrics: Mapping[str, float], metric: str = "accuracy") -> tuple[float, float]:
    """Scores a run by a metric on validation data, then by its lower validation loss; a run of a
    task without classes by the :data:`SELECTION_SCORE` that it measures.

    Runs without validation data, whose score is NaN or missing, are all equal. Where a metric other
    than the accuracy is undefined, the loss decides. A run that diverged is marked, see
    :func:`mark_diverged`; in older records its loss is not finite.
    """
    if metrics.get(SELECTION_SCORE) == DIVERGED[0]:
        return DIVERGED
    if "valid/accuracy" not in metrics and SELECTION_SCORE in metrics:
        value = metrics[SELECTION_SCORE]
        return 0.0 if math.isnan(value) else value, 0.0
    accuracy, loss = metrics.get("valid/accuracy", math.nan), metrics.get("valid/loss", 0.0)
    if math.isnan(accuracy):
        accuracy, loss = 0.0, 0.0 * metrics.get("test/loss", 0.0)
    value = accuracy if metric == "accuracy" else metrics.get(f"valid/{metric}", math.nan)
    return (0.0 if math.isnan(value) else value, -loss) if math.isfinite(loss) else DIVERGED


def score_run(record: RunRecord) -> tuple[float, float]:
    """The :func:`selection_score` of a run by its own metric."""
    return selection_score(record.metrics, selection_metric(record.config))


def selection_metric(config: configs.Values) -> str:
    """The metric that selects, of a configuration as records hold it; for a task without classes
    its ``train.monitor``."""
    train = config.get("train", {})
    metric: str = train.get("monitor") or train.get("metric", "accuracy")
    return metric


def score_epoch(value: Tensor, loss: Tensor) -> Tensor:
    """Scores an epoch of each member by a metric on validation data, 0 where it is undefined. Ties,
    which are frequent on small validation sets, go to the lower loss; in float64, which resolves
    close losses."""
    value, loss = value.double(), loss.double()
    return torch.where(value.isnan(), 0, value) - 1e-4 * loss / (1 + loss)


def mark_diverged(record: RunRecord) -> RunRecord:
    """The record with the selection score of a run that diverged."""
    return replace(record, metrics=record.metrics | {SELECTION_SCORE: DIVERGED[0]})


def drop_diverged(records: Sequence[RunRecord]) -> list[RunRecord]:
    return [record for record in records if score_run(record) != DIVERGED]


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of one configuration."""

    runs: list[RunRecord]

    @property
    def digest(self) -> str:
        """The digest of the configuration."""
        return self.runs[0].config_digest

    @property
    def score(self) -> tuple[float, float]:
        """The mean selection score."""
        values, losses = zip(*map(score_run, self.runs), strict=True)
        return fmean(values), fmean(losses)

    @property
    def healthy(self) -> list[RunRecord]:
        """The runs that did not diverge."""
        return drop_diverged(self.runs)

    @property
    def best(self) -> RunRecord:
        return max(self.runs, key=score_run)


def rank_groups(records: Sequence[RunRecord]) -> list[RunGroup]:
    """Groups runs by configuration, the best mean first: a single run may get its few validation
    items right by luck."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(record.config_digest, []).append(record)
    return sorted(map(RunGroup, groups.values()), key=lambda group: group.score, reverse=True)


def select_group(records: Sequence[RunRecord]) -> RunGroup:
    """Selects the runs of which a bundle is made: those with the best mean."""
    return rank_groups(records)[0]


Score = Callable[[RunRecord], tuple[float, ...]]


def choose_by_validation(records: Sequence[RunRecord], score: Score = score_run) -> list[RunRecord]:
    """For each split all runs of the configuration that is best on validation data.

    Configurations are ranked as by :func:`rank_by_validation`. Then each one, in this order,
    replaces the best so far if its mean over the seeds of both is higher: a single lucky seed does
    not beat several.
    """
    return [run for ranked in _rank_splits(records, score) for run in _find_best(ranked, score)]


def rank_by_validation(records: Sequence[RunRecord], score: Score, count: int) -> list[RunRecord]:
    """For each split all runs of the ``count`` configurations with the best mean on validation data
    over the seeds that all configurations have, best first."""
    splits = _rank_splits(records, score)
    return [run for ranked in splits for runs in ranked[:count] for run in runs]


def _rank_splits(records: Sequence[RunRecord], score: Score) -> Iterator[list[list[RunRecord]]]:
    """For each split the runs of its configurations, best first."""
    splits: dict[int, dict[str, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        splits[record.split][record.config_digest].append(record)
    for _, configurations in sorted(splits.items()):
        shared = _shared_seeds(*configurations.values())
        yield sorted(
            configurations.values(), key=lambda runs: _mean(runs, score, shared), reverse=True
        )


def _find_best(ranked: Sequence[list[RunRecord]], score: Score) -> list[RunRecord]:
    best, *others = ranked
    for runs in others:
        shared = _shared_seeds(best, runs)
        if _mean(runs, score, shared) > _mean(best, score, shared):
            best = runs
    return best


def _shared_seeds(*configurations: list[RunRecord]) -> set[int]:
    """The seeds that all configurations have; where there are none, those of any."""
    seeds = [{run.seed for run in runs} for runs in configurations]
    return set.intersection(*seeds) or set.union(*seeds)


def _mean(runs: Sequence[RunRecord], score: Score, seeds: set[int]) -> tuple[float, ...]:
    scores = [score(run) for run in runs if run.seed in seeds]
    return tuple(sum(parts) / len(scores) for parts in zip(*scores, strict=True))
