"""Do the defaults win on data nobody tuned them on?

Each dataset is written as a user's files. ``train`` with its defaults runs beside what people use
otherwise; validation data picks one of these rivals per dataset. Both see the same training,
validation and test items. Accuracies and MRRs are in points, hundredths.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import torch

from benchmarks import made_triples, own_sets, package_sets, rivals
from benchmarks.rivals import RIVALS, Score, Scores, load_case
from benchmarks.workers import call_all
from quatgraph import config as configs
from quatgraph.errors import UserError, did_you_mean
from quatgraph.reproduce.render import markdown_table
from quatgraph.tasks import TASKS, combination, portfolio, selection
from quatgraph.tasks.job import train_in_folder
from quatgraph.tasks.node import smoothing
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.training.context import Context
from quatgraph.training.record import append_lines

OURS = "quatgraph"


def _read_sources(*modules: ModuleType) -> list[str]:
    return [Path(str(module.__file__)).read_text() for module in modules]


_SOURCES = _read_sources(made_triples, own_sets, rivals)
"""What decides the datasets and the rivals' results, read once."""
_PACKAGE_SOURCES = _read_sources(package_sets)
"""What decides, besides, the datasets of packages."""
_OWN_SOURCES = _read_sources(combination, portfolio, selection, smoothing)
"""What decides, besides the candidates, how the defaults are selected and combined."""
BEHIND = 2.0
"""A dataset is lost if the rival is ahead by more standard errors."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A mean with its standard error, in points."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if math.isnan(self.error) else f" ± {self.error:.1f}")


def sample(values: Sequence[float]) -> Sample:
    """The mean of metrics from 0 to 1; a single one has no standard error."""
    points = [100 * value for value in values]
    error = stdev(points) / math.sqrt(len(points)) if len(points) > 1 else math.nan
    return Sample(fmean(points), error)


def pick_rival(splits: Sequence[Scores]) -> str:
    """The rival with the best mean on validation data; test data plays no part."""
    return max(splits[0], key=lambda name: fmean(split[name].valid for split in splits))


def compare(ours: Sequence[float], splits: Sequence[Scores]) -> dict[str, Any]:
    """The numbers of a row: our test metric and the rivals' scores on the same splits.

    ``difference`` is paired by split; ``regret`` is how far the rival is ahead, at least 0.
    """
    name = pick_rival(splits)
    theirs = [split[name].test for split in splits]
    difference = sample([own - other for own, other in zip(ours, theirs, strict=True)])
    columns = {"ours": sample(ours), "rival": sample(theirs), "difference": difference}
    numbers: dict[str, Any] = {"variant": "defaults", "against": name}
    for key, value in columns.items():
        numbers |= {key: round(value.mean, 2)}
        if not math.isnan(value.error):
            numbers |= {f"{key}_error": round(value.error, 2)}
    return numbers | {"regret": round(max(0.0, -difference.mean), 2)}


def is_lost(row: dict[str, Any]) -> bool:
    """Whether the rival is ahead by more than two standard errors; of a single split, at all."""
    return row["difference"] < -BEHIND * row.get("difference_error", 0.0)


@dataclass(frozen=True, slots=True)
class Part:
    """What is measured in one go: a method on one split of a dataset."""

    case: str
    method: str
    """:data:`OURS`, or a rival of the task."""
    split: int
    num_splits: int
    settings: str
    """A digest of what the method tries, and of how the dataset is made."""


@dataclass(frozen=True, slots=True)
class _Job:
    part: Part
    task: str
    values: configs.Values
    """The settings of the split."""
    device: str

    def __str__(self) -> str:
        return f"{self.part.case}, {self.part.method}, split {self.part.split}"


def rows(
    device: torch.device,
    only: Sequence[str] = (),
    folders: Sequence[Path] = (),
    *,
    hidden: bool = False,
    archives: Path | None = None,
    splits: int | None = None,
    jobs: int = 1,
    max_minutes: float | None = None,
    parts: Path | None = None,
) -> Iterator[dict[str, Any]]:
    """Compares dataset by dataset; a dataset has its row when all of its parts are measured.

    Args:
        device: Where the defaults are trained; rivals use the CPU.
        only: Tasks or datasets; all by default.
        folders: Further data, ``.../TASK/NAME``, instead of the lists.
        hidden: Whether to take the hidden datasets.
        archives: A folder with the archives that the datasets of other packages are in, instead of
            the lists.
        splits: Splits of each dataset; three or five by default, by its size. More of them begin
            with the same ones.
        jobs: Worker processes, of one thread each if there are several.
        max_minutes: When to stop, without the parts that are not measured by then.
        parts: A file to append what is measured to, folders aside. Parts that it holds are not
            measured again.
    """
    parts = None if folders else parts
    kind = "hidden, " if hidden else "packages, " if archives else ""
    measured = _read(parts)
    reported: set[str] = set()

    def tell(task: str, source: str) -> Iterator[dict[str, Any]]:
        case = _case(task, source)
        row = None if case in reported else _row(task, case, measured, splits)
        if row is not None:
            reported.add(case)
            yield row | {"work": f"{kind}{row['work']}"}

    with TemporaryDirectory() as made:
        if archives is not None:
            chosen = _only(only, package_sets.write_sets(archives, Path(made) / "packages"))
        else:
            chosen = _chosen(only, folders, own_sets.HIDDEN if hidden else own_sets.VISIBLE)
        written = _Written(Path(made), splits)
        pending = _pending(chosen, written, measured, str(device), ours_first=jobs > 1)
        seconds = None if max_minutes is None else 60 * max_minutes
        for job, found in call_all(_measure, pending, jobs=jobs, seconds=seconds):
            measured[job.part] = found
            if parts is not None:
                append_lines(parts, [asdict(job.part) | found])
            for task, source in chosen:
                if _case(task, source) == job.part.case:
                    yield from tell(task, source)
        for task, source in chosen:  # whose parts were all on record
            yield from tell(task, source)


def _case(task: str, source: str) -> str:
    return f"{task}: {Path(source).stem}"


def _settings(case: str, method: str) -> str:
    task, _, name = case.partition(": ")
    tried = default_candidates(TASKS[task], {}) if method == OURS else []
    identities = [config.identity() for config in tried]
    sources = _SOURCES + _OWN_SOURCES * (method == OURS)
    sources += _PACKAGE_SOURCES * (name in package_sets.MAKERS[task])
    return configs.digest({"candidates": identities, "sources": sources})


def _read(path: Path | None) -> dict[Part, dict[str, float]]:
    """The parts on record."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    found = {}
    for values in map(json.loads, lines):
        part = Part(**{name: values.pop(name) for name in Part.__dataclass_fields__})
        found[part] = values
    return found


