"""Commands that query a trained model: evaluate, predict."""

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.common import Device, Json, app, command, echo, emit, log
from quatgraph.cli.tables import STDOUT, WORDS, align, encode, escape, format_of, is_stream
from quatgraph.errors import UserError, printable
from quatgraph.query_options import OPTIONS, check_options, options_of

SENSITIVE = ("macro-f1", "roc-auc", "average-precision")
"""Metrics that a few predictions may change by much."""


@command(app)
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        Path | None,
        typer.Argument(
            help="New data with labels, or the training data, if it was moved. "
            "link: a table of triples to rank."
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
    task = predictor.card["task"]
    if by_relation and task != "link":
        raise UserError(f"--by-relation is for link models, but {bundle} is for the task {task!r}")
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
    if "test/accuracy" in computed and task != "link":
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
    """Adds the options that `predict` takes, for all tasks, after the arguments of a command, which
    gets them as ``**options``; those that it has itself are not added."""
    signature = inspect.signature(body)
    bundle, data, *others, _ = signature.parameters.values()
    parameters = [bundle, data]
    own = {one.name for one in others}
    for task in OPTIONS:
        for option in options_of(task):
            if option.name in own:
                continue
            is_flag = option.flag_value is not None
            kind = bool if is_flag else option.type | None
            declared = typer.Option(option.spelling, help=f"{task}: {option.help}")
            parameters.append(
                data.replace(
                    name=option.spelling[2:],
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
            "link: a table of head, relation and tail, with ? for the entity to predict. "
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
    missing: Annotated[
        bool,
        typer.Option(
            "--missing",
            help="link: rank all triples that are not known, 1000 by default, by probability.",
        ),
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="link: show the known triples that support each prediction. "
            "text: compute the support of each word; slower.",
        ),
    ] = False,
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
    by 1; with --missing, its probability is the rate of validation triples among the triples that
    training lacks and that rank alike.

    quatgraph predict my-model --node alice

    quatgraph predict my-model new-data --out predictions.parquet

    quatgraph predict my-model --head Australia --relation capital --explain

    quatgraph predict my-model --missing --relation borders --top 100

    quatgraph predict my-model "a charming little film"
    """
    format_ = format_of(out, json_)
    from quatgraph.data.text import names_a_file
    from quatgraph.files import check_writable, write_atomic
    from quatgraph.predictors import load

    file = None if out is None or str(out) in STDOUT else out
    if file is not None:
        check_writable(file)
    predictor = load(bundle, device=device)
    task = predictor.card["task"]
    flags = {
        flag: value
        for flag, value in options.items()
        if value not in (None, []) and value is not False
    }
    check_options(task, [f"--{flag}" for flag in flags])
    query = {
        option.name: option.flag_value or flags[flag]
        for option in options_of(task)
        if (flag := option.spelling[2:]) in flags
    }
    if (missing and task != "link") or (explain and task not in ("link", "text")):
        flag, tasks = ("missing", "link") if missing else ("explain", "link and text")
        raise UserError(f"--{flag} is for {tasks} models, but {bundle} is for the task {task!r}")
    source = _read_texts(data or []) if task == "text" else _read_path(data or [], task, bundle)
    single_text = isinstance(source, str) and not names_a_file(source)
    if task == "text" and (explain or single_text):
        query["explain"] = True
    if task == "link":
        predictions = _predict_links(predictor, source, query, missing=missing, explain=explain)
    else:
        predictions = predictor.predict(source, **query)
    for note in predictions.notes:
        log(note)
    rows = list(predictions.rows())
    readable = out is None and not json_
    if file is not None:
        write_atomic(file, encode(rows, format_))
        if not is_stream(file):
            echo(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {file}")
    elif readable and task == "link" and source is None and not missing and rows:
        typer.echo(_format_links(rows, predictor), nl=False)
    elif readable and single_text:
        typer.echo(_format_text(rows[0]), nl=False)
    else:
        if sys.stdout.isatty() and not json_:  # JSON writes such characters out itself
            rows = [escape(row) for row in rows]
        typer.echo(encode(rows, format_), nl=False, color=True)  # color: nothing is taken out


def _predict_links(
    predictor: Any, source: Any, query: dict[str, Any], *, missing: bool, explain: bool
) -> Any:
    """Completes triples, or ranks those that the graph lacks; perhaps with their support."""
    relations = query.pop("relation", None)
    if missing:
        if source is not None or query.keys() - {"top"}:
            raise UserError("--missing takes no queries: leave out all but --relation and --top")
        predictions = predictor.predict_missing(relations, **query, progress=True)
    else:
        if relations is not None:
            if len(relations) > 1:
                raise UserError("a query has one relation; several --relation are for --missing")
            query["relation"] = relations[0]
        predictions = predictor.predict(source, **query)
    return predictor.explain(predictions) if explain else predictions


def _read_path(data: list[str], task: str, bundle: Path) -> Path | None:
    if len(data) > 1:
        raise UserError(
            f"{bundle} is for the task {task!r}, which takes one path of new data: "
            f"leave out {data[1]!r}"
        )
    return Path(data[0]) if data else None


def _read_texts(data: list[str]) -> str | list[str] | None:
    """The texts to classify: a text or a path, or several texts."""
    from quatgraph.data.text import lines_of, names_a_file

    if len(data) < 2 and data != ["-"]:
        return data[0] if data else None
    if data == ["-"]:
        lines = lines_of(typer.get_binary_stream("stdin").read(), "standard input")
        if not lines:
            raise UserError("standard input is empty; write one text per line")
        return lines
    if other := next((one for one in data if one == "-" or names_a_file(one)), None):
        raise UserError(f"{other!r} is not a text: give one file, -, or texts")
    if not any(len(one.split()) > 1 for one in data):
        log(f"{len(data)} texts of one word each; quote several words to make them one text")
    return data


def _format_links(rows: list[dict[str, Any]], predictor: Any) -> str:
    """Predictions for a single query, the columns in which they differ, and what these mean."""
    end = rows[0]["predicted"]
    columns = ["tail_rank", "head_rank"] if end == "both" else ["rank", end, f"{end}_id"]
    columns += ["score", "known"]
    table = align([{key: row[key] for key in columns if key in row} for row in rows])
    if "support" in rows[0]:
        table += "\n" + "".join(_format_support(row, end) for row in rows)
    whole = "its tail's"
    if predictor.reciprocal:
        whole = "the mean of its tail's and, by the inverse relation, its head's"
    score = whole if end == "both" else f"the {end}'s; a whole triple has {whole}"
    if (members := len(predictor.members)) > 1:
        score += f"; each the weighted mean of {members} models' log-softmax over all entities"
    rank = "filtered, other known triples do not count; ties averaged"
    lines = [f"rank: {rank}", f"score: {score}"]
    if "support" in rows[0]:
        rise = "how much the score of a known triple rises when the prediction's rises by 1"
        lines.append(f"support: {rise}")
    return f"{table}\n" + "".join(f"{line}\n" for line in lines)


def _format_support(row: dict[str, Any], end: str) -> str:
    """What supports a prediction, in words."""
    triples = [f"{words} ({value:.2f})" for words, value in row["support"].items()]
    whole = " ".join(row[key] for key in ("head", "relation", "tail"))
    name = whole if end == "both" else row[end]
    return f"{printable(name)}: {printable('; '.join(triples) or 'no known triple')}\n"


def _format_text(row: dict[str, Any]) -> str:
    """The classes of a text, the most probable first, and the words that count most."""
    probabilities = {key[2:-1]: value for key, value in row.items() if key.startswith("p(")}
    ordered = sorted(probabilities.items(), key=lambda item: -item[1])
    text = align([{"class": name, "probability": f"{value:.4f}"} for name, value in ordered])
    attention, words = row.get("attention", {}), []
    for word, support in list(row["support"].items())[:WORDS]:
        weight = {"attention": f"{attention[word]:.4f}"} if word in attention else {}
        words.append({"word": word, "support": f"{support:+.4f}", **weight})
    return f"{text}\n{align(words)}" if words else text
