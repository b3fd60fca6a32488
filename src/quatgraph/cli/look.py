"""Commands that look: list, data, evaluate, predict, bench, info."""

from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.shell import Device, Json, app, command, emit, emit_light, tell
from quatgraph.errors import Mistake, did_you_mean

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Fetch, check or describe a dataset.")
KINDS = ("datasets", "models", "presets", "tables")


@command(app, "list")
def list_(
    kind: Annotated[str | None, typer.Argument(help=", ".join(KINDS))] = None,
    json_: Json = False,
) -> None:
    """Show what there is: datasets, models, presets, tables.

    quatgraph list presets
    """
    kinds = KINDS if kind is None else (kind,)
    for one in kinds:
        if one not in KINDS:
            hint = did_you_mean(one, KINDS) or f"; there are {', '.join(KINDS)}"
            raise Mistake(f"there is no list of {one!r}{hint}")
        if json_:
            emit_light({one: _listed(one)})
        else:
            typer.echo(f"{one}: {', '.join(_listed(one))}")


def _listed(kind: str) -> list[str]:
    if kind == "datasets":
        from quatgraph.data.store import catalog

        return list(catalog())
    if kind == "presets":
        from quatgraph.presets import names

        return names()
    if kind == "tables":
        from quatgraph.reproduce.table import table_names

        return table_names()
    from quatgraph.tasks import TASKS

    return [f"{task.name}/{name}" for task in TASKS.values() for name in task.models]


@command(data_app)
def fetch(name: Annotated[str, typer.Argument(help="A dataset, as cora.")]) -> None:
    """Download a dataset, or find it in QUATGRAPH_DATA, and verify it.

    quatgraph data fetch cora
    """
    from quatgraph.data import store

    found = store.fetch(name)
    typer.echo(
        f"{name}: {len(found)} files, as the catalog says" if found else f"{name} is built in"
    )


@command(data_app)
def check(name: Annotated[str, typer.Argument(help="A dataset, as cora.")]) -> None:
    """Compare a dataset's files with the catalog's digests; exit 1 if any differs.

    quatgraph data check cora
    """
    from quatgraph.data import store

    states = store.check(name)
    for path, state in states:
        typer.echo(f"{state:13} {path}")
    if any(state != "ok" for _, state in states):
        raise typer.Exit(1)
    typer.echo(f"{name}: {len(states)} files, all ok" if states else f"{name} is built in")


@command(data_app)
def stats(
    name: Annotated[str, typer.Argument(help="A dataset, as cora, or your own data.")],
    json_: Json = False,
) -> None:
    """Count graphs, nodes, edges, features and classes.

    quatgraph data stats my-graph
    """
    called, numbers = _counted(name)
    if json_:
        emit({"name": called, **numbers})
    else:
        typer.echo("\n".join(f"{key:9} {value:,}" for key, value in numbers.items()))


def _counted(name: str) -> tuple[str, dict[str, int]]:
    """Name and statistics of a dataset, or of a person's own files."""
    from quatgraph.data import graph, link, node, store, text

    path = Path(name)
    if link.holds_triples(path) or (not path.exists() and store.entry(name).task == "link"):
        triples = link.read(path) if path.exists() else link.load(name)
        for note in triples.notes:
            tell(note)
        return triples.name, link.statistics(triples)
    if path.is_file() or (path.is_dir() and not (path / "nodes.csv").exists()):
        graphs = graph.read(path, labels_needed=False)
        return graphs.name, graph.statistics(graphs)
    if not path.is_dir() and store.entry(name).task == "text":
        documents = text.load(name)
        return documents.name, text.statistics(documents)
    if not path.is_dir() and store.entry(name).task == "graph":
        graphs = graph.load(name)
        return graphs.name, graph.statistics(graphs)
    data = node.read_folder(path) if path.is_dir() else node.load(name)
    return data.name, node.statistics(data)


