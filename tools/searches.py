"""Runs searches of `results/searches.toml`: `python -m tools.searches NAME ... --max-minutes 9`."""

import json
import math
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from quatgraph import config as configs
from quatgraph.cli.common import MaxMinutes, training_context
from quatgraph.presets import Protocol, preset, protocols
from quatgraph.reproduce.run import search
from quatgraph.tasks.selection import selection_metric
from quatgraph.training.loop import Paused
from quatgraph.training.record import RunRecord

SEARCHES = Path(__file__).parents[1] / "results" / "searches.toml"


def read_searches(path: Path = SEARCHES) -> dict[str, dict[str, Any]]:
    """The searches by name: ``presets``, axes as ``set``, and perhaps ``seeds``; ``also`` lists
    further settings by preset, ``rounds`` those of several rounds."""
    return tomllib.loads(path.read_text())


def plan_rounds(search: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Presets and their axes in the order in which they run: the first round of every preset, then
    the second. So a time limit leaves about as many configurations of each."""
    also, rounds = search.get("also", {}), search.get("rounds", {})
    for turn in range(max(map(len, rounds.values()), default=1)):
        for name in search["presets"]:
            for settings in rounds.get(name, [[]])[turn : turn + 1]:
                yield name, [*search["set"], *also.get(name, []), *settings]


def complete_axes(name: str, axes: list[str]) -> list[str]:
    """The axes of a search, and what its preset has for the other axes of the task's grid, which
    are not searched."""
    task = name.partition("/")[0]
    given = configs.flatten(configs.override({}, axes))
    own = configs.flatten(preset(name))
    grid = configs.grid_keys(protocols(task)["grid"])
    others = {key: own[key] for key in grid if key in own and key not in given}
    return [*axes, *(f"{key}={json.dumps(value)}" for key, value in others.items())]


def expand_search(
    search: dict[str, Any], name: str, protocol: Protocol = "paper"
) -> Iterator[dict[str, Any]]:
    """The settings of every configuration that a search tries of a preset."""
    for planned, settings in plan_rounds(search):
        if planned == name:
            axes = configs.flatten(configs.override({}, complete_axes(name, settings)))
            lists = {key: axis if isinstance(axis, list) else [axis] for key, axis in axes.items()}
            yield from configs.expand_grid(preset(name, protocol), lists)


def describe_runs(axes: list[str], records: Sequence[RunRecord]) -> list[str]:
    """A line per configuration with validation data: the settings that the search varies, and the
    mean over splits and seeds of the validation metric that selects."""
    named = configs.flatten(configs.override({}, axes))
    varied = [key for key, axis in named.items() if isinstance(axis, list)]
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(record.config_digest, []).append(record)
    lines = []
    for runs in groups.values():
        flat, metric = configs.flatten(runs[0].config), selection_metric(runs[0].config)
        # Records leave out the defaults of settings that came later.
        settings = " ".join(f"{key}={flat.get(key, 'default')}" for key in varied)
        mean = fmean(run.metrics[f"valid/{metric}"] for run in runs)
        if not math.isnan(mean):
            lines.append(f"{settings}: validation {metric} {mean:.4f} ({len(runs)} runs)")
    return lines


def main(
    names: list[str],
    results: Annotated[Path, typer.Option()] = Path("results"),
    only: Annotated[list[str] | None, typer.Option(help="Only this preset. Repeatable.")] = None,
    device: Annotated[str, typer.Option()] = "auto",
    max_minutes: MaxMinutes = None,
) -> None:
    """Runs the named searches, one preset after the other; repeat the command to continue."""
    searches = read_searches()
    with training_context(device, max_minutes) as context:
        for values in (searches[name] for name in names):
            for name, axes in plan_rounds(values):
                if only and name not in only:
                    continue
                try:
                    for records in search(
                        name,
                        results,
                        context,
                        seeds=values.get("seeds", 1),
                        overrides=complete_axes(name, axes),
                    ):
                        for line in describe_runs(axes, records):
                            typer.echo(f"{name} {line}")
                except Paused:
                    typer.echo("time limit reached; repeat the command to continue")
                    return


if __name__ == "__main__":
    typer.run(main)
