"""Commands that ask a trained model: evaluate, predict."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.common import Device, Json, app, command, echo, emit, log
from quatgraph.cli.tables import STDOUT, WORDS, align, encode, format_of, is_stream, printable_rows
from quatgraph.errors import Mistake


@command(app)
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        Path | None, typer.Argument(help="Where the training data is now, if it was moved.")
    ] = None,
    by_relation: Annotated[
        bool,
        typer.Option("--by-relation", help="link: show each relation of the test triples instead."),
    ] = False,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Compute a bundle's metrics again; exit 1 if they are not the recorded ones.

    quatgraph evaluate my-model
    """
    from quatgraph.predictors import load

    predictor = load(bundle, device=device)
    if by_relation:
        _check_task("link", "by-relation", predictor.card["task"], bundle)
        if data is not None:
            raise Mistake(f"{bundle} holds its triples: leave out {data}")
        _show_relations(predictor, json_)
        return
    recorded, again = predictor.card["metrics"], predictor.evaluate(data)
    if not again:
        log(f"{bundle} was trained without validation and test data: there is nothing to compute")
    for name, value in again.items():
        known = recorded.get(name)  # an older bundle was measured by fewer; null is not a number
        if json_:
            emit({"metric": name, "recorded": known, "computed": value})
        else:
            shown = "nothing" if known is None else f"{known:.4f}"
            typer.echo(f"{name:18} recorded {shown:7} computed {value:.4f}")
    if not json_ and isinstance(models := predictor.card["split"], list):
        typer.echo(
            f"each the mean of the {len(models)} models on their own folds, all with the setting "
            "that was kept; `train` lets every fold choose its own"
        )
    # Another device rounds differently, which may turn a node or two; in a small class even one
    # changes the macro-F1 by much.
    judged = [
        name for name in again if recorded.get(name) is not None and not name.endswith("/macro-f1")
    ]
    if any(abs(recorded[name] - again[name]) > 0.005 * max(1, again[name]) for name in judged):
        raise typer.Exit(1)


def _show_relations(predictor: Any, json_: bool) -> None:
    """What the test triples of each relation are worth, those with most of them first."""
    found = predictor.by_relation("test").items()
    rows = [
        {"relation": name, **{key: one[key] for key in ("triples", "mrr", "hits@10")}}
        for name, one in sorted(found, key=lambda item: -item[1]["triples"])
    ]
    if json_:
        for row in rows:
            emit(row)
    else:
        shown = ({key: f"{row[key]:.4f}" for key in ("mrr", "hits@10")} for row in rows)
        typer.echo(align([row | more for row, more in zip(rows, shown, strict=True)]), nl=False)


