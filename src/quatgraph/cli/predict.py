"""Commands that query a trained model: evaluate, predict."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.common import Device, Json, app, command, echo, emit, log
from quatgraph.cli.tables import STDOUT, align, encode, escape, format_of, is_stream
from quatgraph.errors import UserError
from quatgraph.query_options import QUERIES, Option, Query, find_query, parse_flags, queries_of

SENSITIVE = ("macro-f1", "roc-auc", "average-precision")
"""Metrics that a few predictions may change by much."""


@command(app)
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="New data with labels, or the training data, if it was moved. "
            "link: triples to rank; of a folder, those of test."
        ),
    ] = None,
    by_relation: Annotated[
        bool,
        typer.Option("--by-relation", help="link: show metrics by relation."),
    ] = False,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Measure a model on its test data, or on new data with labels.

    Without new data, the recorded metrics are recomputed; exit 1 if they differ. Data that is the
    training data is recognised wherever it lies. A label that the model does not know counts as a
    wrong prediction; triples with an unknown entity are left out.

    quatgraph evaluate my-model

    quatgraph evaluate my-model new-data.csv
    """
    from quatgraph.predictors import load

    predictor: Any = load(bundle, device=device)
    if by_relation:
        find_query(predictor.card["task"], "by_relation")
    if by_relation or (data is not None and not predictor.adopt(data)):
        report = predictor.report(data)
        for note in report.notes:
            log(note)
        if by_relation:
            _print_relations(report.relations, json_)
        else:
            _print_report(report, json_)
        return
    computed = predictor.evaluate()
    if not computed:
        log(f"{bundle} was trained without validation and test data, so it has no metrics")
    differs = _print_recomputed(computed, predictor.card, json_)
    if "test/accuracy" in computed:
        _print_report(predictor.report(), json_, apart=True)
    if differs:
        raise typer.Exit(1)


def _print_recomputed(computed: dict[str, float], card: dict[str, Any], json_: bool) -> bool:
    """Prints recorded and recomputed metrics, and returns whether they differ."""
    recorded, members = card["metrics"], card["members"]
    differs = False
    for name, value in computed.items():
        known = recorded[name]  # null is not a number
        # Another device rounds differently, which may change a prediction or two; in a small class
        # even one changes the macro-F1, and the other metrics of classes, by much.
        if known is not None and name.rpartition("/")[2] not in SENSITIVE:
            differs |= abs(known - value) > 0.005 * max(1, value)
        if json_:
            emit({"metric": name, "recorded": known, "computed": value})
        else:
            text = "nothing" if known is None else f"{known:.4f}"
            typer.echo(f"{name:18} recorded {text:7} computed {value:.4f}")
    if not json_ and len({(member["split"], member["seed"]) for member in members}) > 1:
        typer.echo(
            f"each the mean of the {len(members)} models on their own folds, all with the chosen "
            "setting; `train` lets every fold choose its own"
        )
    return differs


def _print_report(report: Any, json_: bool, *, apart: bool = False) -> None:
    """Prints a report, after an empty line if it stands ``apart`` from text before it."""
    if json_:
        emit({"report": report.to_dict()} if apart else report.to_dict())
    else:
        typer.echo(f"{chr(10) * apart}{report}")


def _print_relations(found: dict[str, dict[str, float]], json_: bool) -> None:
    """Prints the metrics of each relation, the one with most triples first."""
    rows = [
        {"relation": name, **{key: one[key] for key in ("triples", "mrr", "hits@10")}}
        for name, one in sorted(found.items(), key=lambda item: -item[1]["triples"])
    ]
    if json_:
        for row in rows:
            emit(row)
    else:
        rounded = [row | {key: f"{row[key]:.4f}" for key in ("mrr", "hits@10")} for row in rows]
        typer.echo(align(rounded), nl=False)


