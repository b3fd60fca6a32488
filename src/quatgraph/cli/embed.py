"""The command that writes the vectors of a trained model: embed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quatgraph.cli.common import Device, app, command, echo, log
from quatgraph.cli.tables import FORMATS, JSON_FORMATS, encode, format_of, is_stream
from quatgraph.errors import UserError, printable

if TYPE_CHECKING:
    from quatgraph.predictors import Embeddings

NPY = ".npy"
OWNERS = {"node": "node", "graph": "graph", "document": "text", "vectors": "text"}
OWNERS |= dict.fromkeys(("entity", "relation", "relations"), "link")
"""The task of each option."""
KEYWORDS = {"node": "nodes", "graph": "ids", "document": "ids", "entity": "names"}
KEYWORDS |= {"relation": "names", "vectors": "vectors"}
"""The keyword of ``predictor.embed`` that an option sets."""


@command(app)
def embed(
    bundle: Annotated[Path, typer.Argument(help="A folder that `train` wrote.")],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="New data in a format of `train`; the training data by default. "
            "text: also one or more texts. link: none.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file to write: .npy, with the ids beside it in a file .ids.txt, one per "
            f"line; or {', '.join(FORMATS)} with an id and the numbers v0, v1, ... in each row, "
            "in JSON a list."
        ),
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option(help="node: ID of a node to embed. Repeatable.")
    ] = None,
    graph: Annotated[
        list[str] | None, typer.Option(help="graph: ID of a graph to embed. Repeatable.")
    ] = None,
    document: Annotated[
        list[str] | None, typer.Option(help="text: ID of a document to embed. Repeatable.")
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option(help="text: vectors for new words, from the file that training read."),
    ] = None,
    entity: Annotated[
        list[str] | None, typer.Option(help="link: an entity to embed. Repeatable.")
    ] = None,
    relation: Annotated[
        list[str] | None, typer.Option(help="link: a relation to embed. Repeatable.")
    ] = None,
    relations: Annotated[
        bool, typer.Option("--relations", help="link: embed all relations, not the entities.")
    ] = False,
    member: Annotated[
        int | None,
        typer.Option(
            help="Only the vectors of this model of the bundle, counted from 0; by default those "
            "of all models side by side, each scaled by the square root of its weight."
        ),
    ] = None,
    device: Device = "auto",
) -> None:
    """Write the vectors from which a model predicts: of nodes, graphs, texts, entities or
    relations.

    quatgraph embed my-model --out vectors.npy

    quatgraph embed my-model new-data --out vectors.csv

    quatgraph embed my-model --entity Australia --out vectors.jsonl
    """
    if out is None:
        raise UserError("say where to write the vectors: --out vectors.npy, or another suffix")
    format_ = _choose_format(out)
    from quatgraph.files import check_writable, write_atomic
    from quatgraph.predictors import load

    ids_file = out.with_suffix(".ids.txt")
    for file in [out, ids_file] if format_ == NPY else [out]:
        check_writable(file)
    given: dict[str, Any] = {"node": node, "graph": graph, "document": document, "vectors": vectors}
    given |= {"entity": entity, "relation": relation, "relations": relations}
    given = {name: value for name, value in given.items() if value not in (None, [], False)}
    predictor = load(bundle, device=device)
    task = predictor.card["task"]
    query = _read_query(task, given) | {"member": member}
    source = _read_source(data or [], task, bundle)
    positional = [] if task == "link" else [source]
    found = predictor.embed(*positional, **query)
    for note in found.notes:
        log(note)
    if format_ == NPY:
        write_atomic(ids_file, "".join(f"{printable(name)}\n" for name in found.ids))
        write_atomic(out, _encode_npy(found))
    else:
        write_atomic(out, encode(_list_rows(found, format_), format_))
    count, width = found.vectors.shape
    beside = f", their ids in {ids_file}" * (format_ == NPY)
    echo(f"{count} vector{'s' * (count != 1)} of {width} numbers in {out}{beside}")


def _read_query(task: str, given: dict[str, Any]) -> dict[str, Any]:
    """The keywords of ``predictor.embed``; refuses options of other tasks."""
    for name in given:
        if OWNERS[name] != task:
            raise UserError(
                f"--{name} is an option for {OWNERS[name]} models, but the model is for the task "
                f"{task!r}"
            )
    kinds = [name for name in ("entity", "relation", "relations") if name in given]
    if len(kinds) > 1:
        raise UserError(f"--{kinds[0]} and --{kinds[1]} do not go together: choose one")
    query = {KEYWORDS[name]: value for name, value in given.items() if name in KEYWORDS}
    if kinds and kinds != ["entity"]:
        query["kind"] = "relations"
    return query


def _read_source(data: list[str], task: str, bundle: Path) -> Any:
    """The new data: a path, or texts."""
    if not data:
        return None
    if task == "link":
        raise UserError(f"{bundle} holds its triples: leave out {data[0]!r}, or use --entity")
    if task == "text":
        return data[0] if len(data) == 1 else data
    if len(data) > 1:
        raise UserError(
            f"{bundle} is for the task {task!r}, which takes one path of new data: "
            f"leave out {data[1]!r}"
        )
    return Path(data[0])


def _choose_format(out: Path) -> str:
    suffix = out.suffix.lower()
    if suffix == NPY:
        return NPY
    if suffix and suffix not in FORMATS and not is_stream(out):
        known = ", ".join((NPY, *FORMATS))
        raise UserError(f"cannot write vectors to {out}; use one of {known}")
    return format_of(out, json_=False)


def _list_rows(found: "Embeddings", format_: str) -> list[dict[str, Any]]:
    """The rows of a table; in JSON a vector is a list."""
    if format_ not in JSON_FORMATS:
        return list(found.rows())
    pairs = zip(found.ids, found.vectors.tolist(), strict=True)
    return [{"id": name, "vector": vector} for name, vector in pairs]


def _encode_npy(found: "Embeddings") -> bytes:
    import io

    import numpy as np

    file = io.BytesIO()
    np.save(file, found.vectors.numpy(), allow_pickle=False)
    return file.getvalue()
