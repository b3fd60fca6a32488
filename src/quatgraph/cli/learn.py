"""Commands that train: train, search, reproduce."""

import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quatgraph.cli.shell import (
    Device,
    Json,
    MaxMinutes,
    Set,
    app,
    command,
    emit,
    progress,
    say,
    tell,
)
from quatgraph.errors import Mistake, did_you_mean
from quatgraph.signals import exit_code

if TYPE_CHECKING:
    from quatgraph.tasks.job import Job
    from quatgraph.tasks.task import Task
    from quatgraph.training.record import RunRecord

Protocol = Annotated[str, typer.Option(help="honest or paper.")]
Results = Annotated[Path, typer.Option(help="Where run records are kept.")]


def _presets(begun: str) -> list[str]:
    """What a shell may complete."""
    from quatgraph.presets import names

    return [name for name in names() if name.startswith(begun)]


@command(app)
def train(
    what: Annotated[
        str,
        typer.Argument(
            help="A preset, as node/cora-qgnn, or a task, as node.", autocompletion=_presets
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your data. node: a folder with nodes.csv and edges.csv; "
            "graph: a .jsonl or .txt file, or a folder in TU format; "
            "link: a table of head, relation and tail, or a folder with train.tsv; "
            "text: a .csv, .tsv or .jsonl file with text and label, or a folder per label."
        ),
    ] = None,
    directed: Annotated[
        bool, typer.Option(help="node: your edges speak in one direction.")
    ] = False,
    vectors: Annotated[
        str | None,
        typer.Option(help="text: word vectors to start from, a file or a name, as glove-100d."),
    ] = None,
    set_: Set = None,
    protocol: Protocol = "honest",
    seeds: Annotated[int | None, typer.Option(help="Seeds per split.")] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder for the bundle and records.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on where the last call stopped.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the training that the folder holds.")
    ] = False,
    max_minutes: MaxMinutes = None,
    json_: Json = False,
) -> None:
    """Train a preset, or a model of your own data, and keep it as a bundle.

    quatgraph train node --data my-graph --out my-model

    quatgraph train link --data my-triples.tsv

    quatgraph train text --data reviews.csv
    """
    _check_asked(what, data, set_ or [], protocol)
    from quatgraph.tasks.job import holds_training, train_in_folder
    from quatgraph.training.loop import Paused
    from quatgraph.training.runtime import Deadline, resolve_device

    given: dict[str, Any] = {"directed": True} if directed else {}
    if vectors is not None:
        given["vectors"] = _vectors(vectors)
    task, candidates = _candidates(what, data, given, set_ or [], protocol, seeds)
    folder = out or Path("quatgraph-runs") / (_called(data) if data else f"{what}-{protocol}")
    instead = " in place of --overwrite" * overwrite
    repeat = f"repeat the command with --resume{instead} --out {shlex.quote(str(folder))}"
    try:
        with progress() as show:
            job = train_in_folder(
                task,
                candidates,
                folder,
                device=resolve_device(device),
                resume=resume,
                overwrite=overwrite,
                deadline=Deadline(max_minutes),
                progress=show,
                tell=tell,
            )
    except Paused as paused:
        left = {"paused": True, "done": paused.done, "epochs": paused.epochs, "out": str(folder)}
        _say(json_, left, f"{paused}: {repeat}")
        return
    except KeyboardInterrupt as interrupt:
        tell(f"interrupted: {repeat if holds_training(folder) else 'nothing had been saved yet'}")
        raise typer.Exit(exit_code(interrupt)) from None
    _report(task, job, json_)


def _called(data: Path) -> str:
    """The name of a person's folder or file."""
    place = data.resolve()
    return place.stem if place.is_file() else place.name


def _check_asked(what: str, data: Path | None, set_: list[str], protocol: str) -> None:
    """Refuses what cannot be trained, before torch is loaded."""
    from quatgraph.presets import names, preset

    if protocol not in ("paper", "honest"):
        raise Mistake(f"--protocol is honest or paper, got {protocol!r}")
    if any(item.partition("=")[0].strip() == "protocol" for item in set_):
        raise Mistake("choose the protocol by --protocol, not by --set")
    if protocol == "paper" and "/" not in what:
        raise Mistake("the protocol paper belongs to the presets; your own data is trained honest")
    if "/" in what:
        if data is not None:
            raise Mistake(f"a preset names its data: use `train {what.split('/')[0]} --data ...`")
        preset(what)
        return
    tasks = dict.fromkeys(name.partition("/")[0] for name in names())
    if what not in tasks:
        hint = did_you_mean(what, [*tasks, *names()])
        hint = hint or "; `quatgraph list presets` shows what there is"
        raise Mistake(f"there is no task or preset {what!r}{hint}")
    if data is None:
        raise Mistake(
            f"tell where your data is: `quatgraph train {what} --data PATH`, or name a preset: "
            "`quatgraph list presets` shows them"
        )