def _add_query_options(body: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of all queries, after the arguments of a command, which gets them as
    ``**options``."""
    signature = inspect.signature(body)
    bundle, data, *others, _ = signature.parameters.values()
    found: dict[str, dict[Option, str]] = {}  # the options of each flag, with their help
    for task in QUERIES:
        for query in queries_of(task):
            if query.flag:
                option = Option(query.flag, bool, query.help, flag_value=True)
                found[query.flag] = {option: f"{task}: {query.help}"}
            for option in query.options:
                where = f"With --{query.flag}" if query.flag else task
                found.setdefault(option.spelling[2:], {}).setdefault(
                    option, f"{where}: {option.help}"
                )
    parameters = [bundle, data]
    for flag, options in found.items():
        widest = next((one for one in options if one.repeats), next(iter(options)))
        is_flag = widest.flag_value is not None
        kind = bool if is_flag else widest.type | None
        declared = typer.Option(f"--{flag}", help=" ".join(options.values()))
        parameters.append(
            data.replace(
                name=flag,
                default=False if is_flag else None,
                annotation=Annotated[kind, declared],
            )
        )
    parameters += others
    body.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    body.__annotations__ = {one.name: one.annotation for one in parameters}
    return body


@command(app)
@_add_query_options
def predict(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="New data in a format of `train`; the training data by default. "
            "link: head, relation and tail, with ? for the entity to predict. "
            "text: one or more texts, a file of them, or - for standard input, one text per line.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write here instead of the screen: a .csv, .tsv, .jsonl, .json or .parquet file; "
            "CSV if there is no suffix, and for - or a device such as /dev/stdout."
        ),
    ] = None,
    device: Device = "auto",
    json_: Json = False,
    **options: Any,
) -> None:
    """Classify nodes, graphs or texts, or complete triples. Prints CSV, JSON lines, or a table for
    a single query; the suffix of an output file sets its format.

    For the training data, the known label and split of each item are shown too; for new data, its
    label, if it has one. For a text, support is the drop in the probability of its class when a
    word is left out, and attention, from 0 to 1, is how much of the word enters the text's vector.
    For a triple, support is how much the score of a known triple rises when the prediction's rises
    by 1; with --missing, its probability is that a further part of the size of the validation part
    has it.

    quatgraph predict my-model --node alice

    quatgraph predict my-model new-data --out predictions.parquet

    quatgraph predict my-model --head Australia --relation capital --explain

    quatgraph predict my-model --missing --relation borders --top 100

    quatgraph predict my-model "a charming little film"
    """
    format_ = format_of(out, json_)
    from quatgraph.cli.single import format_single
    from quatgraph.files import check_writable, write_atomic
    from quatgraph.predictors import load

    file = None if out is None or str(out) in STDOUT else out
    if file is not None:
        check_writable(file)
    predictor = load(bundle, device=device)
    task = predictor.card["task"]
    given = {f"--{flag}": value for flag, value in options.items() if _is_given(value)}
    query, keywords = parse_flags(task, given)
    source: Path | str | list[str] | None = None
    if query.data == "texts":
        source = _read_texts(data or [])
    elif data:
        source = _read_path(data, task, query)
    if isinstance(source, str):  # a single text
        single = {one.name: one.single for one in query.options if one.single is not None}
        keywords = single | keywords
    if query.shows_progress:
        keywords["progress"] = True
    arguments = [] if query.data == "none" else [source]
    predictions = getattr(predictor, query.method)(*arguments, **keywords)
    for note in predictions.notes:
        log(note)
    rows = list(predictions.rows())
    if file is not None:
        write_atomic(file, encode(rows, format_))
        if not is_stream(file):
            echo(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {file}")
        return
    if out is None and not json_ and (text := format_single(predictions, predictor, source)):
        typer.echo(text, nl=False)
        return
    if sys.stdout.isatty() and not json_:  # JSON writes such characters out itself
        rows = [escape(row) for row in rows]
    typer.echo(encode(rows, format_), nl=False, color=True)  # color: nothing is taken out


def _is_given(value: object) -> bool:
    """Whether an option is not at its default; 0 is a value."""
    return value is not None and value is not False and value != []


def _read_path(data: list[str], task: str, query: Query) -> Path:
    if query.data == "none":
        raise UserError(f"--{query.flag} takes no data: leave out {data[0]!r}")
    if len(data) > 1:
        raise UserError(
            f"the model is for the task {task!r}, which takes one path of new data: "
            f"leave out {data[1]!r}"
        )
    return Path(data[0])


def _read_texts(data: list[str]) -> Path | str | list[str] | None:
    """The texts to classify: a path, a single text, or several."""
    from quatgraph.data.text import lines_of, names_a_file

    if data == ["-"]:
        lines = lines_of(typer.get_binary_stream("stdin").read(), "standard input")
        if not lines:
            raise UserError("standard input is empty; write one text per line")
        return lines
    if len(data) < 2:
        text = data[0] if data else None
        return Path(text) if text is not None and names_a_file(text) else text
    if other := next((one for one in data if one == "-" or names_a_file(one)), None):
        raise UserError(f"{other!r} is not a text: give one file, -, or texts")
    if not any(len(one.split()) > 1 for one in data):
        log(f"{len(data)} texts of one word each; quote several words to make them one text")
    return data