def _pending(
    chosen: Sequence[tuple[str, str]],
    written: "_Written",
    measured: dict[Part, dict[str, float]],
    device: str,
    *,
    ours_first: bool,
) -> Iterator[_Job]:
    """What is not measured yet, dataset by dataset, which are written when their turn comes.

    Args:
        ours_first: Whether rivals wait until the defaults of all datasets have begun.
    """
    for kinds in ((True,), (False,)) if ours_first else ((True, False),):
        for task, source in chosen:
            case = _case(task, source)
            done = _row(task, case, measured, written.splits) is not None
            own = [] if done else written.values(task, source)
            for method in (OURS, *RIVALS[task]):
                if (method == OURS) not in kinds:
                    continue
                settings = _settings(case, method)
                for split, values in enumerate(own):
                    part = Part(case, method, split, len(own), settings)
                    if part not in measured:
                        yield _Job(part, task, values, device)


class _Written:
    """Datasets as files below a folder, each written when it is first asked for."""

    def __init__(self, folder: Path, splits: int | None = None) -> None:
        self.folder, self.splits = folder, splits
        self._values: dict[tuple[str, str], list[configs.Values]] = {}

    def values(self, task: str, source: str) -> list[configs.Values]:
        """The settings of each split."""
        if (task, source) not in self._values:
            own = self.folder / task / Path(source).name
            own.mkdir(parents=True)
            self._values[task, source] = own_sets.written(task, source, own, self.splits)
        return self._values[task, source]


