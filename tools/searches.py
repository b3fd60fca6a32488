"""Runs searches of `results/searches.toml`: `python -m tools.searches NAME ... --max-minutes 9`."""

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph import config as configs
from quatgraph.cli.common import MaxMinutes, training_context
from quatgraph.presets import preset, protocols
from quatgraph.reproduce.run import search
from quatgraph.training.loop import Paused

SEARCHES = Path(__file__).parents[1] / "results" / "searches.toml"


def read_searches(path: Path = SEARCHES) -> dict[str, dict[str, Any]]:
    """The searches by name: ``presets``, axes as ``set`` and perhaps ``seeds``."""
    return tomllib.loads(path.read_text())


def complete_axes(name: str, axes: list[str]) -> list[str]:
    """The axes of a search, and what its preset has for the other axes of the task's grid, which
    are not searched."""
    task = name.partition("/")[0]
    given = configs.flatten(configs.override({}, axes))
    own = configs.flatten(preset(name))
    grid = configs.grid_keys(protocols(task)["grid"])
    return [*axes, *(f"{key}={own[key]}" for key in grid if key in own and key not in given)]


def main(
    names: list[str],
    results: Annotated[Path, typer.Option()] = Path("results"),
    device: Annotated[str, typer.Option()] = "auto",
    max_minutes: MaxMinutes = None,
) -> None:
    """Runs the named searches, one preset after the other; repeat the command to continue."""
    searches = read_searches()
    with training_context(device, max_minutes) as context:
        for values in (searches[name] for name in names):
            for name in values["presets"]:
                try:
                    for records in search(
                        name,
                        results,
                        context,
                        seeds=values.get("seeds", 1),
                        overrides=complete_axes(name, values["set"]),
                    ):
                        for one in records:
                            _print(name, one.config, one.metrics)
                except Paused:
                    typer.echo("time limit reached; repeat the command to continue")
                    return


def _print(name: str, config: dict[str, Any], metrics: dict[str, float]) -> None:
    settings = " ".join(
        f"{section}.{key}={value}"
        for section in ("model", "train")
        for key, value in config[section].items()
        if key in ("dim_quats", "dropout", "lr", "n3", "relation_weight", "num_layers", "n")
    )
    metric = next(key for key in ("valid/mrr", "valid/accuracy") if key in metrics)
    typer.echo(f"{name} {settings}: {metric} {metrics[metric]:.4f}")


if __name__ == "__main__":
    typer.run(main)
