"""Commands that look: list, data, bench, info."""

from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from quatgraph.bench import BENCHES, rows
from quatgraph.cli.shell import Device, Json, Set, app, command, emit, emit_light, tell
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
        from quatgraph.data.store import catalog

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
    from quatgraph.data import store

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
        typer.echo("\n".join(f"{key:{width}} {value:,}" for key, value in numbers.items()))


def _counted(name: str, set_: list[str]) -> tuple[str, dict[str, int]]:
    """Name and statistics of a dataset, or of a person's own files, read as ``train`` does."""
    from quatgraph import config as configs
    from quatgraph.data import graph, link, node, store, text
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
    task = _task_of(path, configs.flatten(values)) if own else store.entry(name).task
    if task not in TASKS:
        raise Mistake(f"{name!r} is a dataset of {task}, in which there is nothing to count")
    data = configs.build(TASKS[task].config, values).data
    match task:
        case "text":
            try:
                documents = load_documents(data)
            except Mistake:  # what cannot be trained on is counted all the same
                documents = load_documents(data, labels_needed=False)
            _tell_all(documents.notes)
            return documents.name, text.statistics(documents)
        case "link":
            triples = load_triples(data)
            _tell_all(triples.notes)
            return triples.name, link.statistics(triples)
        case "graph":
            graphs = load_graphs(data, labels_needed=False)
            return graphs.name, graph.statistics(graphs)
        case _:
            one = load_data(data, labels_needed=False)
            return one.name, node.statistics(one)


def _task_of(path: Path, settings: Container[str]) -> str:
    """The task whose data a person's file or folder looks like; texts alone have columns to set."""
    from quatgraph.data import link, text

    columns = "data.text" in settings or "data.label" in settings
    if columns or (path.is_file() and text.holds_texts(path)):
        return "text"
    if link.holds_triples(path):
        return "link"
    if (path / "nodes.csv").exists():
        return "node"
    if path.is_file() or any(path.glob("*_A.txt")):
        return "graph"
    if text.holds_texts(path):
        return "text"
    raise Mistake(
        f"{path} is no data of any task, which is a folder with nodes.csv, with NAME_A.txt, with "
        "train.tsv, or with a sub-folder of .txt files per label"
    )


def _tell_all(notes: list[str]) -> None:
    for note in notes:
        tell(note)


@command(app)
def bench(
    what: Annotated[
        str | None, typer.Argument(help=f"{', '.join(BENCHES)}; kernels on a GPU only.")
    ] = None,
    device: Device = "auto",
    out: Annotated[Path | None, typer.Option(help="Folder to append records to.")] = None,
    json_: Json = False,
) -> None:
    """Time the operations and trainings on this machine, variants side by side: how near its limits
    they come, and how they grow.

    quatgraph bench conv
    """
    if what is not None and what not in BENCHES:
        hint = did_you_mean(what, BENCHES) or f"; there are {', '.join(BENCHES)}"
        raise Mistake(f"there is no benchmark {what!r}{hint}")
    from quatgraph.files import ensure_folder
    from quatgraph.training.record import append_lines
    from quatgraph.training.runtime import environment, resolve_device

    where = resolve_device(device)
    about = environment(where)
    if out is not None:
        ensure_folder(out)
    for name in BENCHES if what is None else (what,):
        for row in rows(name, where):
            if json_:
                emit({"bench": name, **row})
            else:
                typer.echo("  ".join((name, *_measured(row))))
            if out is not None:
                append_lines(out / f"{name}.jsonl", [{"bench": name, **row, "environment": about}])


def _measured(row: dict[str, Any]) -> list[str]:
    """A row of a benchmark in words."""
    units = {"ms": "ms", "seconds": "s", "peak_mib": "MiB", "gb": "GB", "gflop": "GFLOP"}
    shown = []
    for key, value in row.items():
        if key == "ms_20":
            shown.append(f"({value:.4g} to {row['ms_80']:.4g})")
        elif isinstance(value, str):
            shown.append(value)
        elif isinstance(value, dict):  # what an epoch goes to
            shown += [f"{kind} {ms:.4g} ms" for kind, (ms, _) in value.items()]
        elif key != "ms_80":
            number = f"{value:.4g}"
            shown.append(f"{number} {units[key]}" if key in units else f"{key} {number}")
    return shown


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
        "cache": str(cache_root() or "no home folder; QUATGRAPH_CACHE is not set"),
    }
    if json_:
        emit(known)
    else:
        typer.echo("\n".join(f"{key:15} {value}" for key, value in known.items()))
