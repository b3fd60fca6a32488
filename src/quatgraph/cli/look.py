"""Commands that look: list, data, info."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.cli.shell import Device, Json, Set, app, command, emit, emit_light, say, tell
from quatgraph.errors import Mistake, did_you_mean

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Fetch, check or describe a dataset.")
KINDS = {
    "datasets": ("by task, as in `quatgraph data fetch cora`", "{1}"),
    "models": ("by task, as in `--set model.name=gcn`", "{0}/{1}"),
    "presets": ("by dataset its methods, as in `quatgraph train node/cora-qgnn`", "{0}-{1}"),
    "tables": ("of the paper, as in `quatgraph reproduce node`", "{0}"),
}
"""What can be listed: what it is, and its whole name out of a group and a name."""


@command(app, "list")
def list_(
    kind: Annotated[str | None, typer.Argument(help=", ".join(KINDS))] = None,
    json_: Json = False,
) -> None:
    """Show what there is: datasets, models, presets, tables.

    quatgraph list presets
    """
    if kind is not None and kind not in KINDS:
        hint = did_you_mean(kind, KINDS) or f"; there are {', '.join(KINDS)}"
        raise Mistake(f"there is no list of {kind!r}{hint}")
    for one in KINDS if kind is None else (kind,):
        heading, name = KINDS[one]
        found = _listed(one)
        if json_:
            emit_light({one: [name.format(g, n) for g, several in found.items() for n in several]})
            continue
        typer.echo(f"{one}: {heading}")
        width = max(map(len, found))
        for group, several in found.items():
            typer.echo(f"  {group:{width}}  {', '.join(several)}")


def _listed(kind: str) -> dict[str, list[str]]:
    """What there is of a kind, in groups. Models and methods are those of the presets, which are
    read without torch."""
    found: dict[str, list[str]] = {}
    if kind == "datasets":
        from quatgraph.data.io.store import catalog

        for entry in catalog().values():
            found.setdefault(entry.task, []).append(entry.name)
        return found
    if kind == "tables":
        from quatgraph.reproduce import table_names, table_values

        return {name: [table_values(name)["title"]] for name in table_names()}
    from quatgraph.presets import names, parts, preset

    for name in names():
        if kind == "presets":
            task, dataset, method = parts(name)
            found.setdefault(f"{task}/{dataset}", []).append(method)
        else:
            models = found.setdefault(name.partition("/")[0], [])
            model = preset(name)["model"]["name"]
            models += [model] if model not in models else []
    return found


@command(data_app)
def fetch(name: Annotated[str, typer.Argument(help="A dataset, as cora.")]) -> None:
    """Download a dataset, or find it in QUATGRAPH_DATA, and verify it.

    quatgraph data fetch cora
    """
    from quatgraph.data.io import store

    found = store.fetch(name)
    typer.echo(
        f"{name}: {len(found)} files, as the catalog says" if found else f"{name} is built in"
    )
    entry = store.entry(name)
    tell(f"its licence: {entry.licence}")
    tell(f"please cite: {entry.citation}")


@command(data_app)
def check(name: Annotated[str, typer.Argument(help="A dataset, as cora.")]) -> None:
    """Compare a dataset's files with the catalog's digests; exit 1 if any differs.

    quatgraph data check cora
    """
    from quatgraph.data.io import store

    states = store.check(name)
    for path, state in states:
        say(f"{state:13} {path}")
    if any(state != "ok" for _, state in states):
        raise typer.Exit(1)
    typer.echo(f"{name}: {len(states)} files, all ok" if states else f"{name} is built in")


@command(data_app)
def formats(
    task: Annotated[str | None, typer.Argument(help="A task: node, graph, link or text.")] = None,
    json_: Json = False,
) -> None:
    """List the file formats that a task reads.

    quatgraph data formats graph
    """
    from quatgraph.data import graph, link, node, text

    readers = {
        "node": node.READERS,
        "graph": graph.READERS,
        "link": link.READERS,
        "text": text.READERS,
    }
    if task is not None and task not in readers:
        hint = did_you_mean(task, readers) or f"; there are {', '.join(readers)}"
        raise Mistake(f"there is no task {task!r}{hint}")
    rows = [
        {"task": name, "format": reader.name, "files": reader.description}
        for name in ([task] if task else readers)
        for reader in readers[name]
    ]
    if not json_:
        typer.echo(f"{'task':5}  {'format':6}  files")
    for row in rows:
        if json_:
            emit(row)
        else:
            typer.echo(f"{row['task']:5}  {row['format']:6}  {row['files']}")


@command(data_app)
def stats(
    name: Annotated[str, typer.Argument(help="A dataset, as cora, or your own data.")],
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Count graphs, nodes, edges, triples or texts, and what belongs to them.

    quatgraph data stats my-graph

    quatgraph data stats reviews.csv --set data.text=body --set data.label=topic
    """
    called, numbers = _counted(name, set_ or [])
    if json_:
        emit({"name": called, **numbers})
    else:
        width = max(9, *map(len, numbers))
        for key, value in numbers.items():
            say(f"{key:{width}} {value:,}")


def _counted(name: str, set_: list[str]) -> tuple[str, dict[str, int]]:
    """Name and statistics of a dataset, or of a person's own files, read as ``train`` does."""
    from quatgraph import config as configs
    from quatgraph.data import graph, link, node, text
    from quatgraph.data.formats import infer_task
    from quatgraph.data.io import store
    from quatgraph.tasks import TASKS
    from quatgraph.tasks.graph.problem import load_graphs
    from quatgraph.tasks.link.problem import load_triples
    from quatgraph.tasks.node.problem import load_data
    from quatgraph.tasks.text.problem import load_documents

    path = Path(name)
    own = path.exists()
    if not own and (path.suffix or len(path.parts) > 1):
        raise Mistake(f"there is no file or folder {name}")
    place = {"path": str(path)} if own else {"name": name}
    values = configs.override({"data": place}, set_)
    if own:  # texts alone have columns to set
        columns = {"data.text", "data.label"} & configs.flatten(values).keys()
        task = "text" if columns else infer_task(path)
    else:
        task = store.entry(name).task
    if task not in TASKS:
        raise Mistake(f"{name!r} is a dataset of {task}, in which there is nothing to count")
    data = configs.build(TASKS[task].config, values).data
    readers: dict[str, tuple[Callable[..., Any], Callable[[Any], dict[str, int]]]] = {
        "node": (load_data, node.statistics),
        "graph": (load_graphs, graph.statistics),
        "link": (load_triples, link.statistics),
        "text": (load_documents, text.statistics),
    }
    load, statistics = readers[task]
    try:
        found = load(data)
    except Mistake:  # what cannot be trained on is counted all the same
        if task == "link":
            raise
        found = load(data, labels_needed=False)
    for note in found.notes:
        tell(note)
    return found.name, statistics(found)


@command(app)
def info(device: Device = "auto", json_: Json = False) -> None:
    """Show versions, device, backend and where data is looked for.

    quatgraph info
    """
    from quatgraph.data.io.store import cache_root, data_root
    from quatgraph.ops.backend import TRITON_INSTALLED, chosen_backend
    from quatgraph.training.runtime import environment, resolve_device

    known = environment(resolve_device(device)) | {
        "backend": chosen_backend(),
        "triton": "installed" if TRITON_INSTALLED else "not installed",
        "data": str(data_root() or "QUATGRAPH_DATA is not set"),
        "cache": str(cache_root() or "no home folder; QUATGRAPH_CACHE is not set"),
    }
    if json_:
        emit(known)
    else:
        for key, value in known.items():
            say(f"{key:15} {value}")
