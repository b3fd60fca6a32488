"""The commands list, data and info."""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quatgraph.cli.common import (
    Device,
    Directed,
    Json,
    Set,
    app,
    command,
    echo,
    emit,
    log,
)
from quatgraph.cli.settings import print_settings
from quatgraph.errors import UserError, check_known
from quatgraph.signals import exit_code

if TYPE_CHECKING:
    from quatgraph.config import Values

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(data_app, name="data", help="Fetch, verify or describe a dataset.")
LINE = 100
"""Characters of a line of a list, at most."""
KINDS = {
    "datasets": ("by task, as in `quatgraph data fetch cora`", "{1}"),
    "models": ("by task, as in `--set model.name=gcn`", "{0}/{1}"),
    "presets": ("methods by dataset, as in `quatgraph train node/cora-qgnn`", "{0}-{1}"),
    "tables": ("of the paper, as in `quatgraph reproduce node`", "{0}"),
}
"""What can be listed: its heading, and the full name made of a group and a name."""


@command(app, "list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help=f"{', '.join(KINDS)}; all by default. Or settings, with a task."),
    ] = None,
    task: Annotated[
        str | None, typer.Argument(help="With settings: node, graph, link or text.")
    ] = None,
    model: Annotated[
        str | None, typer.Argument(help="With settings: a model such as gcn; QGNN by default.")
    ] = None,
    json_: Json = False,
) -> None:
    """List the available datasets, models, presets and tables, or the hyperparameters of a task.

    quatgraph list presets

    quatgraph list settings node gcn
    """
    if kind == "settings":
        print_settings(task, model, json_)
        return
    if task is not None:
        raise UserError(
            f"{kind} takes no further argument, got {task!r}; see `quatgraph list --help`"
        )
    if kind is not None:
        check_known(kind, [*KINDS, "settings"], f"cannot list {kind!r}")
    for one in KINDS if kind is None else (kind,):
        heading, full_name = KINDS[one]
        groups = _list_names(one)
        if json_:
            names = [full_name.format(group, name) for group in groups for name in groups[group]]
            typer.echo(json.dumps({one: names}))
            continue
        typer.echo(f"{one}: {heading}")
        width = max(map(len, groups))
        for group, members in groups.items():
            start = f"  {group:{width}}  "
            rest = " " * len(start)
            lines = textwrap.wrap(", ".join(members), LINE - len(start), break_on_hyphens=False)
            typer.echo(start + f"\n{rest}".join(lines))


def _list_names(kind: str) -> dict[str, list[str]]:
    """The names of a kind by group; reads models and methods from presets and portfolios, without
    torch."""
    groups: dict[str, list[str]] = {}
    if kind == "datasets":
        from quatgraph.data.io.store import catalog

        for entry in catalog().values():
            groups.setdefault(entry.task, []).append(entry.name)
        return groups
    if kind == "tables":
        from quatgraph.reproduce import table_names, table_values

        return {name: [table_values(name)["title"]] for name in table_names()}
    from quatgraph.presets import names, parts, preset, protocols

    for name in names():
        task, dataset, method = parts(name)
        if kind == "presets":
            groups.setdefault(f"{task}/{dataset}", []).append(method)
        elif (model := preset(name)["model"]["name"]) not in groups.setdefault(task, []):
            groups[task].append(model)
    if kind == "models":
        for task, models in groups.items():
            own = dict.fromkeys(entry["model.name"] for entry in protocols(task)["portfolio"])
            models += [model for model in own if model not in models]
    return groups


@command(data_app)
def fetch(name: Annotated[str, typer.Argument(help="A dataset such as cora.")]) -> None:
    """Download a dataset, or find it in QUATGRAPH_DATA, and verify it.

    quatgraph data fetch cora
    """
    from quatgraph.data.io import store

    found = store.fetch(name)
    typer.echo(f"{name}: {len(found)} files verified" if found else f"{name} is built in")
    entry = store.entry(name)
    log(f"licence: {entry.licence}")
    log(f"please cite: {entry.citation}")


@command(data_app)
def check(name: Annotated[str, typer.Argument(help="A dataset such as cora.")]) -> None:
    """Verify the digests of a dataset's files; exit 1 on a mismatch.

    quatgraph data check cora
    """
    from quatgraph.data.io import store

    states = store.check(name)
    for path, state in states:
        echo(f"{state:13} {path}")
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

    modules = {"node": node, "graph": graph, "link": link, "text": text}
    if task is not None:
        check_known(task, modules, f"there is no task {task!r}")
    rows = [
        {"task": name, "format": reader.name, "files": reader.description}
        for name in ([task] if task else modules)
        for reader in modules[name].READERS
    ]
    if not json_:
        typer.echo(f"{'task':5}  {'format':8}  files")
    for row in rows:
        if json_:
            emit(row)
        else:
            typer.echo(f"{row['task']:5}  {row['format']:8}  {row['files']}")


