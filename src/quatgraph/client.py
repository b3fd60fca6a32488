"""A client of ``quatgraph serve`` that returns the same predictions as a loaded bundle."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import torch

from quatgraph.data.link import Triples
from quatgraph.errors import UserError, check_known
from quatgraph.predictors.predictions import (
    AnyPredictions,
    GraphPredictions,
    Links,
    Predictions,
    Support,
    TextPredictions,
)
from quatgraph.query_options import check_options

DATA = {"link": "queries", "text": "texts", "graph": "graphs"}
"""By task, the field of a request that holds new data."""


@dataclass(frozen=True, slots=True, repr=False)
class ExplainedNodes(Predictions):
    """Classes and probabilities of nodes, and what supports them."""

    support: list[dict[str, float]] | None = None
    """For each node its neighbours: the drop of the probability of the predicted class without the
    edge."""

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each, like those of :class:`Predictions`, with ``support``."""
        for row, support in zip(Predictions.rows(self), self.support or [], strict=True):
            yield row | {"support": {name: round(value, 6) for name, value in support.items()}}


class Client:
    """Queries a model of a service, and returns the same objects as the predictors.

    Args:
        url: The address that ``quatgraph serve`` printed.
        token: The token of the service, if it has one.
        model: The name of the model; not needed if the service has only one.
        timeout: Seconds to wait for a reply.

    Example:
        Query a service like a bundle; if it has several models, index by name::

            client = quatgraph.Client("http://127.0.0.1:8000", token="...")
            client.predict(head="Peru", relation="borders", top=3)
            client.explain(head="Peru", relation="borders", tail="Chile").support
            client["reviews"].predict(["a charming little film"]).labels
    """

    def __init__(
        self, url: str, *, token: str = "", model: str = "", timeout: float = 60.0
    ) -> None:
        wrong = f"{url!r} is not the address of a service, such as http://127.0.0.1:8000"
        try:
            parts = urlsplit(url)
        except ValueError:
            raise UserError(wrong) from None
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise UserError(wrong)
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")
        self.timeout, self._token, self._model = timeout, token, model
        # A redirection would carry the token to another server.
        self._opener = urllib.request.build_opener(_NoRedirection)

    def __repr__(self) -> str:
        return f"Client({self.url!r}{f', model={self._model!r}' * bool(self._model)})"

    def __getitem__(self, name: str) -> "Client":
        """The same service, and one of its models."""
        return Client(self.url, token=self._token, model=name, timeout=self.timeout)

    def models(self) -> list[dict[str, Any]]:
        """The models of the service: ``name``, ``state``, ``task``, ``metrics`` and more."""
        reply = self._call("/api/models")
        found: Any = reply.get("models") if isinstance(reply, dict) else None
        if isinstance(found, list) and all(isinstance(m, dict) and "task" in m for m in found):
            return found
        raise UserError(self._not_ours(200))

    def predict(self, data: Any = None, **options: Any) -> Any:
        """Predicts as ``quatgraph.load(bundle).predict`` does.

        Args:
            data: New data, if any: a text or texts, rows of head, relation and tail, or graphs as
                dictionaries, see :mod:`quatgraph.data.graph.jsonl`.
            options: Those of the model's predictor, such as ``top=3`` or ``nodes=["alice"]``.
        """
        return self._ask("predict", data, options)

    def explain(self, data: Any = None, **options: Any) -> Any:
        """Predicts as :meth:`predict`, and computes the ``support`` of each prediction."""
        return self._ask("explain", data, options)

    def search(self, query: str, *, kind: str = "", limit: int = 10) -> list[dict[str, str]]:
        """The ids and labels that start with a query or resemble it, the best first; ``name`` is
        what a query takes, the id if several have the label.

        Args:
            query: The beginning of a name, or something like it.
            kind: ``entities`` or ``relations``; ``nodes``, ``graphs`` or ``documents``; or
                ``classes``. The first of its task by default.
            limit: Number of names, at most.
        """
        asked = urlencode({"q": query, "kind": kind, "limit": limit})
        found: list[dict[str, str]] = self._call(f"{self._path}/search?{asked}")["results"]
        return found

    @cached_property
    def _chosen(self) -> dict[str, Any]:
        """The entry of the model in the list."""
        models = {one["name"]: one for one in self.models()}
        if not self._model and len(models) != 1:
            some = f"it has {', '.join(models)}" if models else "it has none"
            raise UserError(f"choose a model of the service, as client[name]; {some}")
        name = self._model or next(iter(models))
        check_known(name, models, f"the service has no model {name!r}")
        return models[name]

    @property
    def _path(self) -> str:
        return f"/api/models/{quote(self._chosen['name'], safe='')}"

    def _ask(self, method: str, data: Any, options: dict[str, Any]) -> AnyPredictions:
        task = self._chosen["task"]
        check_options(task, options)
        body = {key: _plain(key, value) for key, value in options.items()}
        if data is not None:
            if task not in DATA:
                raise UserError(
                    "a service classifies the nodes of its training graph: give nodes, their ids"
                )
            if isinstance(data, Path) or (isinstance(data, str) and task != "text"):
                raise UserError("a service reads no files: pass what is in it")
            body[DATA[task]] = [data] if isinstance(data, str) else _plain(DATA[task], data)
        reply = self._call(f"{self._path}/{method}", body)
        return _read_links(reply) if task == "link" else _read_classes(reply, task)

    def _call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The reply of the service to a path, with a body if it is a query."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
            request = urllib.request.Request(self.url + path, data, headers)
        except (TypeError, ValueError) as error:
            raise UserError(f"the query cannot be sent as JSON: {error}") from None
        try:
            with self._opener.open(request, timeout=self.timeout) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                raise UserError(_read_error(error) or self._not_ours(error.code)) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UserError(
                f"{self.url} does not answer ({reason}): start it with quatgraph serve"
            ) from None
        except (ValueError, RecursionError):  # no JSON, or too deep
            raise UserError(self._not_ours(200)) from None

    def _not_ours(self, status: int) -> str:
        return f"{self.url} is not a quatgraph service (status {status}): check the address"


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **keywords: Any) -> None:
        return None