def _measure(job: _Job) -> dict[str, float]:
    """The metric of a method on validation and on test data, and the seconds it takes."""
    began = time.perf_counter()
    if job.part.method == OURS:
        found = _train(job.task, job.values, torch.device(job.device))
    else:
        rival = RIVALS[job.task][job.part.method]
        found = rival(load_case(job.task, job.values))._asdict()
    return found | {"seconds": time.perf_counter() - began}


def _train(task: str, values: configs.Values, device: torch.device) -> dict[str, float]:
    """What ``train`` with its defaults reaches: the combination, and the ``single`` best model."""
    candidates = default_candidates(TASKS[task], values)
    with TemporaryDirectory() as folder:
        context = Context(device)
        job = train_in_folder(TASKS[task], candidates, Path(folder) / "out", context, combine=True)
    (split,) = job.results
    metric = TASKS[task].reported_metrics[0]
    valid, test = (split["combination"][f"{part}/{metric}"] for part in ("valid", "test"))
    return {"valid": valid, "test": test, "single": split["single"][f"test/{metric}"]}


def _row(
    task: str, case: str, measured: dict[Part, dict[str, float]], wanted: int | None
) -> dict[str, Any] | None:
    """The row of a dataset with so many splits, by default as many as were measured last; None
    until all of its parts are measured."""
    settings = {method: _settings(case, method) for method in (OURS, *RIVALS[task])}
    own = {
        (part.method, part.split): found
        for part, found in measured.items()
        if part.case == case
        and part.settings == settings.get(part.method)
        and part.num_splits == (wanted or part.num_splits)
    }
    counts = [part.num_splits for part in measured if part.case == case]
    count = wanted or (counts[-1] if counts else 0)
    if not count or len(own) < count * len(settings):
        return None
    splits = range(count)
    scores = [
        {name: Score(own[name, n]["valid"], own[name, n]["test"]) for name in RIVALS[task]}
        for n in splits
    ]
    ours = [own[OURS, n] for n in splits]
    others = sum(found["seconds"] for (method, _), found in own.items() if method != OURS)
    return {
        "case": case,
        "work": f"{len(ours)} splits",
        **compare([found["test"] for found in ours], scores),
        "single": round(sample([found["single"] for found in ours]).mean, 2),
        "seconds": round(fmean(found["seconds"] for found in ours), 2),
        "rival_seconds": round(others / len(ours), 2),
    }


def _chosen(
    only: Sequence[str], folders: Sequence[Path], lists: dict[str, tuple[str, ...]]
) -> list[tuple[str, str]]:
    """Tasks and sources."""
    found = [(folder.resolve().parent.name, str(folder.resolve())) for folder in folders]
    for task, source in found:
        if task not in TASKS or not Path(source).exists():
            raise UserError(f"{source} is not TASK/NAME, with the task {', '.join(TASKS)}")
    if folders:
        return found
    return _only(only, [(task, name) for task, names in lists.items() for name in names])


def _only(only: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs whose task or dataset is wanted."""
    named = {(task, source): {task, Path(source).stem} for task, source in pairs}
    known = set().union(*named.values())
    for word in only:
        if word not in known:
            raise UserError(f"there is no task or dataset {word!r} here{did_you_mean(word, known)}")
    return [pair for pair, names in named.items() if not only or names & set(only)]


def table(found: Sequence[dict[str, Any]]) -> str:
    """A Markdown table, the mean regret and the lost datasets."""
    head = ["dataset", "ours", "single", "rival", "its result", "difference", "regret"]
    head += ["seconds", "rivals'"]
    lines = []
    for row in found:
        ours, rival, difference = (
            str(Sample(row[key], row.get(f"{key}_error", math.nan)))
            for key in ("ours", "rival", "difference")
        )
        marked = f"**{difference}**" if is_lost(row) else difference
        numbers = [f"{row[key]:.1f}" for key in ("regret", "seconds", "rival_seconds")]
        single = f"{row['single']:.1f}"
        lines.append([row["case"], ours, single, row["against"], rival, marked, *numbers])
    regret = fmean(row["regret"] for row in found)
    lost = ", ".join(row["case"] for row in found if is_lost(row)) or "none"
    return (
        f"{markdown_table(head, lines)}\n\nMean regret {regret:.2f} points over {len(found)} "
        f"datasets; behind by more than two standard errors: {lost}."
    )
