"""A table of the paper as data, and its cells computed from records."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from quatgraph import config as configs
from quatgraph.errors import check_known
from quatgraph.metrics.classification import mean_std
from quatgraph.presets import Protocol, names, preset, protocols
from quatgraph.reproduce import table_values
from quatgraph.tasks import TASKS
from quatgraph.tasks.selection import (
    DIVERGED,
    choose_by_validation,
    drop_diverged,
    rank_by_validation,
)
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import machine

Rule = Literal["preset", "validation", "best-per-fold", "gin"]
"""How epoch and configuration are selected: fixed by the preset, on validation data, or on the test
folds, per fold or with one epoch for all; see :mod:`quatgraph.reproduce.rules`."""

PROTOCOLS: tuple[Protocol, ...] = ("paper", "honest")
METRIC_FORMATS = {
    "test/accuracy": ("accuracy", 100, 2),
    "test/macro-f1": ("macro-F1", 100, 2),
    "test/roc-auc": ("ROC-AUC", 1, 3),
    "test/average-precision": ("average precision", 1, 3),
    "test/mrr": ("MRR", 1, 3),
    "test/hits@1": ("Hits@1", 100, 1),
    "test/hits@3": ("Hits@3", 100, 1),
    "test/hits@10": ("Hits@10", 100, 1),
}
"""Printed name, scale and decimals of each metric."""

Published = dict[str, dict[str, float]]
"""Published values as fractions, by dataset and method; may be incomplete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """Several runs that predict together."""

    title: str
    """Its printed name."""
    members: dict[str, int]
    """The number of seeds of each method; validation data selects their weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    name: str
    title: str
    task: str
    metric: str
    rows: list[str]
    """Datasets."""
    columns: list[str]
    """Methods."""
    methods: dict[str, str]
    """Printed names of the methods."""
    splits: int
    seeds: int
    paper: Published
    finalists: int = 1
    """Under ``honest``, this many of the best configurations by common seeds run with all seeds."""
    paper_std: Published = field(default_factory=dict)
    """Published standard deviations."""
    extra_metrics: dict[str, Published] = field(default_factory=dict)
    """Published values of further metrics, printed next to the first."""
    nested: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """Results of others under nested selection: mean and standard deviation."""
    rules: list[Rule] = field(default_factory=list)
    """The rules of a cross-validated table, one column each. Without rules, ``paper`` shows the
    preset and ``honest`` selects on validation data."""
    ablations: dict[str, list[list[str]]] = field(default_factory=dict)
    """Ablations of each method's preset, each a list of ``key=value``."""
    pairs: list[dict[str, list[str]]] = field(default_factory=list)
    """Paired comparisons of ``this`` with ``that``, each a model and its changes."""
    combinations: dict[str, Combination] = field(default_factory=dict)
    """Combinations of methods by name."""
    item_pairs: list[tuple[str, str]] = field(default_factory=list)
    """Methods or combinations that are compared test item by test item."""
    not_run: dict[str, dict[str, str]] = field(default_factory=dict)
    """Why a cell has no runs, by dataset and method, where that is known of it alone."""
    waiting: str = ""
    """Why any other cell with a preset may have no runs yet."""
    note: str = ""
    """A sentence printed below the table."""

    @property
    def metrics(self) -> list[str]:
        return [self.metric, *self.extra_metrics]

    def score(self, run: RunRecord) -> tuple[float, ...]:
        """What ranks configurations under ``honest``: the table's metric on validation data,
        whichever metric selected the run's epoch."""
        if not drop_diverged([run]):
            return DIVERGED[:1]
        value = run.metrics.get(self.metric.replace("test/", "valid/"), math.nan)
        return (0.0 if math.isnan(value) else value,)

    def published(self, dataset: str, method: str, metric: str) -> float | None:
        return self.extra_metrics.get(metric, self.paper).get(dataset, {}).get(method)

    def preset_of(self, dataset: str, method: str) -> str | None:
        """The preset of a cell, or None for a method that we do not run."""
        name = f"{self.task}/{dataset}-{method}"
        return name if name in names(self.task) else None

    def reason(self, dataset: str, method: str) -> str:
        """Why a cell has no runs, as far as it is known."""
        waits = self.preset_of(dataset, method) is not None
        return self.not_run.get(dataset, {}).get(method, self.waiting if waits else "")

    def cells(self, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """Pairs of dataset and method; ``only`` restricts the datasets, the methods or both."""
        known = [*self.rows, *self.columns, *self.combinations]
        for name in only:
            check_known(name, known, f"table {self.name!r} has no {name!r}")
        datasets = [d for d in self.rows if d in only] or self.rows
        methods = [m for m in self.columns if m in only] or self.columns
        return ((dataset, method) for dataset in datasets for method in methods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a table and its origin; values are fractions."""

    task: str
    dataset: str
    method: str
    protocol: Protocol
    rule: Rule
    metric: str
    mean: float | None
    std: float | None
    runs: int
    configs: int
    """The number of configurations that the rule selected from."""
    paper: float | None
    seconds: float
    """Training time of all ensembles of the cell, without evaluation."""
    seconds_per_run: dict[str, float]
    """Mean training time per run by machine; a run has an equal share of its ensemble's time."""
    parameters: int | None


def load_table(name: str) -> Table:
    values = table_values(name)
    runs, paper, nested = (values.pop(key, {}) for key in ("runs", "paper", "nested"))
    combined = values.pop("combinations", {})
    metric, others = values["metric"], values.pop("extra_metrics", [])
    spread = {} if others else _column(paper, 1, metric)
    means, spreads = (_column(nested, place, metric) for place in (0, 1))
    return Table(
        name=name,
        splits=runs["splits"],
        seeds=runs["seeds"],
        finalists=runs.get("finalists", 1),
        paper=_column(paper, 0, metric),
        paper_std=spread,
        extra_metrics={
            other: _column(paper, place, other) for place, other in enumerate(others, 1)
        },
        combinations={key: Combination(**one) for key, one in combined.items()},
        nested={d: {m: (row[m], spreads[d][m]) for m in row} for d, row in means.items()},
        **values,
    )


def _column(rows: dict[str, dict[str, Any]], place: int, metric: str) -> Published:
    """One number of each published cell, which is a number or a list of numbers, as printed."""
    _, scale, _ = METRIC_FORMATS[metric]
    found: Published = {}
    for dataset, row in rows.items():
        numbers = {m: v if isinstance(v, list) else [v] for m, v in row.items()}
        found[dataset] = {m: v[place] / scale for m, v in numbers.items() if place < len(v)}
    return found


def protocols_to_run(task: str) -> tuple[Protocol, ...]:
    """The protocols under which a task's presets run.

    Only ``paper`` if ``honest`` changes no settings; ``honest`` then selects from all runs.
    """
    return PROTOCOLS if protocols(task)["honest"] else ("paper",)


def select_runs(
    table: Table, records: Iterable[RunRecord], dataset: str, method: str, protocol: Protocol
) -> list[RunRecord]:
    """The runs of a cell: under ``paper`` those of the preset, under ``honest`` those of every
    configuration."""
    under = (protocol,) if protocol in protocols_to_run(table.task) else PROTOCOLS
    key = (table.task, dataset, method)
    mine = drop_duplicates(
        r
        for r in records
        if (r.task, r.dataset, r.method) == key and r.protocol in under and r.seed < table.seeds
    )
    name = table.preset_of(dataset, method)
    if protocol == "honest" or name is None:
        return mine
    published = configs.build(TASKS[table.task].config, preset(name, protocol)).identity()
    wanted = configs.digest(published)
    return [r for r in mine if r.config_digest == wanted]


def preset_settings(task: str, name: str, protocol: Protocol = "paper") -> dict[str, Any]:
    """The settings of a preset as records hold them, by dotted key."""
    config = configs.build(TASKS[task].config, preset(name, protocol))
    return configs.flatten(config.identity())


def diff_settings(config: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The values of a config that differ from those of a preset; ignores fields it lacks."""
    values = configs.flatten(config)
    return {key: value for key, value in values.items() if value != settings.get(key)}


def select_shown(table: Table, runs: list[RunRecord], protocol: Protocol) -> list[RunRecord]:
    """The runs of a cell that the table shows; of equal configurations, the one that ran first."""
    return runs if protocol == "paper" else choose_by_validation(runs, table.score)


def honest_finalists(table: Table, tried: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs of the configurations that run with all seeds, the best first."""
    return rank_by_validation(tried, table.score, table.finalists)


def cell(
    table: Table,
    records: Iterable[RunRecord],
    dataset: str,
    method: str,
    protocol: Protocol,
    metric: str | None = None,
) -> Cell:
    """One cell of a table; of the first metric by default."""
    metric = metric or table.metric
    runs = select_runs(table, records, dataset, method, protocol)
    shown = select_shown(table, runs, protocol)
    return make_cell(
        table,
        [run.metrics[metric] for run in shown],
        shown,
        runs,
        dataset=dataset,
        method=method,
        protocol=protocol,
        rule="preset" if protocol == "paper" else "validation",
        metric=metric,
    )


def make_cell(
    table: Table,
    values: Sequence[float],
    shown: Sequence[RunRecord],
    candidates: Sequence[RunRecord],
    **key: Any,
) -> Cell:
    """A cell with the mean and standard deviation of ``values``, those of the runs ``shown``.

    ``key`` holds dataset, method, protocol, rule and metric.
    """
    mean, std = mean_std(values) if values else (None, None)
    return Cell(
        task=table.task,
        **key,
        mean=mean,
        std=std,
        runs=len(shown),
        configs=len({run.config_digest for run in candidates}),
        paper=table.published(key["dataset"], key["method"], key["metric"]),
        seconds=sum({run.ensemble: run.seconds for run in candidates}.values()),
        seconds_per_run=_seconds_per_run(shown),
        parameters=max((run.parameters for run in shown), default=None),
    )


def _seconds_per_run(records: Iterable[RunRecord]) -> dict[str, float]:
    """Mean training time per run by machine, the machine with most runs first."""
    found: dict[str, list[float]] = defaultdict(list)
    for r in records:
        found[machine(r.environment) if r.environment else ""].append(r.share)
    by_runs = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: fmean(each) for name, each in by_runs}


def drop_duplicates(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Every run once; concurrent commands may have recorded a run twice."""
    keyed = {
        (r.task, r.dataset, r.method, r.protocol, r.config_digest, r.split, r.seed): r
        for r in records
    }
    return list(keyed.values())
