"""Compares trained models, or sets of run records, by a suitable paired test.

Models are compared on the test items that both have: classifiers by McNemar's test, models of
triples by a bootstrap. Records are compared run by run: over several splits by the corrected
resampled t test, over the seeds of one split by the paired t test.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from quatgraph import config as configs
from quatgraph.comparison.results import Comparison, Pair, PairedRun
from quatgraph.errors import UserError
from quatgraph.estimators import Estimator
from quatgraph.metrics.comparison import holm, mcnemar, paired_bootstrap, paired_t
from quatgraph.metrics.ranking import ranking_values
from quatgraph.predictors import Predictor, load
from quatgraph.predictors.base import Classifier
from quatgraph.predictors.link import LinkPredictor
from quatgraph.tasks import TASKS
from quatgraph.tasks.selection import choose_by_validation, drop_diverged
from quatgraph.tasks.stored import RECORDS
from quatgraph.training.bundle import BUNDLE
from quatgraph.training.record import RunRecord, read_records

__all__ = ["Comparison", "Pair", "compare", "compare_records"]

AnyModel = Predictor[Any] | Estimator[Any] | Path | str
"""A loaded model, a trained estimator, the folder of a bundle, or a file or folder of records."""
_Opened = Predictor[Any] | Path | str
_SPLITS = ("folds", "num_folds", "fold_seed", "split_seed", "draw_seed")
"""Settings of the data that decide its splits."""
_ITEMS = {"node": "nodes", "graph": "graphs", "link": "triples", "text": "texts"}


@dataclass(frozen=True, slots=True)
class _Source:
    """What is known of a model: itself, its records, or both."""

    name: str
    task: str
    data: str
    predictor: Predictor[Any] | None
    runs: list[RunRecord]
    """For each split, those of the configuration that is best on its validation data."""
    num_configs: int

    @property
    def metric(self) -> str:
        return TASKS[self.task].reported_metrics[0]

    def digest(self, by_item: bool) -> str:
        """Identifies the data; features of entities belong to the model."""
        if by_item and isinstance(self.predictor, LinkPredictor):
            return self.predictor.triples.triples_digest
        if by_item and self.predictor is not None:
            return str(self.predictor.card["data"]["digest"])
        return _data_key(self.runs[0])

    @property
    def validation(self) -> float:
        """The validation metric; NaN if unknown."""
        if self.predictor is not None:
            value: float = self.predictor.card["metrics"].get(f"valid/{self.metric}", math.nan)
            return math.nan if value is None else value
        return fmean(run.metrics.get(f"valid/{self.metric}", math.nan) for run in self.runs)


def compare(
    first: AnyModel,
    second: AnyModel,
    *others: AnyModel,
    data: Path | str | Any = None,
    device: str | torch.device = "auto",
) -> Comparison:
    """Compares models, or sets of run records, that were tested on the same data.

    Of three or more, all are compared with the one that is best on validation data, with Holm's
    correction. Of a set of records with several configurations, each split counts with the one
    that is best on its validation data.

    Args:
        first: A loaded model, a trained estimator, the folder of a bundle, or a file or folder of
            run records.
        second: Another one.
        others: More of them.
        data: The training data of classifiers, if it was moved or was in memory: a path, or what
            was trained on; of texts in lists, a pair of both lists.
        device: Where models predict: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    Example:
        Two models that were trained on the same graph::

            print(quatgraph.compare("model-a", "model-b"))
    """
    given = [
        model._fitted() if isinstance(model, Estimator) else model
        for model in (first, second, *others)
    ]
    for model in given:
        if not isinstance(model, Predictor | Path | str):
            kind = type(model).__name__
            raise UserError(f"compare takes models, or paths of models or records, not {kind}")
    _refuse_twins(given)
    sources = [_open(model, place, device) for place, model in enumerate(given, 1)]
    return _compare_sources(sources, data)


def compare_records(groups: Mapping[str, Sequence[RunRecord]]) -> Comparison:
    """Compares sets of run records, by name, as :func:`compare` does those of files."""
    return _compare_sources([_source_of(name, None, list(runs)) for name, runs in groups.items()])


def _compare_sources(sources: Sequence[_Source], data: Any = None) -> Comparison:
    by_item = all(source.predictor is not None for source in sources)
    _check_comparable(sources, by_item)
    reference, reason = sources[0], ""
    if len(sources) > 2:
        reason = f"all are compared with {reference.name}, the first"
        scores = [source.validation for source in sources]
        if not any(map(math.isnan, scores)):
            reference = sources[scores.index(max(scores))]
            reason = f"all are compared with {reference.name}, the best on validation data"
    notes = [
        f"{source.name} has {source.num_configs} configurations: each split counts with the one "
        "best on its validation data"
        for source in sources
        if source.num_configs > 1 and not by_item
    ]
    rivals = [source for source in sources if source is not reference]
    test = _compare_items if by_item else _compare_runs
    pairs = [test(reference, rival, data, notes) for rival in rivals]
    corrected = holm([pair.result.p for pair in pairs])
    pairs = [
        replace(pair, result=replace(pair.result, p=p))
        for pair, p in zip(pairs, corrected, strict=True)
    ]
    return Comparison(reference.task, reference.data, pairs, reason, tuple(dict.fromkeys(notes)))


def _refuse_twins(given: Sequence[_Opened]) -> None:
    keys = [m if isinstance(m, Predictor) else Path(m).resolve() for m in given]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            name = f"model {place + 1}" if isinstance(key, Predictor) else str(given[place])
            raise UserError(f"{name} is given twice: give two different models or record files")


def _open(model: _Opened, place: int, device: str | torch.device) -> _Source:
    if isinstance(model, Predictor):
        return _source_of(f"model {place}", model, [])
    path = Path(model)
    if not path.exists():
        raise UserError(f"there is no model and no record file {path}")
    if path.is_dir() and any((path / name).exists() for name in BUNDLE):
        predictor = load(path, device=device)
        records = path / RECORDS
        runs = read_records(records) if records.exists() else []
        return _source_of(str(model), predictor, runs)
    runs = read_records(path)
    if not runs:
        raise UserError(f"{path} is neither a trained model nor a file or folder of run records")
    return _source_of(str(model), None, runs)


def _source_of(name: str, predictor: Predictor[Any] | None, records: list[RunRecord]) -> _Source:
    """Selects the runs that speak for a model; all must be on the same data."""
    found = {(r.task, r.dataset, _data_key(r)) for r in records}
    if len(found) > 1:
        some = " and ".join(sorted({f"{task} {dataset}" for task, dataset, _ in found})[:2])
        raise UserError(
            f"{name} holds runs on several datasets, such as {some}: give a file of one"
        )
    # Under `paper`, test data may have selected the epoch.
    honest = [r for r in records if r.protocol == "honest"] or records
    runs = choose_by_validation(drop_diverged(honest))
    if records and not runs:
        raise UserError(f"every run in {name} diverged")
    if predictor is not None:
        task, data = predictor.card["task"], predictor.card["data"]["name"]
    else:
        ((task, data, _),) = found
    tried = len({record.config_digest for record in honest})
    return _Source(name, task, data, predictor, runs, tried)


def _data_key(record: RunRecord) -> str:
    """Identifies the data of a run. The digest of texts covers word vectors, which belong to the
    method; the texts of a dataset are always the same."""
    name: str = record.config["data"]["name"]
    return f"dataset {name}" if record.task == "text" and name else record.data_digest


def _check_comparable(sources: Sequence[_Source], by_item: bool) -> None:
    first, *others = sources
    for other in others:
        if other.task != first.task:
            raise UserError(
                f"{first.name} is for the task {first.task} and {other.name} for {other.task}: "
                "compare models of one task"
            )
    without = [s for s in sources if not s.runs]
    if without and not by_item:
        records = next(s for s in sources if s.predictor is None)
        raise UserError(
            f"{records.name} is a set of records and {without[0].name} a model without "
            f"{RECORDS}: compare models with models, or records with records"
        )
    for source in sources if by_item else ():
        if source.predictor is not None and source.predictor.card.get("refit"):
            raise UserError(
                f"{source.name} was refitted on all labels, so no test data is left: compare "
                "models from before a refit, or `evaluate` each on new data"
            )
    for other in others:
        if other.digest(by_item) != first.digest(by_item):
            name = "" if other.data == first.data else f", {other.data!r}"
            raise UserError(
                f"{first.name} was trained on {first.data!r} and {other.name} on other data{name}: "
                "compare models of the same data"
            )


def _compare_items(first: _Source, second: _Source, data: Any, notes: list[str]) -> Pair:
    """Compares two models on the test items that both have."""
    values = [_test_items(source, data) for source in (first, second)]
    shared = [place for place in values[0] if place in values[1]]
    if not shared:
        raise UserError(
            f"{first.name} and {second.name} share no test {_ITEMS[first.task]}, so there is "
            "nothing to compare"
        )
    mine, theirs = (torch.tensor([own[place] for place in shared]) for own in values)
    result = paired_bootstrap(mine, theirs) if first.task == "link" else mcnemar(mine, theirs)
    means = float(mine.double().mean()), float(theirs.double().mean())
    items = f"shared test {_ITEMS[first.task]}"
    return Pair(first.name, second.name, *means, f"test/{first.metric}", items, result)


def _test_items(source: _Source, data: Any) -> dict[Any, Any]:
    """Whether a classifier is right, or the mean reciprocal rank of a triple, by test item."""
    model = source.predictor
    if isinstance(model, LinkPredictor):
        triples: Tensor = model.triples.test
        sides = ranking_values(model.ranks("test"))["mrr"].view(2, -1)
        return dict(zip(map(tuple, triples.tolist()), sides.mean(dim=0).tolist(), strict=True))
    assert isinstance(model, Classifier)
    places, predicted, true = model.test_predictions(data)
    return dict(zip(places.tolist(), (predicted == true).tolist(), strict=True))


def _compare_runs(first: _Source, second: _Source, data: Any, notes: list[str]) -> Pair:
    """Compares the recorded test metrics of two sets of runs, paired by split and seed."""
    _check_same_splits(first, second)
    metric = f"test/{first.metric}"
    values = [
        {(r.split, r.seed): value for r in s.runs if not math.isnan(value := r.metrics[metric])}
        for s in (first, second)
    ]
    shared = sorted(values[0].keys() & values[1].keys())
    if not shared:
        raise UserError(
            f"{first.name} and {second.name} share no split and seed with test data, so there is "
            "nothing to compare"
        )
    if len(shared) == 1:
        raise UserError(
            f"{first.name} and {second.name} share a single run, which gives no test: train more "
            "with --seeds 5, or compare the models themselves"
        )
    splits: dict[int, list[float]] = {}
    for key in shared:
        splits.setdefault(key[0], []).append(values[0][key] - values[1][key])
    mine, theirs = (fmean(own[key] for key in shared) for own in values)
    if len(splits) == 1:
        result, paired_by = paired_t(next(iter(splits.values()))), "shared seeds"
    else:
        ratio = _test_to_train(first.runs[0], len(splits), data, notes)
        result = paired_t([fmean(own) for own in splits.values()], ratio)
        paired_by = "shared folds" if first.task == "graph" else "shared splits"
    runs = tuple(PairedRun(*key, values[0][key], values[1][key]) for key in shared)
    return Pair(first.name, second.name, mine, theirs, metric, paired_by, result, runs)


def _check_same_splits(first: _Source, second: _Source) -> None:
    """Checks that a split of one is the same split of the other."""
    for key in _SPLITS:
        found = {run.config["data"].get(key) for run in (*first.runs, *second.runs)}
        if len(found) > 1:
            values = " and ".join(sorted(map(str, found)))
            raise UserError(
                f"{first.name} and {second.name} have different splits, data.{key} is {values}: "
                "compare runs on the same splits"
            )


def _test_to_train(record: RunRecord, num_splits: int, data: Any, notes: list[str]) -> float:
    """The ratio of test to training items of a split, as the corrected t test needs it."""
    if record.task == "graph":
        return 1 / (int(record.config["data"]["num_folds"]) - 1)
    source = record.config["data"]
    if data is not None and not isinstance(data, Path | str):
        raise UserError("records are compared without data in memory: pass its path, or none")
    if data is not None:
        source = source | {"name": "", "path": str(data)}
    if source["name"] or source["path"]:
        task = TASKS[record.task]
        try:
            known = task.load(configs.build(task.config, record.config | {"data": source}))
        except UserError:
            known = None
        if known is not None and known.digest == record.data_digest:
            return float(known.test_mask.sum() / known.train_mask.sum())
    notes.append(
        f"the sizes of the splits are unknown without the data: taken as {num_splits} folds; "
        "pass --data"
    )
    return 1 / (num_splits - 1)