@command(data_app)
def pack(
    name: Annotated[str, typer.Argument(help="The folder of a graph, or a dataset such as cora.")],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.")],
    directed: Directed = False,
    set_: Set = None,
) -> None:
    """Write a graph as arrays that are mapped into memory, so that a large one loads at once.

    quatgraph data pack my-graph --out my-graph-packed

    quatgraph data pack ogbn_arxiv --out arxiv --directed
    """
    from quatgraph.data import node

    node.check_packable(out)
    options = ["data.directed=true"] if directed else []
    task, values = _choose_task(name, [*options, *(set_ or [])])
    if task != "node":
        raise UserError(f"{name} is {task} data; only graphs of the task node are packed")
    if directed and "path" not in values["data"]:
        raise UserError(f"--directed is for your own files, not for the dataset {name!r}")
    try:
        data = _read_data(task, values)
        node.write_packed(data, out)
    except KeyboardInterrupt as interrupt:
        log("interrupted: nothing was written")
        raise typer.Exit(exit_code(interrupt)) from None
    size = sum(file.stat().st_size for file in out.iterdir())
    echo(f"{data.num_nodes:,} nodes and {data.num_edges:,} edges in {out}, {size / 2**20:,.1f} MiB")


@command(data_app)
def stats(
    name: Annotated[str, typer.Argument(help="A dataset such as cora, or the path of your data.")],
    set_: Set = None,
    json_: Json = False,
) -> None:
    """Count graphs, nodes, edges, triples, texts and classes.

    quatgraph data stats my-graph

    quatgraph data stats reviews.csv --set data.text=body --set data.label=topic
    """
    title, numbers = _compute_statistics(name, set_ or [])
    if json_:
        emit({"name": title, **numbers})
    else:
        width = max(9, *map(len, numbers))
        for key, value in numbers.items():
            echo(f"{key:{width}} {value:,}")


def _compute_statistics(name: str, set_: list[str]) -> tuple[str, dict[str, int]]:
    """The name and statistics of a dataset, or of files that are read as ``train`` does."""
    from quatgraph.data import graph, link, node, text

    statistics: dict[str, Callable[[Any], dict[str, int]]] = {
        "node": node.statistics,
        "graph": graph.statistics,
        "link": link.statistics,
        "text": text.statistics,
    }
    task, values = _choose_task(name, set_)
    if task not in statistics:
        raise UserError(f"{name!r} is a dataset of {task}, which has no statistics")
    found = _read_data(task, values)
    return found.name, statistics[task](found)


def _choose_task(name: str, set_: list[str]) -> tuple[str, "Values"]:
    """The task of a dataset or of files, and the settings by which it reads them."""
    from quatgraph import config as configs
    from quatgraph.data.formats import infer_task, is_molecules
    from quatgraph.data.io import store

    path = Path(name)
    own = path.exists()
    if not own and (path.suffix or len(path.parts) > 1):
        raise UserError(f"no such file or folder: {name}")
    source = {"path": str(path)} if own else {"name": name}
    values = configs.override({"data": source}, set_)
    if own:  # the columns that are set tell texts and triples apart
        columns = configs.flatten(values).keys() if path.is_file() else set()
        if "data.smiles" in columns or (path.is_file() and is_molecules(path)):
            task = "graph"
        elif columns & {"data.text", "data.label"}:
            task = "text"
        elif columns & {"data.head", "data.relation", "data.tail"}:
            task = "link"
        else:
            task = infer_task(path)
    else:
        task = store.entry(name).task
    return task, values


def _read_data(task: str, values: "Values") -> Any:
    """The data of a task; reports notes."""
    from quatgraph import config as configs
    from quatgraph.data.labels import class_notes, missing_labels
    from quatgraph.tasks import TASKS
    from quatgraph.tasks.text.problem import load_documents

    config = configs.build(TASKS[task].config, values)
    load: Callable[..., Any] = load_documents if task == "text" else TASKS[task].load
    try:
        found = load(config)
    except UserError:  # data without labels cannot be trained on, but counted
        if task == "link":
            raise
        found = load(config, labels_needed=False)
        item = "document" if task == "text" else task
        missing = missing_labels(config.data.missing)
        found.notes.extend(
            class_notes(found.y.tolist(), found.label_names, missing, (item, f"{item}s"))
        )
    for note in found.notes:
        log(note)
    return found


@command(app)
def info(device: Device = "auto", json_: Json = False) -> None:
    """Show versions, device, backend and data folders.

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
            echo(f"{key:15} {value}")
