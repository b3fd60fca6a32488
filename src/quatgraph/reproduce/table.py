"""A table of the paper as data, and its cells out of records."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from quatgraph import config as configs
from quatgraph.errors import Mistake, did_you_mean
from quatgraph.presets import Protocol, names, preset, protocols
from quatgraph.reproduce import table_values
from quatgraph.tasks import TASKS
from quatgraph.tasks.selection import choose_by_validation, selection_score
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord
from quatgraph.training.runtime import machine

Rule = Literal["preset", "validation", "best-per-fold", "gin"]
"""How epoch and configuration are chosen: as a preset says, on validation data, or on the test
folds, each by itself or all by one epoch; see :mod:`quatgraph.reproduce.rules`."""

PROTOCOLS: tuple[Protocol, ...] = ("paper", "honest")
PRINTED = {
    "test/accuracy": ("accuracy", 100, 2),
    "test/macro-f1": ("macro-F1", 100, 2),
    "test/mrr": ("MRR", 1, 3),
    "test/hits@10": ("Hits@10", 100, 1),
}
"""How metrics are printed: their name, what a fraction is multiplied by, and decimals."""

Published = dict[str, dict[str, float]]
"""Published values as fractions, by dataset and method; some are missing."""


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
    """What each method is called in print."""
    splits: int
    seeds: int
    paper: Published
    finalists: int = 1
    """Under ``honest``: how many of the best by the seeds that all have are run with all seeds and
    compared by them."""
    paper_std: Published = field(default_factory=dict)
    """Their standard deviations, where the paper prints them."""
    beside: dict[str, Published] = field(default_factory=dict)
    """Further metrics, which are printed beside the first."""
    nested: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """What others published under nested selection: mean and standard deviation."""
    rules: list[Rule] = field(default_factory=list)
    """The rules that are shown side by side, where a table chooses among configurations under both
    protocols; without, ``paper`` is the preset and ``honest`` chooses on validation data."""
    ablations: dict[str, list[list[str]]] = field(default_factory=dict)
    """Changes of a method's published settings that are run too, each a list of ``key=value``."""
    pairs: list[dict[str, list[str]]] = field(default_factory=list)
    """What is compared split by split: ``this`` and ``that``, each a model and its changes."""
    note: str = ""
    """A sentence that is printed below the table."""

    @property
    def metrics(self) -> list[str]:
        return [self.metric, *self.beside]

    def published(self, dataset: str, method: str, metric: str) -> float | None:
        return self.beside.get(metric, self.paper).get(dataset, {}).get(method)

    def preset_of(self, dataset: str, method: str) -> str | None:
        """The preset that fills a cell, or None for a method that is not run."""
        name = f"{self.task}/{dataset}-{method}"
        return name if name in names(self.task) else None

    def cells(self, only: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
        """Datasets and methods; ``only`` names some: union within each kind, both must hold."""
        known = [*self.rows, *self.columns]
        for name in only:
            if name not in known:
                hint = did_you_mean(name, known) or f"; there are {', '.join(known)}"
                raise Mistake(f"table {self.name!r} has no {name!r}{hint}")
        datasets = [d for d in self.rows if d in only] or self.rows
        methods = [m for m in self.columns if m in only] or self.columns
        return ((dataset, method) for dataset in datasets for method in methods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of a table with what is behind it; values are fractions."""

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
    """Configurations tried, among which the rule chose."""
    paper: float | None
    seconds: float
    """Training wall time of the cell's ensembles, without evaluation."""
    each: dict[str, float]
    """By machine the mean over its runs, of each its share of its ensemble's time; seconds."""
    parameters: int | None


def load_table(name: str) -> Table:
    values = table_values(name)
    runs, paper, nested = (values.pop(key, {}) for key in ("runs", "paper", "nested"))
    metric, others = values["metric"], values.pop("beside", [])
    spread = {} if others else _column(paper, 1, metric)
    means, spreads = (_column(nested, place, metric) for place in (0, 1))
    return Table(
        name=name,
        splits=runs["splits"],
        seeds=runs["seeds"],
        finalists=runs.get("finalists", 1),
        paper=_column(paper, 0, metric),
        paper_std=spread,
        beside={other: _column(paper, place, other) for place, other in enumerate(others, 1)},
        nested={d: {m: (row[m], spreads[d][m]) for m in row} for d, row in means.items()},
        **values,
    )


def _column(rows: dict[str, dict[str, Any]], place: int, metric: str) -> Published:
    """One number of each published cell, which is a number, or a list of them, as printed."""
    _, times, _ = PRINTED[metric]
    found: Published = {}
    for dataset, row in rows.items():
        numbers = {m: v if isinstance(v, list) else [v] for m, v in row.items()}
        found[dataset] = {m: v[place] / times for m, v in numbers.items() if place < len(v)}
    return found


def run_under(task: str) -> tuple[Protocol, ...]:
    """The protocols under which a task's presets are run: both, or, where ``honest`` changes none
    of their settings, ``paper`` alone; then ``honest`` chooses among all runs there are."""
    return PROTOCOLS if protocols(task)["honest"] else ("paper",)


def runs_of(
    table: Table, records: Iterable[RunRecord], dataset: str, method: str, protocol: Protocol
) -> list[RunRecord]:
    """The runs that belong to a cell: under ``paper`` those of the preset, under ``honest`` those
    of every configuration that was tried; not those selected by another metric."""
    under = (protocol,) if protocol in run_under(table.task) else PROTOCOLS
    key = (table.task, dataset, method)
    mine = distinct(
        r
        for r in records
        if (r.task, r.dataset, r.method) == key and r.protocol in under and r.seed < table.seeds
    )
    name = table.preset_of(dataset, method)
    if name is None:
        return mine
    published = configs.build(TASKS[table.task].config, preset(name, protocol)).identity()
    if protocol == "paper":
        wanted = configs.digest(published)
        return [r for r in mine if r.config_digest == wanted]
    return [r for r in mine if _monitor(r.config) == _monitor(published)]


def published_settings(task: str, name: str, protocol: Protocol = "paper") -> dict[str, Any]:
    """The settings of a preset, as records have them, by dotted name."""
    config = configs.build(TASKS[task].config, preset(name, protocol))
    return configs.flatten(config.identity())


def changes_of(config: dict[str, Any], published: dict[str, Any]) -> dict[str, Any]:
    """What a configuration has another value of than a preset; a setting that is newer than the
    configuration is none."""
    ran = configs.flatten(config)
    return {key: value for key, value in ran.items() if value != published.get(key)}


def _monitor(config: dict[str, Any]) -> object:
    """The metric that a run is selected by, where its task has several."""
    return config.get("train", {}).get("monitor")


def chosen_of(table: Table, runs: list[RunRecord], protocol: Protocol) -> list[RunRecord]:
    """What a cell shows of the runs that belong to it."""
    return runs if protocol == "paper" else honest_choice(runs, table.finalists)


def honest_choice(tried: Sequence[RunRecord], finalists: int = 1) -> list[RunRecord]:
    """What ``honest`` takes of a cell's runs; among equals, the configuration that ran first."""
    return choose_by_validation(honest_finalists(tried, finalists), _first_score)


def honest_finalists(tried: Sequence[RunRecord], finalists: int) -> list[RunRecord]:
    """The runs of the configurations that are compared once more, the best first."""
    return choose_by_validation(tried, _first_score, finalists)


def _first_score(metrics: Mapping[str, float]) -> tuple[float, ...]:
    return selection_score(metrics)[:1]


def cell(
    table: Table,
    records: Iterable[RunRecord],
    dataset: str,
    method: str,
    protocol: Protocol,
    metric: str | None = None,
) -> Cell:
    """One cell, out of the records that belong to it; of the table's first metric unless told."""
    metric = metric or table.metric
    mine = runs_of(table, records, dataset, method, protocol)
    chosen = chosen_of(table, mine, protocol)
    values = [r.metrics[metric] for r in chosen]
    mean, std = mean_std(values) if values else (None, None)
    ensembles = {r.ensemble: r.seconds for r in mine}
    return Cell(
        task=table.task,
        dataset=dataset,
        method=method,
        protocol=protocol,
        rule="preset" if protocol == "paper" else "validation",
        metric=metric,
        mean=mean,
        std=std,
        runs=len(values),
        configs=len({r.config_digest for r in mine}),
        paper=table.published(dataset, method, metric),
        seconds=sum(ensembles.values()),
        each=shares(chosen),
        parameters=max((r.parameters for r in chosen), default=None),
    )


def shares(records: Iterable[RunRecord]) -> dict[str, float]:
    """What a run took of its ensemble's time, by machine; those with most runs first."""
    found: dict[str, list[float]] = defaultdict(list)
    for r in records:
        found[machine(r.environment) if r.environment else ""].append(r.share)
    by_runs = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return {name: fmean(each) for name, each in by_runs}


def distinct(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Every run once: two calls at the same time may have run the same."""
    keyed = {
        (r.task, r.dataset, r.method, r.protocol, r.config_digest, r.split, r.seed): r
        for r in records
    }
    return list(keyed.values())