@command(app)
def predict(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="New data, as `train` takes it; the training data if none. "
            "link: a table of head, relation and tail, ? for what is asked. "
            "text: a text or several, a file of them, or - for standard input, a text a line.",
            show_default=False,
        ),
    ] = None,
    node: Annotated[list[str] | None, typer.Option(help="node: an id; may repeat.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="graph: an id; may repeat.")] = None,
    document: Annotated[list[str] | None, typer.Option(help="text: an id; may repeat.")] = None,
    vectors: Annotated[
        str | None,
        typer.Option(help="text: word vectors, of the training's source, for words it never saw."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="text: tell what the class has by each word; slower."),
    ] = False,
    head: Annotated[str | None, typer.Option(help="link: an entity; tails are asked for.")] = None,
    relation: Annotated[str | None, typer.Option(help="link: a relation.")] = None,
    tail: Annotated[str | None, typer.Option(help="link: an entity; heads are asked for.")] = None,
    top: Annotated[int | None, typer.Option(help="link: answers to give, 10 unless set.")] = None,
    new: Annotated[
        bool, typer.Option("--new", help="link: leave out answers that the data has.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write here instead of the screen: a .csv, .tsv, .jsonl, .json or .parquet file; "
            "CSV without a suffix, and to - or a device as /dev/stdout."
        ),
    ] = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Classify nodes, graphs or texts, or complete triples: CSV, JSON lines, or for one question a
    table; a file has the format of its suffix.

    For a text, support tells by how much the log-odds of its class fall without a word, and
    attention how much of the word the model takes in, from 0 to 1.

    quatgraph predict my-model --node alice

    quatgraph predict my-model new-data --out predictions.parquet

    quatgraph predict my-model --head Australia --relation capital

    quatgraph predict my-model "a charming little film"
    """
    format_ = format_of(out, json_)
    from quatgraph.files import check_writable, write_atomic
    from quatgraph.predictors import load

    if out is not None and str(out) not in STDOUT:
        check_writable(out)
    predictor = load(bundle, device=device)
    options: tuple[tuple[str, str, str, Any], ...] = (
        ("node", "node", "nodes", node or None),
        ("graph", "graph", "ids", graph or None),
        ("text", "document", "ids", document or None),
        ("text", "vectors", "vectors", vectors),
        ("text", "explain", "explain", True if explain else None),
        ("link", "head", "head", head),
        ("link", "relation", "relation", relation),
        ("link", "tail", "tail", tail),
        ("link", "top", "top", top),
        ("link", "new", "known", "leave-out" if new else None),
    )
    task, asked = predictor.card["task"], {}
    for wanted, option, keyword, value in options:
        if value is not None:
            _check_task(wanted, option, task, bundle)
            asked[keyword] = value
    about = _texts(data or []) if task == "text" else _one_path(data or [], task, bundle)
    if one := _is_one_text(about):
        asked["explain"] = True
    answer = predictor.predict(about, **asked)
    for note in answer.notes:
        log(note)
    rows = list(answer.rows())
    if out is not None and str(out) not in STDOUT:
        write_atomic(out, encode(rows, format_))
        if not is_stream(out):
            echo(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {out}")
    elif rows and out is None and not json_ and task == "link" and about is None:
        meaning = _meaning(rows[0]["asked"], predictor)
        typer.echo(f"{align(_answers(rows))}\n{meaning}", nl=False)
    elif one and out is None and not json_:
        typer.echo(_classified(rows[0]), nl=False)
    else:
        if sys.stdout.isatty() and not json_:  # JSON writes such characters out itself
            rows = printable_rows(rows)
        typer.echo(encode(rows, format_), nl=False, color=True)  # color: nothing is taken out


def _check_task(wanted: str, option: str, task: str, bundle: Path) -> None:
    """Refuses an option of another task than the bundle's."""
    things = {"node": "nodes", "graph": "graphs", "link": "triples", "text": "texts"}[wanted]
    if task != wanted:
        raise Mistake(f"--{option} asks a model of {things}, but {bundle} is for the task {task!r}")


def _one_path(data: list[str], task: str, bundle: Path) -> Path | None:
    if len(data) > 1:
        raise Mistake(
            f"{bundle} is for the task {task!r}, which takes one path of new data: "
            f"leave out {data[1]!r}"
        )
    return Path(data[0]) if data else None


def _texts(data: list[str]) -> str | list[str] | None:
    """What is asked of a model of texts: a text or a path, or several texts."""
    from quatgraph.data.text import lines_of, names_a_file

    if len(data) < 2 and data != ["-"]:
        return data[0] if data else None
    if data == ["-"]:
        lines = lines_of(typer.get_binary_stream("stdin").read(), "standard input")
        if not lines:
            raise Mistake("standard input is empty; write one text per line")
        return lines
    if other := next((one for one in data if one == "-" or names_a_file(one)), None):
        raise Mistake(f"{other!r} is no text: name one file or -, or give texts, not both")
    if not any(len(one.split()) > 1 for one in data):
        log(f"{len(data)} texts of a word each; quotes around several words make them one text")
    return data


def _is_one_text(about: object) -> bool:
    from quatgraph.data.text import names_a_file

    return isinstance(about, str) and not names_a_file(about)


def _answers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the answers to a single question differ in."""
    end = rows[0]["asked"]
    ranked = ("tail_rank", "head_rank") if end == "both" else ("rank", end, f"{end}_id")
    return [{key: row[key] for key in (*ranked, "score", "known") if key in row} for row in rows]


def _meaning(asked: str, predictor: Any) -> str:
    """What the ranks and scores of a single question are, a line each."""
    both = predictor.config.data.reciprocal
    whole = "the mean of its tail's and, asked by the inverse relation, its head's"
    whole = whole if both else "its tail's"
    score = whole if asked == "both" else f"the {asked}'s; a whole triple has {whole}"
    return f"rank: filtered, other known answers do not count; ties averaged\nscore: {score}\n"


def _classified(row: dict[str, Any]) -> str:
    """The classes of a text, the likeliest first, and the words that count most."""
    chances = {key[2:-1]: value for key, value in row.items() if key.startswith("p(")}
    listed = sorted(chances.items(), key=lambda item: -item[1])
    text = align([{"class": name, "probability": f"{chance:.4f}"} for name, chance in listed])
    attention, words = row.get("attention", {}), []
    for word, lost in list(row["support"].items())[:WORDS]:
        shown = {"attention": f"{attention[word]:.4f}"} if word in attention else {}
        words.append({"word": word, "support": f"{lost:+.4f}", **shown})
    return f"{text}\n{align(words)}" if words else text
