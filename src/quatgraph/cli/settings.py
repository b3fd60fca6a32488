"""Prints the hyperparameters of a task, for the command list."""

import dataclasses
import textwrap

import typer

from quatgraph.cli.common import emit
from quatgraph.errors import UserError, check_known

WIDTH = 100


def print_settings(task: str | None, model: str | None, json_: bool) -> None:
    """Prints every hyperparameter with its default, type, bounds and meaning."""
    if task is None:
        raise UserError("no task given; use `quatgraph list settings node`, or graph, link or text")
    from quatgraph.settings import describe_settings
    from quatgraph.tasks import TASKS

    check_known(task, TASKS, f"there is no task {task!r}")
    models = list(TASKS[task].models)
    if model is not None:
        check_known(model, models, f"the task {task} has no model {model!r}")
    settings = describe_settings(TASKS[task].config, model)
    if json_:
        for setting in settings:
            emit(dataclasses.asdict(setting))
        return
    chosen = model or TASKS[task].config().model.name
    others = ", ".join(name for name in models if name != chosen)
    typer.echo(f"{task} with the model {chosen} (others: {others}), as in `--set train.lr=0.1`")
    for setting in settings:
        kind = ", ".join(filter(None, (setting.type, setting.bounds)))
        lines = (f"{setting.key} = {setting.default}  ({kind})", setting.meaning)
        for line, indent in zip(lines, ("  ", "      "), strict=True):
            text = line.replace("``", "`")
            later = "      "
            typer.echo(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=later))
