"""Commands that train: train, search, reproduce."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quatgraph.cli.common import (
    Device,
    Json,
    MaxMinutes,
    Set,
    app,
    command,
    echo,
    emit,
    log,
    training_context,
)
from quatgraph.errors import UserError, did_you_mean
from quatgraph.signals import exit_code

if TYPE_CHECKING:
    from quatgraph.tasks.job import Job
    from quatgraph.tasks.task import AnyTask
    from quatgraph.training.record import RunRecord

Protocol = Annotated[
    str, typer.Option(help="honest: select on validation data; paper: as in the paper.")
]
Only = Annotated[list[str] | None, typer.Option(help="Only this dataset or method. Repeatable.")]
Results = Annotated[Path, typer.Option(help="Folder with the run records.")]


def _complete_preset(incomplete: str) -> list[str]:
    from quatgraph.presets import names

    return [name for name in names() if name.startswith(incomplete)]


@command(app)
def train(
    what: Annotated[
        str,
        typer.Argument(
            help="A preset such as node/cora-qgnn, or a task: node, graph, link or text.",
            autocompletion=_complete_preset,
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
    directed: Annotated[
        bool, typer.Option(help="node: keep edges directed instead of adding both directions.")
    ] = False,
    vectors: Annotated[
        str | None,
        typer.Option(help="text: pretrained word vectors, a file or a name such as glove-100d."),
    ] = None,
    set_: Set = None,
    protocol: Protocol = "honest",
    seeds: Annotated[int | None, typer.Option(help="Seeds per split, 1 by default.")] = None,
    device: Device = "auto",
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
    _check_arguments(what, data, set_ or [], protocol)
    options = _data_options(what.partition("/")[0], directed, vectors)
    from quatgraph.tasks.job import holds_training, train_in_folder
    from quatgraph.training.loop import Paused

    task, candidates = _build_candidates(what, data, options, set_ or [], protocol, seeds)
    folder = out or Path("quatgraph-runs") / (_dataset_name(data) if data else f"{what}-{protocol}")
    instead = " in place of --overwrite" * overwrite
    repeat = f"repeat the command with --resume{instead} --out {shlex.quote(str(folder))}"
    try:
        with training_context(device, max_minutes) as context:
            context = replace(context, resume=resume, log=log)
            job = train_in_folder(task, candidates, folder, context, overwrite=overwrite)
    except Paused as paused:
        if json_:
            done, epochs = paused.done, paused.epochs
            emit({"paused": True, "done": done, "epochs": epochs, "out": str(folder)})
        else:
            echo(f"{paused}: {repeat}")
        return
    except KeyboardInterrupt as interrupt:
        log(f"interrupted: {repeat if holds_training(folder) else 'nothing was saved yet'}")
        raise typer.Exit(exit_code(interrupt)) from None
    _print_results(task, job, json_)


def _dataset_name(data: Path) -> str:
    path = data.resolve()
    return path.stem if path.is_file() else path.name


def _check_arguments(what: str, data: Path | None, set_: list[str], protocol: str) -> None:
    """Rejects invalid combinations before torch is loaded."""
    from quatgraph.presets import names, preset

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
    tasks = dict.fromkeys(name.partition("/")[0] for name in names())
    if what not in tasks:
        hint = did_you_mean(what, [*tasks, *names()])
        hint = hint or "; `quatgraph list presets` lists them"
        raise UserError(f"there is no task or preset {what!r}{hint}")
    if data is None:
        raise UserError(
            f"no data given; use `quatgraph train {what} --data PATH`, or a preset from "
            "`quatgraph list presets`"
        )


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


def _data_source(task: str, data: Path, directed: bool) -> dict[str, Any]:
    """Your files or, where there is no such path, a dataset of that name."""
    from quatgraph.data.io import store

    name, files = str(data), {"path": str(data.resolve())}
    if data.exists():
        return files
    if name not in store.catalog():
        own = [entry.name for entry in store.catalog().values() if entry.task == task]
        if hint := did_you_mean(name, own):
            raise UserError(f"there is no file, folder or dataset {name!r}{hint}")
        return files  # which the task's reader rejects, with the formats it reads
    if directed:
        raise UserError(f"--directed is for your own files, not for the dataset {name!r}")
    entry = store.entry(name, task)
    log(f"--data is the dataset {entry.name!r}: {entry.title}")
    return {"name": entry.name}


def _build_candidates(
    what: str,
    data: Path | None,
    options: dict[str, Any],
    set_: list[str],
    protocol: str,
    seeds: int | None,
) -> tuple["AnyTask", list[Any]]:
    """The task, and the configurations to select from on validation data."""
    from quatgraph import config as configs
    from quatgraph.presets import preset
    from quatgraph.tasks import TASKS
    from quatgraph.tasks.job import default_candidates

    task = TASKS[what.partition("/")[0]]
    more: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    if data is None:
        other = configs.flatten(configs.override({}, set_)).get("model.name")
        values = configs.replace_model(task.config, preset(what, protocol), other)  # type: ignore[arg-type]
        values["data"] = values["data"] | options
        return task, [configs.build(task.config, configs.override(values, set_) | more)]
    source = _data_source(what, data, "directed" in options) | options
    values = configs.override({"protocol": protocol, "data": source, **more}, set_)
    config = configs.build(task.config, values)
    # Explicit settings are fixed; validation data selects the others.
    return task, default_candidates(task, config, fixed=configs.flatten(values).keys())


def _print_results(task: "AnyTask", job: "Job", json_: bool) -> None:
    from quatgraph.metrics.classification import mean_std
    from quatgraph.tasks.selection import choose_by_validation

    # Each split uses the configuration that is best on its own validation data. The bundle's
    # configuration is selected by the mean over splits, whose data include other splits' test data.
    runs = choose_by_validation(job.healthy)
    reported = task.metrics_to_report(job.chosen.config)
    found = {m: mean_std([r.metrics[f"test/{m}"] for r in runs]) for m in reported}
    mean, std = found[reported[0]]
    if json_:
        emit(
            {
                "bundle": str(job.folder),
                "metrics": job.metrics,
                "mean": mean,
                "std": std,
                "test": {name: {"mean": m, "std": s} for name, (m, s) in found.items()},
                "runs": len(runs),
                "configs": job.num_configs,
                "seconds": sum({r.ensemble: r.seconds for r in job.records}.values()),
                "config": job.chosen.config,
            }
        )
        return
    if math.isnan(mean):
        typer.echo("no test data, so there are no test metrics")
    elif len(runs) > 1:
        selected = job.chosen_settings and len({run.split for run in runs}) > 1
        how = f", each {_split_word(runs[0])} with the configuration best on its validation data"
        over = _count_runs(runs)
        typer.echo(f"test {_format_metrics(found)} over {over}{how if selected else ''}")
    else:
        typer.echo(f"test {_format_metrics({name: (m,) for name, (m, _) in found.items()})}")
    if job.chosen_settings:
        names = (key.rpartition(".")[2].replace("_", " ") for key in job.chosen_settings)
        values = ", ".join(map("{} {}".format, names, job.chosen_settings.values()))
        echo(f"selected from {job.num_configs} configurations on validation data: {values}")
    for sentence in job.summary:
        echo(sentence)
    typer.echo(f"saved {_describe_bundle(task, job)}")
    example = _example_query(task, job)
    echo(f"predict with: quatgraph predict {shlex.quote(str(job.folder))}{example}")


def _format_metrics(metrics: Mapping[str, Sequence[float]]) -> str:
    """Metrics with a value each, or with mean and deviation: ``MRR .478, Hits@10 76.9 %``."""
    from quatgraph.reproduce.render import format_metric
    from quatgraph.reproduce.table import METRIC_FORMATS

    formatted = []
    for metric, numbers in metrics.items():
        name, times, _ = METRIC_FORMATS[f"test/{metric}"]
        values = " ± ".join(format_metric(number, f"test/{metric}") for number in numbers)
        formatted.append(f"{name} {values}{' %' if times == 100 else ''}")
    return ", ".join(formatted)


def _example_query(task: "AnyTask", job: "Job") -> str:
    """Example arguments of ``predict``, for tasks that need a query."""
    if task.name == "text":
        return ' "a text of your own"'
    if task.name != "link":
        return ""
    from quatgraph.predictors.link import read_bundled_triples
    from quatgraph.predictors.queries import example_query
    from quatgraph.training.bundle import load_bundle

    return f" {example_query(read_bundled_triples(load_bundle(job.folder)))}"


def _split_word(run: "RunRecord") -> str:
    return "fold" if run.task == "graph" else "split"


def _count_runs(runs: list["RunRecord"]) -> str:
    """The number of splits and seeds: ``10 folds and 2 seeds``."""
    splits, seeds = ({getattr(run, key) for run in runs} for key in ("split", "seed"))
    counts = {_split_word(runs[0]): len(splits), "seed": len(seeds)}
    return " and ".join(f"{count} {word}s" for word, count in counts.items() if count > 1)


def _describe_bundle(task: "AnyTask", job: "Job") -> str:
    """Which runs the bundle holds, and the metrics of a single one."""
    if job.num_bundled > 1:
        return f"all {job.num_bundled} models; their predictions are combined"
    run = job.chosen
    reported = task.metrics_to_report(run.config)
    details = [f"{_split_word(run)} {run.split}, seed {run.seed}"]
    for part in ("valid", "test"):
        found = {metric: [run.metrics[f"{part}/{metric}"]] for metric in reported}
        if not any(math.isnan(value) for (value,) in found.values()):
            details.append(f"{part} {_format_metrics(found)}")
    validated = not math.isnan(run.metrics[f"valid/{reported[0]}"])
    reason = "the best run on" if validated else "the first run, without"
    return f"{reason} validation data: {', '.join(details)}"


@command(app)
def search(
    preset: Annotated[
        str,
        typer.Argument(help="A preset such as node/cora-qgnn.", autocompletion=_complete_preset),
    ],
    set_: Set = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds per split and configuration.")] = 1,
    results: Results = Path("results"),
    device: Device = "auto",
    max_minutes: MaxMinutes = None,
) -> None:
    """Run a grid search over the hyperparameters of a preset.

    The grid of each task is in presets/protocols.toml. --set fixes a hyperparameter or replaces its
    list of values.

    quatgraph search node/cora-qgnn --set model.num_layers=1 --set 'train.lr=[0.01, 0.1]'
    """
    from quatgraph.reproduce import run
    from quatgraph.training.loop import Paused

    finished = 0
    try:
        with training_context(device, max_minutes) as context:
            for records in run.search(preset, results, context, seeds=seeds, overrides=set_ or []):
                finished += len(records)
    except Paused:
        log(f"time limit reached after {finished} runs; repeat the command to continue")
        return
    echo(f"{finished} runs added to {results / 'records'}")


@command(app)
def reproduce(
    table: Annotated[str, typer.Argument(help="The table: node, graph, link or text.")],
    only: Only = None,
    device: Device = "auto",
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
    from quatgraph.reproduce.render import cells, render
    from quatgraph.reproduce.run import MissingDataError, read_results, run_missing
    from quatgraph.reproduce.table import load_table
    from quatgraph.training.loop import Paused

    spec = load_table(table)
    spec.cells(only or [])  # rejects unknown names before anything runs
    missing_data = None
    try:
        with training_context(device, max_minutes) as context:
            for _ in () if recorded else run_missing(spec, results, context, only=only or []):
                pass
    except Paused:
        log("time limit reached; repeat the command to continue")
    except MissingDataError as error:
        missing_data = error
    records = read_results(results)
    if not records and recorded:
        raise UserError(
            f"{results} has no records; pass the results folder of a checkout with --results"
        )
    if missing_data and not records:
        raise missing_data
    if json_:
        for one in cells(spec, records, only or []):
            emit(one)
    else:
        typer.echo(render(spec, records, only or []))
    if missing_data:
        raise missing_data
