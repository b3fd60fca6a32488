"""Commands that train: train, reproduce."""

import shlex
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from quatgraph.cli.common import (
    Device,
    Directed,
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
    on_ranks,
    training_context,
)
from quatgraph.cli.results import describe_paused, print_results
from quatgraph.cli.sources import check_task, complete_preset, data_source, dataset_name
from quatgraph.errors import UserError, check_known
from quatgraph.signals import exit_code

if TYPE_CHECKING:
    from quatgraph.tasks.task import AnyTask

Protocol = Annotated[
    str, typer.Option(help="honest: select on validation data; paper: as in the paper.")
]
Only = Annotated[list[str] | None, typer.Option(help="Only this dataset or method. Repeatable.")]


@command(app, ranks=True)
def train(
    what: Annotated[
        str,
        typer.Argument(
            help="A preset such as node/cora-qgnn, or a task: node, graph, link or text.",
            autocompletion=complete_preset,
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your data, or a dataset such as cora. node: a folder with nodes.csv, edges.csv; "
            "graph: a .jsonl or .txt file, or a folder in TU format; "
            "link: a table of head, relation and tail, or a folder with train.tsv; "
            "text: a .csv, .tsv or .jsonl file with text and label, or a folder per label."
        ),
    ] = None,
    directed: Directed = False,
    vectors: Annotated[
        str | None,
        typer.Option(help="text: pretrained word vectors, a file or a name such as glove-100d."),
    ] = None,
    set_: Set = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Settings for your own data, such as the best.toml of `search`."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Select by this metric on validation data: accuracy, macro-f1, roc-auc or "
            "average-precision; link: mrr, hits@1, hits@3 or hits@10."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Try only this model of the portfolio, such as qgnn. Repeatable."),
    ] = None,
    fast: Annotated[
        bool, typer.Option("--fast", help="Try only the fast entries of the portfolio.")
    ] = False,
    refit_: Annotated[
        bool, typer.Option("--refit", help="Then train the chosen members again on all labels.")
    ] = False,
    protocol: Protocol = "honest",
    seeds: Annotated[int | None, typer.Option(help="Seeds per split, 1 by default.")] = None,
    device: Device = "auto",
    ray: Ray = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the bundle; under quatgraph-runs by default.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue an interrupted training.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the training in the output folder.")
    ] = False,
    max_minutes: MaxMinutes = None,
    json_: Json = False,
) -> None:
    """Train a preset, or a model on your own data, and save a bundle.

    quatgraph train node --data my-graph --out my-model

    quatgraph train link --data my-triples.tsv

    quatgraph train text --data reviews.csv
    """
    sharded = on_ranks()

    def choose() -> tuple["AnyTask", list[Any]]:
        """The task and the configurations to train."""
        _check_arguments(what, data, set_ or [], protocol)
        if data is None and (only or fast):
            raise UserError(
                "--only and --fast choose from the portfolio for your own data: add --data"
            )
        if sharded and (only or fast):
            raise UserError(
                "torchrun trains one model, not a portfolio: name it with --set model.name=..., "
                "and leave out --only and --fast"
            )
        if data is None and refit_:
            raise UserError("--refit is for your own data: add --data")
        if data is None and config is not None:
            raise UserError(
                "--config is for your own data: add --data, or change a preset with --set"
            )
        options = _data_options(what.partition("/")[0], directed, vectors)
        changes = set_ or []
        if metric is not None:
            changes = [_metric_setting(what.partition("/")[0], metric, changes), *changes]
        from quatgraph import config as configs
        from quatgraph.settings import read_settings
        from quatgraph.tasks.portfolio import default_candidates

        task, values = _build_values(what, data, options, changes, protocol, seeds)
        if config is not None:
            values = configs.merge(read_settings(config, task.config), values)
        if data is None or sharded:
            return task, [configs.build(task.config, values)]
        return task, default_candidates(task, values, only=only or [], fast=fast)

    chosen = None if sharded else choose()
    from quatgraph.tasks.job import holds_training, train_in_folder
    from quatgraph.tasks.refit import refit
    from quatgraph.training.loop import Paused

    folder = out or Path("quatgraph-runs") / (dataset_name(data) if data else f"{what}-{protocol}")
    instead = " in place of --overwrite" * overwrite
    repeat = f"repeat the command with --resume{instead} --out {shlex.quote(str(folder))}"
    try:
        with ExitStack() as stack:
            triples = None
            task: AnyTask
            if chosen is None:
                from quatgraph.cli.ranks import lead

                led = stack.enter_context(lead(choose, device, max_minutes, ray))
                task, candidates, triples, context = led
            else:
                task, candidates = chosen
                context = stack.enter_context(training_context(device, max_minutes, ray))
            context = replace(context, resume=resume, overwrite=overwrite, log=log)
            context = replace(context, estimate=data is not None)
            combine = data is not None and not sharded
            job = train_in_folder(task, candidates, folder, context, data=triples, combine=combine)
            if refit_:
                refit(task, folder, context, triples)
    except Paused as paused:
        if json_:
            done, epochs = paused.done, paused.epochs
            emit({"paused": True, "done": done, "epochs": epochs, "out": str(folder)})
        else:
            echo(f"{paused}: {repeat}")
            if model := describe_paused(folder):
                echo(model)
        return
    except KeyboardInterrupt as interrupt:
        log(f"interrupted: {repeat if holds_training(folder) else 'nothing was saved yet'}")
        if model := describe_paused(folder):
            log(model)
        raise typer.Exit(exit_code(interrupt)) from None
    print_results(task, job, json_)
    if refit_ and not json_:
        echo("the saved models were then trained again on all labels; the metrics are from before")


