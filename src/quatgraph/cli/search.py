"""The command search."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quatgraph.cli.common import (
    Device,
    Json,
    MaxMinutes,
    Ray,
    Results,
    Set,
    app,
    command,
    echo,
    emit,
    log,
    training_context,
)
from quatgraph.cli.sources import check_task, complete_preset, data_source, dataset_name
from quatgraph.errors import UserError, printable
from quatgraph.signals import exit_code

if TYPE_CHECKING:
    from quatgraph.tasks.config import Config
    from quatgraph.tasks.search import Trial
    from quatgraph.tasks.task import AnyTask
    from quatgraph.training.context import Context
    from quatgraph.training.record import RunRecord

SHOWN = 10
"""Configurations that the ranking shows."""


@command(app)
def search(
    what: Annotated[
        str,
        typer.Argument(
            help="A task: node, graph, link or text, with --data; or a preset.",
            autocompletion=complete_preset,
        ),
    ],
    data: Annotated[
        Path | None, typer.Option(help="Your data, or a dataset such as cora; as in `train`.")
    ] = None,
    set_: Set = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds per split and configuration.")] = 1,
    random: Annotated[
        int | None, typer.Option(help="Sample so many configurations instead of trying all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of --random.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for records and best.toml; under quatgraph-runs by default."),
    ] = None,
    results: Results = Path("results"),
    device: Device = "auto",
    ray: Ray = None,
    max_minutes: MaxMinutes = None,
    json_: Json = False,
) -> None:
    """Search hyperparameters on your own data, or around a preset.

    Validation data ranks the configurations, and best.toml holds the best one. --set
    'key=[value, ...]' searches a list, --set key=value fixes a hyperparameter. Without a list, the
    task's grid in presets/protocols.toml is searched. Repeat an interrupted command to continue.

    quatgraph search node --data my-graph --set 'train.lr=[0.01, 0.1]' --seeds 2 --out my-search

    quatgraph search node/cora-qgnn --set model.num_layers=1 --set 'train.lr=[0.01, 0.1]'
    """
    if "/" in what:
        for option, value in (("data", data), ("random", random), ("out", out)):
            if value is not None:
                instead = f"`search {what.partition('/')[0]} --data ...`"
                raise UserError(f"--{option} does not go with a preset; use {instead} instead")
        with training_context(device, max_minutes, ray) as context:
            _search_preset(what, set_ or [], seeds, results, context)
        return
    data = check_task("search", what, data)
    if any(item.partition("=")[0].strip() == "protocol" for item in set_ or []):
        raise UserError("search chooses on validation data, always under the protocol honest")
    from quatgraph.tasks import TASKS
    from quatgraph.tasks.search import rank_trials, search_candidates, search_in_folder
    from quatgraph.training.loop import Paused

    task = TASKS[what]
    values = {"protocol": "honest", "data": data_source(what, data), "seeds": seeds}
    candidates = search_candidates(task, values, set_ or [], sample=random, seed=seed)
    folder = out or Path("quatgraph-runs") / f"search-{dataset_name(data)}"
    words = ["quatgraph", "search", what, "--data", str(data)]
    words += [word for item in set_ or [] for word in ("--set", item)]
    words += ["--seeds", str(seeds)] if seeds > 1 else []
    words += ["--random", str(random), "--seed", str(seed)] if random is not None else []
    words += ["--out", str(folder)]
    paused = False
    try:
        with training_context(device, max_minutes, ray) as context:
            search_in_folder(task, candidates, folder, replace(context, log=log))
    except Paused:
        paused = True
    except KeyboardInterrupt as interrupt:
        words += ["--device", device] if device != "auto" else []
        words += ["--ray", ray] if ray is not None else []
        words += ["--max-minutes", f"{max_minutes:.15g}"] if max_minutes is not None else []
        words += ["--json"] if json_ else []
        log(f"interrupted: {shlex.join(words)} continues")
        raise typer.Exit(exit_code(interrupt)) from None
    trials = rank_trials(candidates, folder)
    ending = _Ending(task, candidates, trials, folder, data, shlex.join(words))
    if trials:
        ending.save()
    if json_:
        emit(ending.to_dict() | {"paused": paused})
        return
    if trials:
        ending.print()
    if paused:
        log(f"time limit reached after {ending.count()}; repeat the command to continue")


@dataclass(frozen=True, slots=True)
class _Ending:
    """What a search ends with: a ranking, the best configuration, and the command to train it."""

    task: "AnyTask"
    candidates: Sequence["Config"]
    trials: Sequence["Trial"]
    folder: Path
    data: Path
    command: str

    @property
    def best(self) -> Path:
        from quatgraph.tasks.search import BEST

        return self.folder / BEST

    @property
    def train_command(self) -> str:
        words = ["quatgraph", "train", self.task.name, "--data", str(self.data)]
        return shlex.join([*words, "--config", str(self.best), "--out", "my-model"])

    @property
    def metric(self) -> str:
        from quatgraph.tasks.search import validation_metric

        return validation_metric(self.task, self.candidates[0])

    @property
    def tested(self) -> "list[RunRecord]":
        """The best runs: for each split those of the configuration best on its validation data,
        for that of another split may be among its own test data."""
        from quatgraph.tasks.selection import choose_by_validation, drop_diverged

        return choose_by_validation(drop_diverged([r for t in self.trials for r in t.runs]))

    def count(self) -> str:
        """``8 configurations``, or ``3 of 8 configurations`` if some are missing or diverged."""
        total = len(self.candidates)
        of = "" if len(self.trials) == total else f"{len(self.trials):,} of "
        return f"{of}{total:,} {'configuration' if total == 1 else 'configurations'}"

    def save(self) -> None:
        """Writes the best configuration, with its origin."""
        from quatgraph.files import write_atomic
        from quatgraph.settings import to_toml

        best = self.trials[0]
        numbers = best.validation(self.metric)[: min(2, len(best.runs))]
        score = f"{_format(self.metric, numbers)}, {_count_runs(best.runs)}"
        lines = (
            f"The best of {self.count()} by validation data: {score}.",
            f"Searched by: {self.command}",
            f"Train it by: {self.train_command}",
        )
        comment = "".join(f"# {printable(line)}\n" for line in lines)
        write_atomic(self.best, f"{comment}\n{to_toml(self.trials[0].config)}")

    def rows(self) -> list[dict[str, Any]]:
        """The best configurations: validation metric and the settings in which they differ."""
        from quatgraph.tasks.search import varied_settings

        keys = varied_settings(self.candidates)
        rows = []
        for rank, trial in enumerate(self.trials[:SHOWN], 1):
            mean, std = trial.validation(self.metric)
            numbers = {"rank": rank, "mean": mean, "std": std, "runs": len(trial.runs)}
            rows.append(numbers | {"settings": trial.settings(keys)})
        return rows

    def print(self) -> None:
        from quatgraph.cli.tables import align
        from quatgraph.tasks.search import summarize_test

        best = self.trials[0]
        over = f", mean ± std over {_count_runs(best.runs)}" if len(best.runs) > 1 else ""
        echo(f"{self.count()} ranked by validation {_name(self.metric)}{over}")
        table = []
        for row in self.rows():
            numbers = (row["mean"], row["std"]) if len(best.runs) > 1 else (row["mean"],)
            score = _format(self.metric, numbers).removeprefix(f"{_name(self.metric)} ")
            settings = {key: _plain(value) for key, value in row["settings"].items()}
            table.append({"rank": row["rank"], _name(self.metric): score, **settings})
        typer.echo(align(table), nl=False)
        runs = self.tested
        if found := summarize_test(self.task, runs):
            parts = (_format(m, pair if len(runs) > 1 else pair[:1]) for m, pair in found.items())
            which = " (rank 1)"
            if len({run.split for run in runs}) > 1:
                which = ", each split with the configuration best on its validation data"
            echo(f"test {', '.join(parts)}{which}")
        echo(f"saved the best configuration in {self.best}")
        echo(f"train it with: {self.train_command}")

    def to_dict(self) -> dict[str, Any]:
        from quatgraph.tasks.search import summarize_test

        found: dict[str, Any] = {
            "configs": len(self.candidates),
            "finished": len(self.trials),
            "metric": f"valid/{self.metric}",
            "ranking": self.rows(),
            "out": str(self.folder),
        }
        if self.trials:
            test = summarize_test(self.task, self.tested)
            found |= {
                "test": {name: {"mean": mean, "std": std} for name, (mean, std) in test.items()},
                "best": str(self.best),
                "train": self.train_command,
            }
        return found


def _count_runs(runs: "Sequence[RunRecord]") -> str:
    return "1 run" if len(runs) == 1 else f"{len(runs)} runs"


def _name(metric: str) -> str:
    from quatgraph.reproduce.table import METRIC_FORMATS

    return METRIC_FORMATS[f"test/{metric}"][0]


def _format(metric: str, numbers: Sequence[float]) -> str:
    """A metric with its mean, and perhaps its deviation: ``accuracy 83.33 ± 1.20 %``."""
    from quatgraph.reproduce.render import format_metric
    from quatgraph.reproduce.table import METRIC_FORMATS

    name, scale, _ = METRIC_FORMATS[f"test/{metric}"]
    values = " ± ".join(format_metric(number, f"test/{metric}") for number in numbers)
    return f"{name} {values}{' %' if scale == 100 else ''}"


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)


def _search_preset(
    name: str,
    set_: list[str],
    seeds: int,
    results: Path,
    context: "Context",
) -> None:
    """Searches the grid around a preset and adds its records to the results of the tables."""
    from quatgraph.reproduce import run
    from quatgraph.training.loop import Paused

    finished = 0
    try:
        for records in run.search(name, results, context, seeds=seeds, overrides=set_):
            finished += len(records)
    except Paused:
        log(f"time limit reached after {finished} runs; repeat the command to continue")
        return
    echo(f"{finished} runs added to {results / 'records'}")