def _candidates(
    what: str,
    data: Path | None,
    given: dict[str, Any],
    set_: list[str],
    protocol: str,
    seeds: int | None,
) -> tuple["Task", list[Any]]:
    """The task, and the configurations among which validation data decides; ``given`` are settings
    of the data by options of their own."""
    from quatgraph import config as configs
    from quatgraph.presets import preset
    from quatgraph.tasks.job import default_candidates

    more: dict[str, Any] = {} if seeds is None else {"seeds": seeds}
    if data is None:
        task = _task(what.split("/")[0], given)
        other = configs.flatten(configs.override({}, set_)).get("model.name")
        values = configs.with_model(task.config, preset(what, protocol), other)  # type: ignore[arg-type]
        values["data"] = values["data"] | given
        return task, [configs.build(task.config, configs.override(values, set_) | more)]
    task = _task(what, given)
    place = {"path": str(data.resolve())}
    values = configs.override({"protocol": protocol, "data": place | given, **more}, set_)
    config = configs.build(task.config, values)
    # What the person sets is not searched; without a setting, validation data decides.
    chosen = configs.flatten(values)
    return task, default_candidates(task, config, fixed=chosen.keys())


def _vectors(source: str) -> str:
    """A name of the catalog, or a file wherever it is asked for."""
    from quatgraph.data.store import catalog

    return source if source in catalog() else str(Path(source).resolve())


def _task(name: str, given: dict[str, Any]) -> "Task":
    from quatgraph.tasks import TASKS

    for option, owner in (("directed", "node"), ("vectors", "text")):
        if option in given and name != owner:
            raise Mistake(f"--{option} belongs to the task {owner}, not to {name}")
    return TASKS[name]


def _report(task: "Task", job: "Job", json_: bool) -> None:
    from quatgraph.reproduce.table import choose_by_validation
    from quatgraph.tasks.runs import merit
    from quatgraph.training.metrics import mean_std

    # On each split the setting that is best on its own validation data, as a test must be: the
    # bundle's setting is chosen by the mean over splits, which has seen other splits' test data.
    runs = choose_by_validation(job.healthy, merit)
    found = {m: mean_std([r.metrics[f"test/{m}"] for r in runs]) for m in task.told}
    mean, std = found[task.told[0]]
    if json_:
        emit(
            {
                "bundle": str(job.folder),
                "metrics": job.metrics,
                "mean": mean,
                "std": std,
                "test": {name: {"mean": m, "std": s} for name, (m, s) in found.items()},
                "runs": len(runs),
                "configs": job.configs,
                "seconds": sum({r.ensemble: r.seconds for r in job.records}.values()),
                "config": job.chosen.config,
            }
        )
        return
    if math.isnan(mean):
        typer.echo("there is no test data to say how good it is")
    elif len(runs) > 1:
        chose = job.settled and len({run.split for run in runs}) > 1
        own = f", each {_split(runs[0])} with the setting best on its validation data" * bool(chose)
        typer.echo(f"test {_worth(found)} over {_counted(runs)}{own}")
    else:
        typer.echo(f"test {_worth({name: (m,) for name, (m, _) in found.items()})}")
    if job.settled:
        chosen = [f"{_spoken(key)} {value}" for key, value in job.settled.items()]
        say(f"chosen on validation data among {job.configs} settings: {', '.join(chosen)}")
    for sentence in job.said:
        say(sentence)
    typer.echo(f"kept {_kept(task, job)}")
    say(f"ask it: quatgraph predict {shlex.quote(str(job.folder))}{_question(task, job)}")


def _worth(found: Mapping[str, Sequence[float]]) -> str:
    """Metrics with their values, or with means and deviations: ``MRR .478, Hits@10 76.9 %``."""
    from quatgraph.reproduce.render import printed
    from quatgraph.reproduce.table import PRINTED

    shown = []
    for metric, numbers in found.items():
        name, times, _ = PRINTED[f"test/{metric}"]
        values = " ± ".join(printed(number, f"test/{metric}") for number in numbers)
        shown.append(f"{name} {values}{' %' if times == 100 else ''}")
    return ", ".join(shown)


def _question(task: "Task", job: "Job") -> str:
    """Something to ask a bundle that is asked by name."""
    if task.name == "text":
        return ' "a text of your own"'
    if task.name != "link":
        return ""
    from quatgraph.predictors.link import read_bundled_triples
    from quatgraph.predictors.queries import example_query
    from quatgraph.training.bundle import load_bundle

    return f" {example_query(read_bundled_triples(load_bundle(job.folder)))}"


