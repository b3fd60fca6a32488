"""The typed requests of the service, generated from the table of queries; imports no torch."""

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from quatgraph.errors import UserError
from quatgraph.query_options import QUERIES, Option, check_options, find_query

MAX_ITEMS = 1000
"""Queries, texts, ids or graphs of one request, and answers to a query, at most."""


class Strict(BaseModel):
    """A part of a request. Extra fields and implicit conversions are rejected."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Graph(Strict):
    """A graph to classify, in the format of a line of a ``.jsonl`` file; checked by
    :mod:`quatgraph.data.graph.jsonl`."""

    edges: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        description="Pairs of nodes, counted from 0."
    )
    node_labels: list[str | int] | None = Field(None, description="The tag of each node.")
    node_features: list[list[float]] | None = Field(None, description="The numbers of each node.")
    edge_labels: list[str | int] | None = Field(None, description="The label of each edge.")
    edge_features: list[list[float]] | None = Field(None, description="The numbers of each edge.")
    num_nodes: int | None = Field(None, description="Needed only without all of the above.")
    label: str | int | None = Field(None, description="Its class, if it is known.")
    id: str | int | None = Field(None, description="Its name, by default its number.")


Row = Annotated[list[str | None], Field(min_length=3, max_length=3)]
DATA: dict[str, tuple[str, Any, str]] = {
    "link": (
        "queries",
        Annotated[list[Row], Field(max_length=MAX_ITEMS)],
        "Several queries: rows of head, relation and tail, null for the end to predict.",
    ),
    "text": (
        "texts",
        Annotated[list[str], Field(max_length=MAX_ITEMS)],
        "Texts to classify.",
    ),
    "graph": (
        "graphs",
        Annotated[list[Graph], Field(max_length=MAX_ITEMS)],
        "New graphs to classify.",
    ),
}
"""By task, what a request may hold beside the options: its name, type and description."""


def options_of(task: str) -> list[Option]:
    """The options that a request may give: all but paths, which are for the command line."""
    return [option for option in find_query(task).options if option.type is not Path]


def request_model(task: str) -> type[BaseModel]:
    """The body of ``predict`` and ``explain`` for models of a task."""
    fields: dict[str, Any] = {}
    if task in DATA:
        name, kind, text = DATA[task]
        fields[name] = (kind | None, Field(None, description=text))
    for option in options_of(task):
        kind = option.type
        if option.repeats:
            kind = Annotated[kind, Field(max_length=MAX_ITEMS)]
        elif kind is int:
            kind = Annotated[int, Field(ge=1, le=MAX_ITEMS)]
        if option.default is None:
            kind = kind | None
        fields[option.name] = (kind, Field(option.default, description=option.help))
    return create_model(f"{task.capitalize()}Request", __base__=Strict, **fields)


REQUESTS = {task: request_model(task) for task in ("node", "graph", "link", "text")}


def parse_request(task: str, body: bytes) -> dict[str, Any]:
    """The keywords that a body gives; a mistake is one sentence."""
    try:
        return REQUESTS[task].model_validate_json(body).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise UserError(_explain(task, error)) from None


def _explain_option(task: str, name: str) -> str:
    """Says why a request cannot have an option."""
    for query in QUERIES[task][1:]:
        spelling = f"--{query.flag}"
        if spelling.strip("-").replace("-", "_") == name.strip("-").replace("-", "_"):
            return f"{spelling} may take minutes: use the command line, quatgraph {query.command}"
    try:
        check_options(task, [name])
    except UserError as mistake:
        return str(mistake)
    return f"{name} names a file, which only the command line reads: leave it out"


def _explain(task: str, error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    place, kind = first["loc"], first["type"]
    if kind == "json_invalid":
        return 'the request is not valid JSON: send an object such as {"top": 3}'
    if kind == "extra_forbidden" and len(place) == 1:
        return _explain_option(task, str(place[0]))
    where = ".".join(map(str, place)) or "the request"
    message = first["msg"]
    return f"{where}: {message[0].lower()}{message[1:]}"
