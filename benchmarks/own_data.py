"""Do the defaults win on data nobody tuned them on?

Each dataset is written as a user's files. ``train`` with its defaults runs beside what people use
otherwise; validation data picks one of these rivals per dataset. Both see the same training,
validation and test items. Accuracies and MRRs are in points, hundredths.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.own_sets import HIDDEN, VISIBLE, written
from benchmarks.rivals import Score, Scores, graph_rivals, link_rivals, node_rivals, text_rivals
from quatgraph import config as configs
from quatgraph.errors import UserError, did_you_mean
from quatgraph.reproduce.render import markdown_table
from quatgraph.tasks import TASKS
from quatgraph.tasks.graph.problem import folds_of
from quatgraph.tasks.graph.problem import split_indices as split_graphs
from quatgraph.tasks.job import train_in_folder
from quatgraph.tasks.portfolio import default_candidates
from quatgraph.tasks.task import AnyTask
from quatgraph.tasks.text.problem import split_indices as split_texts
from quatgraph.training.context import Context

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


def rows(
    device: torch.device,
    only: Sequence[str] = (),
    folders: Sequence[Path] = (),
    *,
    hidden: bool = False,
) -> Iterator[dict[str, Any]]:
    """Compares dataset by dataset.

    Args:
        only: Tasks or datasets; all by default.
        folders: Further data, ``.../TASK/NAME``, instead of the lists.
        hidden: Whether to take the hidden datasets.
    """
    for task, source in _chosen(only, folders, HIDDEN if hidden else VISIBLE):
        with TemporaryDirectory() as made:
            (Path(made) / "data").mkdir()
            ours: list[float] = []
            single: list[float] = []
            splits: list[dict[str, Score]] = []
            spent = [0.0, 0.0]
            for number, values in enumerate(written(task, source, Path(made) / "data")):
                began = time.perf_counter()
                found = _train(TASKS[task], values, Path(made) / f"{number}", Context(device))
                ours += found["combination"]
                single += found["single"]
                middle = time.perf_counter()
                splits += _rivals(task, configs.build(TASKS[task].config, values))
                spent[0] += middle - began
                spent[1] += time.perf_counter() - middle
        yield {
            "case": f"{task}: {Path(source).stem}",
            "work": f"{'hidden, ' * hidden}{len(ours)} splits",
            **compare(ours, splits),
            "single": round(sample(single).mean, 2),
            "seconds": round(spent[0] / len(ours), 2),
            "rival_seconds": round(spent[1] / len(ours), 2),
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
    pairs = [(task, name) for task, names in lists.items() for name in names]
    known = {word for pair in pairs for word in pair}
    for word in only:
        if word not in known:
            raise UserError(f"there is no task or dataset {word!r} here{did_you_mean(word, known)}")
    return [pair for pair in pairs if not only or set(pair) & set(only)]


def _train(
    task: AnyTask, values: configs.Values, folder: Path, context: Context
) -> dict[str, list[float]]:
    """What ``train`` with its defaults reaches on the test data of each split: the combination,
    which it reports, and the single best model."""
    candidates = default_candidates(task, values)
    job = train_in_folder(task, candidates, folder, context, combine=True)
    metric = f"test/{task.reported_metrics[0]}"
    return {
        kind: [split[kind][metric] for split in job.selection] for kind in ("combination", "single")
    }


def _rivals(task: str, config: Any) -> list[dict[str, Score]]:
    """The scores of every rival on each split."""
    data, path = TASKS[task].load(config), config.data.path
    if task == "node":
        return [node_rivals(data)]
    if task == "link":
        return [link_rivals(data, path)]
    if task == "text":
        indices = split_texts(data.documents, config.data, 0)
        return [text_rivals(data, path, {part: i.numpy() for part, i in indices.items()})]
    problem = TASKS[task].prepare(data, config, torch.device("cpu"))
    found = []
    for fold in range(len(folds_of(data, config.data))):
        indices = split_graphs(problem, config, fold)
        found.append(graph_rivals(data, {part: i.numpy() for part, i in indices.items()}))
    return found


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