SPLITS = {"graph": "fold"}
"""What a task calls its splits, where that is another word."""


def _split(run: "RunRecord") -> str:
    return SPLITS.get(run.task, "split")


def _counted(runs: list["RunRecord"]) -> str:
    """How many splits and seeds the runs are, as ``10 folds and 2 seeds``."""
    counts = {_split(runs[0]): len({r.split for r in runs}), "seed": len({r.seed for r in runs})}
    return " and ".join(f"{count} {word}s" for word, count in counts.items() if count > 1)


def _spoken(key: str) -> str:
    """A setting in words: ``train.weight_decay`` is the weight decay."""
    return key.rpartition(".")[2].replace("_", " ")


def _kept(task: "Task", job: "Job") -> str:
    """Which runs the bundle holds, and what a single one reached."""
    if job.kept > 1:
        return f"all {job.kept} models, which answer together"
    run, parts = job.chosen, []
    for part in ("valid", "test"):
        found = {metric: [run.metrics[f"{part}/{metric}"]] for metric in task.told}
        if not any(math.isnan(value) for (value,) in found.values()):
            parts.append(f"{part} {_worth(found)}")
    where = f"{_split(run)} {run.split}, seed {run.seed}"
    validated = not math.isnan(run.metrics[f"valid/{task.told[0]}"])
    why = "the run that is best on" if validated else "the first run, for lack of"
    return f"{why} validation data: {', '.join((where, *parts))}"


@command(app)
def search(
    preset: Annotated[
        str, typer.Argument(help="A preset, as node/cora-qgnn.", autocompletion=_presets)
    ],
    set_: Set = None,
    seeds: Annotated[int, typer.Option(help="Seeds per split and configuration.")] = 1,
    results: Results = Path("results"),
    device: Device = "auto",
    max_minutes: MaxMinutes = None,
) -> None:
    """Try every combination of a task's lists; --set fixes a setting, or gives it a list.

    quatgraph search node/cora-qgnn --set model.num_layers=1 --set 'train.lr=[0.01, 0.1]'
    """
    from quatgraph.reproduce import run
    from quatgraph.training.loop import Paused
    from quatgraph.training.runtime import Deadline, resolve_device

    finished = 0
    try:
        with progress() as show:
            how = run.How(
                device=resolve_device(device), deadline=Deadline(max_minutes), progress=show
            )
            for records in run.search(preset, results, how, seeds=seeds, overrides=set_ or []):
                finished += len(records)
    except Paused:
        typer.echo(f"time is up after {finished} runs; repeat the command to go on", err=True)
        return
    say(f"{finished} runs added to {results / 'records'}")


@command(app)
def reproduce(
    table: Annotated[str, typer.Argument(help="A table: node, graph, link or text.")],
    only: Annotated[
        list[str] | None, typer.Option(help="A dataset or a method; may repeat.")
    ] = None,
    device: Device = "auto",
    results: Results = Path("results"),
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Run nothing; show what is on record.")
    ] = False,
    max_minutes: MaxMinutes = None,
    json_: Json = False,
) -> None:
    """Run what a table of the paper still lacks, then print it beside the paper's numbers.

    Finished runs are read back from their records, so an interrupted command goes on; where none is
    missing, no data is needed.

    quatgraph reproduce node --only cora --only qgnn

    quatgraph reproduce link --recorded
    """
    from quatgraph.reproduce import table_values

    table_values(table)  # an unknown table is told before torch is loaded
    from quatgraph.reproduce.render import cells, render
    from quatgraph.reproduce.run import How, NoData, read_results, run_missing
    from quatgraph.reproduce.table import load_table
    from quatgraph.training.loop import Paused
    from quatgraph.training.runtime import Deadline, resolve_device

    spec = load_table(table)
    where = resolve_device(device)
    picked = only or []
    spec.cells(picked)
    lacking = None
    try:
        with progress() as show:
            how = How(device=where, deadline=Deadline(max_minutes), progress=show)
            for _ in () if recorded else run_missing(spec, results, how, only=picked):
                pass
    except Paused:
        typer.echo("time is up; repeat the command to run the rest", err=True)
    except NoData as error:
        lacking = error
    records = read_results(results)
    if not records and recorded:
        raise Mistake(
            f"{results} holds no records: name the folder of a checkout that does by --results"
        )
    if lacking and not records:
        raise lacking
    if json_:
        for one in cells(spec, records, picked):
            emit(one)
    else:
        typer.echo(render(spec, records, picked))
    if lacking:
        raise lacking


def _say(json_: bool, value: dict[str, Any], sentence: str) -> None:
    emit(value) if json_ else say(sentence)
