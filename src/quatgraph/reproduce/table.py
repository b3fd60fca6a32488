"""A table of the paper as data, and its cells out of records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from quatgraph import config as configs
from quatgraph.config import read_toml
from quatgraph.errors import Mistake, did_you_mean
from quatgraph.presets import Protocol, names, preset
from quatgraph.tasks import TASKS
from quatgraph.training.metrics import mean_std
from quatgraph.training.record import RunRecord

Rule = Literal["preset", "validation", "best-per-fold", "gin"]
"""How epoch and configuration are chosen: as a preset says, on validation data, or on the test
folds, each by itself or all by one epoch; see :mod:`quatgraph.reproduce.rules`."""

PROTOCOLS: tuple[Protocol, ...] = ("paper", "honest")
_FOLDER = Path(__file__).parent / "tables"


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
    paper: dict[str, dict[str, float]]
    """Published values as fractions, by dataset and method; some are missing."""
    paper_std: dict[str, dict[str, float]] = field(default_factory=dict)
    """Their standard deviations, where the paper prints them."""
    nested: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """What others published under nested selection: mean and standard deviation."""
    rules: list[Rule] = field(default_factory=list)
    """The rules that are shown side by side, where a table chooses among configurations under both
    protocols; without, ``paper`` is the preset and ``honest`` chooses on validation data."""
    ablations: dict[str, list[list[str]]] = field(default_factory=dict)
    """Changes of a method's published settings that are run too, each a list of ``key=value``."""
    pairs: list[dict[str, list[str]]] = field(default_factory=list)
    """What is compared split by split: ``this`` and ``that``, each a model and its changes."""

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
    parameters: int | None


def table_names() -> list[str]:
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def load_table(name: str) -> Table:
    if name not in table_names():
        hint = did_you_mean(name, table_names()) or f"; there are {', '.join(table_names())}"
        raise Mistake(f"there is no table {name!r}{hint}")
    values = read_toml(_FOLDER / f"{name}.toml")
    runs = values.pop("runs")
    paper, nested = (_fractions(values.pop(key, {})) for key in ("paper", "nested"))
    return Table(
        name=name,
        splits=runs["splits"],
        seeds=runs["seeds"],
        paper={d: {m: mean for m, (mean, *_) in row.items()} for d, row in paper.items()},
        paper_std={d: {m: v[1] for m, v in row.items() if v[1:]} for d, row in paper.items()},
        nested=nested,
        **values,
    )


def _fractions(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Published numbers in percent as tuples of fractions: a mean, perhaps a spread."""
    return {
        dataset: {
            method: tuple(v / 100 for v in (value if isinstance(value, list) else [value]))
            for method, value in row.items()
        }
        for dataset, row in rows.items()
    }


def cell(
    table: Table, records: Iterable[RunRecord], dataset: str, method: str, protocol: Protocol
) -> Cell:
    """One cell, out of the records that belong to it."""
    mine = [
        r
        for r in distinct(records)
        if (r.dataset, r.method, r.protocol) == (dataset, method, protocol)
        and r.task == table.task
        and r.seed < table.seeds
    ]
    name = table.preset_of(dataset, method)
    if protocol == "paper" and name is not None:
        config = configs.build(TASKS[table.task].config, preset(name, "paper"))
        wanted = configs.digest(config.identity())
        mine = [r for r in mine if r.config_digest == wanted]
    chosen = mine if protocol == "paper" else choose_by_validation(mine)
    values = [r.metrics[table.metric] for r in chosen]
    mean, std = mean_std(values) if values else (None, None)
    ensembles = {r.ensemble: r.seconds for r in mine}
    return Cell(
        task=table.task,
        dataset=dataset,
        method=method,
        protocol=protocol,
        rule="preset" if protocol == "paper" else "validation",
        metric=table.metric,
        mean=mean,
        std=std,
        runs=len(values),
        configs=len({r.config_digest for r in mine}),
        paper=table.paper.get(dataset, {}).get(method),
        seconds=sum(ensembles.values()),
        parameters=max((r.parameters for r in chosen), default=None),
    )


def distinct(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Every run once: two calls at the same time may have run the same."""
    keyed = {
        (r.task, r.dataset, r.method, r.protocol, r.config_digest, r.split, r.seed): r
        for r in records
    }
    return list(keyed.values())


Merit = Callable[[Mapping[str, float]], tuple[float, ...]]


def choose_by_validation(
    records: Sequence[RunRecord],
    merit: Merit = lambda metrics: (metrics["valid/accuracy"],),
) -> list[RunRecord]:
    """For each split the runs of one configuration: the one with the best validation accuracy.

    Test data plays no part. A configuration's merit is the mean over its seeds.

    Args:
        merit: What is best, out of a run's metrics.
    """
    groups: dict[int, dict[str, list[RunRecord]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record.split][record.config_digest].append(record)

    def mean(runs: list[RunRecord]) -> tuple[float, ...]:
        merits = [merit(run.metrics) for run in runs]
        return tuple(sum(parts) / len(runs) for parts in zip(*merits, strict=True))

    return [run for split in sorted(groups) for run in max(groups[split].values(), key=mean)]