def _read_error(error: urllib.error.HTTPError) -> str:
    """The sentence of a refusal; empty if it is not one of ours."""
    try:
        found = json.load(error)
    except ValueError:
        return ""
    return str(found.get("error", "")) if isinstance(found, dict) else ""


def _plain(key: str, value: Any) -> Any:
    """A value as JSON has it; ids and names may have any type."""
    if key == "queries":
        return [[None if cell is None else str(cell) for cell in row] for row in value]
    if key in ("nodes", "ids") and value is not None:
        return [str(one) for one in value]
    if key in ("head", "relation", "tail") and value is not None:
        return str(value)
    return list(value) if key in ("texts", "graphs") else value


def _read_links(reply: dict[str, Any]) -> Links:
    """The links of a reply; their graph has only the names that occur, and no triples."""
    answers: list[dict[str, Any]] = reply["answers"]
    entities, relations = dict[str, str](), dict[str, str]()
    for one in answers:
        for end in ("head", "tail"):
            entities[one.get(f"{end}_id", one[end])] = one[end]
        relations[one.get("relation_id", one["relation"])] = one["relation"]
    none = torch.empty(0, 3, dtype=torch.long)
    graph = Triples(
        "service",
        *(none, none, none),
        *(list(entities), list(relations), list(entities.values()), list(relations.values())),
    )
    # Of the whole graph, of which these names are only some.
    vars(graph)["has_labels"] = tuple(
        any(key in one for one in answers) for key in ("head_id", "relation_id")
    )
    places = [{name: place for place, name in enumerate(names)} for names in (entities, relations)]
    columns = ("head", places[0]), ("relation", places[1]), ("tail", places[0])
    triples = [
        [numbers[one.get(f"{key}_id", one[key])] for key, numbers in columns] for one in answers
    ]
    support = None
    if any("support" in one for one in answers):
        support = [[Support(**triple) for triple in one["support"]] for one in answers]
    return Links(
        graph,
        torch.tensor([one["query"] for one in answers], dtype=torch.long),
        torch.tensor(triples, dtype=torch.long).view(-1, 3),
        torch.tensor([one["score"] for one in answers]),
        torch.tensor([_ranks(one) for one in answers], dtype=torch.float64).view(-1, 2),
        [one["known"] for one in answers],
        reply["notes"],
        support,
    )


def _ranks(answer: dict[str, Any]) -> Sequence[float]:
    """The ranks of tail and head, NaN for an end that was given."""
    if answer["predicted"] == "both":
        return answer["tail_rank"], answer["head_rank"]
    pair = answer["rank"], float("nan")
    return pair if answer["predicted"] == "tail" else pair[::-1]


def _read_classes(reply: dict[str, Any], task: str) -> Predictions:
    answers: list[dict[str, Any]] = reply["answers"]

    def column(key: str) -> list[Any] | None:
        return [one[key] for one in answers] if any(key in one for one in answers) else None

    texts = column("text")
    values: dict[str, Any] = {
        "ids": texts or [one["id"] for one in answers],
        "classes": reply["classes"],
        "probabilities": torch.tensor([one["probabilities"] for one in answers]).view(
            -1, len(reply["classes"])
        ),
        "notes": reply["notes"],
        "known_labels": column("label"),
        "splits": column("split"),
    }
    if task == "text":
        values |= {"attention": column("attention"), "support": column("support")}
        return TextPredictions(**values, id_name="text" if texts else "id")
    if task == "graph":
        return GraphPredictions(**values, drops=column("nodes"), node_names=column("node_names"))
    if (edges := column("edges")) is not None:
        return ExplainedNodes(
            **values, support=[{e["node"]: e["support"] for e in own} for own in edges]
        )
    return Predictions(**values)
