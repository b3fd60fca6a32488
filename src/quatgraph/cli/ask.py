"""Commands that ask a trained model: evaluate, predict."""

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.shell import Device, Json, app, command, emit, tell
from quatgraph.errors import Mistake

WORDS = 10
"""Words of a text that a person is shown with their attention."""


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
    from quatgraph.serve import load

    predictor = load(bundle, device=device)
    if by_relation:
        _check_task("link", "by-relation", predictor.card["task"], bundle)
        if data is not None:
            raise Mistake(f"{bundle} holds its triples: leave out {data}")
        _show_relations(predictor, json_)
        return
    recorded, again = predictor.card["metrics"], predictor.evaluate(data)
    if not again:
        tell(f"{bundle} was trained without validation and test data: there is nothing to compute")
    for name, value in again.items():
        known = recorded.get(name)  # an older bundle was measured by fewer
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
    judged = [name for name in again if name in recorded and not name.endswith("/macro-f1")]
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
        typer.echo(_table([row | more for row, more in zip(rows, shown, strict=True)]), nl=False)


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
    out: Annotated[Path | None, typer.Option(help="Write here instead of the screen.")] = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Classify nodes, graphs or texts, or complete triples: CSV, JSON lines, or for one question a
    table.

    For a text, support tells by how much the log-odds of its class fall without a word, and
    attention how much of the word the model takes in, from 0 to 1.

    quatgraph predict my-model --node alice

    quatgraph predict my-model --head Australia --relation capital

    quatgraph predict my-model "a charming little film"
    """
    from quatgraph.files import check_writable, write_atomic
    from quatgraph.serve import load
    from quatgraph.training.runtime import json_text

    if out is not None:
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
        tell(note)
    rows = list(answer.rows())
    if json_:
        text = "".join(f"{json_text(row)}\n" for row in rows)
    elif rows and out is None and task == "link" and about is None:
        text = f"{_table(_answers(rows))}\n{_meaning(rows[0]['asked'], predictor)}"
    elif one and out is None:
        text = _classified(rows[0])
    else:
        text = _csv(rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomic(out, text)
        typer.echo(f"{len(rows)} prediction{'s' * (len(rows) != 1)} in {out}")


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
            raise Mistake("standard input has no text; write a text a line")
        return lines
    if other := next((one for one in data if one == "-" or names_a_file(one)), None):
        raise Mistake(f"{other!r} is no text: name one file or -, or give texts, not both")
    if not any(len(one.split()) > 1 for one in data):
        tell(f"{len(data)} texts of a word each; quotes around several words make them one text")
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
    text = _table([{"class": name, "probability": f"{chance:.4f}"} for name, chance in listed])
    attention, words = row.get("attention", {}), []
    for word, lost in list(row["support"].items())[:WORDS]:
        shown = {"attention": f"{attention[word]:.4f}"} if word in attention else {}
        words.append({"word": word, "support": f"{lost:+.4f}", **shown})
    return f"{text}\n{_table(words)}" if words else text


def _table(rows: list[dict[str, Any]]) -> str:
    """Aligned columns, those of numbers to the right."""
    if not rows:
        return ""
    cells = [list(rows[0]), *(list(map(str, row.values())) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    signs = [">" if isinstance(value, int | float) else "" for value in rows[0].values()]
    line = "  ".join(f"{{:{sign}{width}}}" for sign, width in zip(signs, widths, strict=True))
    return "".join(f"{line.format(*row).rstrip()}\n" for row in cells)


def _csv(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Words with their numbers in one cell, the first of them; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return "; ".join(f"{word} {weight:.4f}" for word, weight in list(value.items())[:WORDS])