def _check_arguments(what: str, data: Path | None, set_: list[str], protocol: str) -> None:
    """Rejects invalid combinations before torch is loaded."""
    from quatgraph.presets import preset

    if protocol not in ("paper", "honest"):
        raise UserError(f"--protocol must be honest or paper, got {protocol!r}")
    if any(item.partition("=")[0].strip() == "protocol" for item in set_):
        raise UserError("set the protocol with --protocol, not with --set")
    if protocol == "paper" and "/" not in what:
        raise UserError("--protocol paper needs a preset; your own data uses the protocol honest")
    if "/" in what:
        if data is not None:
            raise UserError(
                f"a preset has its own data; use `train {what.split('/')[0]} --data ...` instead"
            )
        preset(what)
        return
    check_task("train", what, data)


def _metric_setting(task: str, metric: str, set_: list[str]) -> str:
    """The setting of ``--metric``."""
    from quatgraph.tasks import TASKS

    name = "monitor" if task == "link" else "metric"
    if any(item.partition("=")[0].strip() == f"train.{name}" for item in set_):
        raise UserError(f"--metric and --set train.{name} are the same setting: leave out one")
    train = get_type_hints(TASKS[task].config)["train"]
    known = get_args(get_type_hints(train)[name])
    check_known(metric, known, f"the task {task} has no metric {metric!r}")
    return f"train.{name}={metric}"


def _data_options(task: str, directed: bool, vectors: str | None) -> dict[str, Any]:
    """Values of the ``data`` section that have command-line options of their own."""
    options: dict[str, Any] = {"directed": True} if directed else {}
    if vectors is not None:
        from quatgraph.data.io.store import catalog

        options["vectors"] = vectors if vectors in catalog() else str(Path(vectors).resolve())
    for option, owner in (("directed", "node"), ("vectors", "text")):
        if option in options and task != owner:
            raise UserError(f"--{option} is an option of the task {owner}, not of {task}")
    return options


def _build_values(
    what: str,
    data: Path | None,
    options: dict[str, Any],
    set_: list[str],
    protocol: str,
    seeds: int | None,
) -> tuple["AnyTask", dict[str, Any]]:
    """The task and the settings that are given; validation data selects the others."""
    from quatgraph import config as configs
    from quatgraph.presets import preset
    from quatgraph.tasks import TASKS

    task = TASKS[what.partition("/")[0]]
    more: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    if data is None:
        other = configs.flatten(configs.override({}, set_)).get("model.name")
        values = configs.replace_model(task.config, preset(what, protocol), other)  # type: ignore[arg-type]
        values["data"] = values["data"] | options
        return task, configs.override(values, set_) | more
    source = data_source(what, data, "directed" in options) | options
    return task, configs.override({"protocol": protocol, "data": source, **more}, set_)


@command(app)
def reproduce(
    table: Annotated[str, typer.Argument(help="The table: node, graph, link, text or fb15k-237.")],
    only: Only = None,
    device: Device = "auto",
    ray: Ray = None,
    results: Results = Path("results"),
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Only print recorded results; run nothing.")
    ] = False,
    max_minutes: MaxMinutes = None,
    json_: Json = False,
) -> None:
    """Run and print a table of the paper.

    Prints our results next to the paper's numbers. Only runs without a record are trained, so an
    interrupted command continues when repeated. If no run is missing, no data is needed.

    quatgraph reproduce node --only cora --only qgnn

    quatgraph reproduce link --recorded
    """
    from quatgraph.reproduce import table_values

    table_values(table)  # rejects an unknown table before torch is loaded
    from quatgraph.reproduce.combinations import run_combinations
    from quatgraph.reproduce.render import cells, render, render_combinations
    from quatgraph.reproduce.run import IncompleteError, read_results, run_missing
    from quatgraph.reproduce.table import load_table
    from quatgraph.training.loop import Paused

    spec = load_table(table)
    spec.cells(only or [])  # rejects unknown names before anything runs
    incomplete = None
    try:
        with training_context(device, max_minutes, None if recorded else ray) as context:
            if not recorded:
                for _ in run_missing(spec, results, context, only=only or []):
                    pass
                trained = read_results(results)
                for _ in run_combinations(spec, trained, results, context, only or []):
                    pass
    except Paused:
        log("time limit reached; repeat the command to continue")
    except IncompleteError as error:
        incomplete = error
    records = read_results(results)
    if not records and recorded:
        raise UserError(
            f"{results} has no records; pass the results folder of a checkout with --results"
        )
    if incomplete and not records:
        raise incomplete
    if json_:
        for one in cells(spec, records, only or []):
            emit(one)
    else:
        typer.echo(render(spec, records, only or []))
        if combined := render_combinations(spec, records):
            typer.echo(f"\n{combined}")
    if incomplete:
        raise incomplete