@command(app)
def evaluate(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        Path | None, typer.Argument(help="Where the training data is now, if it was moved.")
    ] = None,
    by_relation: Annotated[
        bool, typer.Option("--by-relation", help="link: show each relation of the test triples.")
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
    for name, value in again.items():
        if json_:
            emit({"metric": name, "recorded": recorded[name], "computed": value})
        else:
            typer.echo(f"{name:18} recorded {recorded[name]:.4f}  computed {value:.4f}")
    # Another device rounds differently, which may turn a node or two.
    if any(abs(recorded[name] - value) > 0.005 * max(1, value) for name, value in again.items()):
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
        Path | None,
        typer.Argument(
            help="New data, as `train` takes it; the training data if none. "
            "link: a table of head, relation and tail, ? for what is asked."
        ),
    ] = None,
    node: Annotated[list[str] | None, typer.Option(help="node: an id; may repeat.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="graph: an id; may repeat.")] = None,
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
    """Classify nodes or graphs, or complete triples: CSV, JSON lines, or for one question a table.

    quatgraph predict my-model --node alice

    quatgraph predict my-model --head Australia --relation capital
    """
    from quatgraph.serve import load
    from quatgraph.training.runtime import json_text, write_atomic

    predictor = load(bundle, device=device)
    options: tuple[tuple[str, str, str, Any], ...] = (
        ("node", "node", "nodes", node or None),
        ("graph", "graph", "ids", graph or None),
        ("link", "head", "head", head),
        ("link", "relation", "relation", relation),
        ("link", "tail", "tail", tail),
        ("link", "top", "top", top),
        ("link", "new", "known", "leave-out" if new else None),
    )
    asked: dict[str, Any] = {}
    for task, option, keyword, value in options:
        if value is not None:
            _check_task(task, option, predictor.card["task"], bundle)
            asked[keyword] = value
    answer = predictor.predict(data, **asked)
    for note in answer.notes:
        tell(note)
    rows = list(answer.rows())
    if json_:
        text = "".join(f"{json_text(row)}\n" for row in rows)
    elif rows and data is None and out is None and predictor.card["task"] == "link":
        text = _table(_answers(rows))
    else:
        text = _csv(rows)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomic(out, text)
        typer.echo(f"{len(rows)} predictions in {out}")


def _check_task(wanted: str, option: str, task: str, bundle: Path) -> None:
    """Refuses an option of another task than the bundle's."""
    things = {"node": "nodes", "graph": "graphs", "link": "triples"}[wanted]
    if task != wanted:
        raise Mistake(f"--{option} asks a model of {things}, but {bundle} is for the task {task!r}")


def _answers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the answers to a single question differ in."""
    end = rows[0]["asked"]
    ranked = ("tail_rank", "head_rank") if end == "both" else ("rank", end, f"{end}_id")
    return [{key: row[key] for key in (*ranked, "score", "known") if key in row} for row in rows]


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
    import csv
    import io

    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


@command(app)
def bench(
    what: Annotated[
        str | None, typer.Argument(help="aggregate, kernels (GPU), conv, node, graph or defaults.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder to append records to.")] = None,
    json_: Json = False,
) -> None:
    """Time the operations and trainings on this machine, variants side by side.

    quatgraph bench conv
    """
    from quatgraph.bench import BENCHES
    from quatgraph.training.record import append_lines
    from quatgraph.training.runtime import environment, resolve_device

    if what is not None and what not in BENCHES:
        hint = did_you_mean(what, BENCHES) or f"; there are {', '.join(BENCHES)}"
        raise Mistake(f"there is no benchmark {what!r}{hint}")
    where = resolve_device(device)
    about = environment(where)
    for name in BENCHES if what is None else (what,):
        for row in BENCHES[name](where):
            if json_:
                emit({"bench": name, **row})
            else:
                typer.echo("  ".join(f"{value}" for value in (name, *row.values())))
            if out is not None:
                append_lines(out / f"{name}.jsonl", [{"bench": name, **row, "environment": about}])


@command(app)
def info(device: Device = "auto", json_: Json = False) -> None:
    """Show versions, device, backend and where data is looked for.

    quatgraph info
    """
    from quatgraph.data.store import cache_root, data_root
    from quatgraph.ops.backend import chosen_backend, triton_installed
    from quatgraph.training.runtime import environment, resolve_device

    known = environment(resolve_device(device)) | {
        "backend": chosen_backend(),
        "triton": "installed" if triton_installed() else "not installed",
        "data": str(data_root() or "QUATGRAPH_DATA is not set"),
        "cache": str(cache_root()),
    }
    if json_:
        emit(known)
    else:
        typer.echo("\n".join(f"{key:15} {value}" for key, value in known.items()))
